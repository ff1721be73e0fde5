"""The table of data sets, published ones and the simulated one of the tutorial: one entry each, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aegis.adapters.base import ConvertedLog
from aegis.adapters.datasets.coating import BATCHES, PROPENSITIES, read_coating
from aegis.adapters.datasets.heartsteps import read_heartsteps
from aegis.adapters.datasets.hillstrom import GUARDS, read_hillstrom
from aegis.adapters.datasets.oats import read_oats
from aegis.adapters.datasets.open_bandit import CAMPAIGNS, LOGGERS, UNITS, read_open_bandit
from aegis.errors import SettingError, check_choice


@dataclass(frozen=True, slots=True)
class DatasetEntry:
    """A data set.

    what: in a few words. file: what the user points at, and where it comes from. cite, licence: of the data. page: the
    walk-through. read: from the files (and settings) to a log. settings: what may be chosen, by name, the default first.
    """

    what: str
    file: str
    cite: str
    licence: str
    page: str
    read: Callable[..., ConvertedLog]
    settings: Mapping[str, Sequence[str]] = field(default_factory=dict)


DATASETS: dict[str, DatasetEntry] = {
    "coating": DatasetEntry(
        what="a simulated coating line: an oven program for every batch, a spray amount for every part; needs no file",
        file="none, AEGIS simulates it",
        cite="AEGIS, the data set of its tutorial",
        licence="Apache-2.0",
        page="docs/tutorial.md",
        read=read_coating,
        settings={"batches": tuple(BATCHES), "propensities": PROPENSITIES},
    ),
    "heartsteps": DatasetEntry(
        what="HeartSteps V1: send an activity suggestion or not, and of which type; 37 people, six weeks",
        file="suggestions.csv, as published by the authors",
        cite="Klasnja et al. 2019, Annals of Behavioral Medicine 53(6), 573-582",
        licence="CC BY 4.0",
        page="docs/examples/heartsteps.md",
        read=read_heartsteps,
    ),
    "open-bandit": DatasetEntry(
        what="Open Bandit Dataset (sample): which item to show at which position; two policies side by side",
        file="obp-0.4.1-py3-none-any.whl (pip download obp==0.4.1 --no-deps), or a folder with bts/ and random/",
        cite="Saito, Aihara, Matsutani and Narita 2020, arXiv 2008.07146",
        licence="CC BY 4.0",
        page="docs/examples/open-bandit.md",
        read=read_open_bandit,
        settings={"campaign": tuple(CAMPAIGNS), "logged_by": LOGGERS, "unit": UNITS},
    ),
    "oats": DatasetEntry(
        what="Yates's oats: variety on whole plots, nitrogen on sub-plots, six blocks",
        file="yates.oats.tsv, from the R package agridat",
        cite="Yates 1935, Journal of the Royal Statistical Society Supplement 2, 181-247",
        licence="MIT (agridat)",
        page="docs/examples/oats.md",
        read=read_oats,
    ),
    "hillstrom": DatasetEntry(
        what="MineThatData e-mail test: send one of two e-mails, or none; 64,000 customers",
        file="hillstrom.csv, the table of the challenge as published",
        cite="Kevin Hillstrom 2008, MineThatData E-Mail Analytics And Data Mining Challenge",
        licence="none stated (published for a public challenge)",
        page="docs/examples/hillstrom.md",
        read=read_hillstrom,
        settings={"guard": GUARDS},
    ),
}


def read_dataset(name: str, paths: Sequence[str | Path], **settings: object) -> ConvertedLog:
    """Return the published files `paths` as a log with its problem; the simulated data set reads none.

    Raises SettingError if the data set or a setting is unknown, LogError that names file, row and column if a file is not the
    published one.
    """
    check_choice(name, DATASETS, "data set")
    entry = DATASETS[name]
    for key, value in settings.items():
        if not entry.settings:
            raise SettingError(f"the data set '{name}' has no settings; leave out '{key}'")
        check_choice(key, entry.settings, f"setting of the data set '{name}'")
        check_choice(str(value), entry.settings[key], f"value of '{key}'")
    return entry.read([Path(path) for path in paths], **{key: str(value) for key, value in settings.items()})
