"""The table of data sets: every entry is complete, and what is asked for is checked."""

from __future__ import annotations

from pathlib import Path

import pytest
from published_samples import (
    customers,
    impressions,
    oats,
    suggestions,
    write_customers,
    write_oats,
    write_suggestions,
    write_wheel,
)

from aegis.adapters import DATASETS, read_dataset
from aegis.errors import LogError, SettingError
from aegis.logs import Source
from aegis.problem import load_problem

ROOT = Path(__file__).parents[2]


def sample(name: str, folder: Path) -> list[Path]:
    """Write small files of the shape of a data set."""
    if name == "coating":
        return []
    if name == "heartsteps":
        return [write_suggestions(folder / "suggestions.csv", suggestions())]
    if name == "oats":
        return [write_oats(folder / "yates.oats.tsv", oats())]
    if name == "hillstrom":
        return [write_customers(folder / "hillstrom.csv", customers())]
    logs = {logger: impressions(logger, "all", seed=3) for logger in ("random", "bts")}
    return [write_wheel(folder / "obp.whl", "all", logs)]


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_writes_a_log_that_reads_with_its_problem_file(name: str, tmp_path: Path) -> None:
    written = read_dataset(name, sample(name, tmp_path)).write(tmp_path / "out")
    problem = load_problem(written["problem"])
    batch = Source(written["log"], problem).read()
    assert len(batch) and problem.reward.range is not None
    assert problem == read_dataset(name, sample(name, tmp_path)).problem


@pytest.mark.parametrize("name", DATASETS)
def test_every_data_set_says_where_it_comes_from(name: str) -> None:
    entry = DATASETS[name]
    assert (ROOT / entry.page).exists()
    page = (ROOT / entry.page).read_text(encoding="utf-8")
    for word in (entry.cite.split(",")[0].split(" ")[0], entry.licence.split(" (")[0], f"aegis dataset {name}"):
        assert word in page, word


@pytest.mark.parametrize("name", DATASETS)
def test_a_file_of_something_else_is_an_error_that_names_it(name: str, tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(LogError, match=r"other\.csv"):
        read_dataset(name, [tmp_path / "other.csv"])


def test_settings_are_checked(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"unknown data set 'heartstep' \(did you mean 'heartsteps'\?\)"):
        read_dataset("heartstep", [])
    with pytest.raises(SettingError, match="the data set 'oats' has no settings; leave out 'campaign'"):
        read_dataset("oats", [], campaign="men")
    with pytest.raises(SettingError, match="unknown setting of the data set 'open-bandit' 'day'"):
        read_dataset("open-bandit", [], day="1")
    with pytest.raises(SettingError, match="unknown value of 'campaign' 'mens'"):
        read_dataset("open-bandit", [], campaign="mens")
