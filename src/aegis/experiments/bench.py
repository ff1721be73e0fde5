"""A bench: one experiment as a YAML file. What is claimed, on which plant, who acts, for how long, and what the paper found."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aegis.errors import InputError, ProblemError, SettingError, choose
from aegis.problem.strict_yaml import explain, read_yaml

FOLDER = "benches"
PRESETS = ("quick", "full")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Known(_Section):
    """A number that the paper reports."""

    mean: float
    sd: float | None = None


class Settings(_Section):
    """What a unit runs with; arms, presets and sweeps change parts of it.

    world: `name`, perhaps `preset`, and parameters. agent: a row of the table of agents; outer_rule, model, rule, outer:
    changes of its rule for outer levels, of its model, and of the settings of its rules. options: of the measure.
    """

    world: dict[str, Any] = Field(default_factory=dict)
    legacy: str | None = None
    agent: str | None = None
    outer_rule: str | None = None
    model: dict[str, Any] = Field(default_factory=dict)
    rule: dict[str, Any] = Field(default_factory=dict)
    outer: dict[str, Any] = Field(default_factory=dict)
    episodes: int | None = Field(default=None, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)


class Arm(Settings):
    """One of the things that are compared. about: what it is, in words."""

    about: str = ""


class Preset(Settings):
    """How much of it is done. seeds: how many runs of each arm."""

    seeds: int | None = Field(default=None, ge=1)
    sweep: list[Any] | None = None


class Sweep(_Section):
    """One setting that takes several values, for every arm. key: which, such as `world.inner_points`. label: on the axis.

    pool: the values are repetitions, such as draws of random features; tables show them together.
    """

    key: str
    values: list[Any] = Field(min_length=1)
    label: str = ""
    pool: bool = False


class Claim(_Section):
    """Something that is claimed. says: in words. test: a name of `aegis.experiments.claims.TESTS`; with: what it needs.

    paper: what the paper says about it. of: whose claim it is; the paper's if it says something about it.
    """

    says: str
    test: str
    paper: str = ""
    of: Literal["paper", "ours"] | None = None
    given: dict[str, Any] = Field(default_factory=dict, alias="with")

    @property
    def whose(self) -> str:
        """Return whose claim it is."""
        return self.of or ("paper" if self.paper else "ours")


class Figure(_Section):
    """How it is drawn: a name of `aegis.experiments.figures.FIGURES`."""

    kind: str
    metric: str = "reward"
    label: str = ""


class Bench(_Section):
    """The content of a file; `name` is that of the file.

    metrics: the numbers that tables show; `bound@500` is the place of a list that belongs to 500, one of `points`. paper: by arm
    what the paper reports; by metric if there are several, by value of what is swept otherwise. differs: why numbers are not
    those of the paper, as far as it is known.
    """

    title: str
    section: str
    question: str
    measure: str
    base: Settings
    seeds: int = Field(ge=1)
    arms: dict[str, Arm] = Field(min_length=1)
    sweep: Sweep | None = None
    presets: dict[str, Preset] = Field(default_factory=dict)
    metrics: list[str] = Field(default_factory=lambda: ["reward"], min_length=1)
    unit: str = "reward per episode"
    paper: dict[str, Known | dict[str, Known]] = Field(default_factory=dict)
    claims: list[Claim] = Field(default_factory=list)
    figures: list[Figure] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    points: list[float] = Field(default_factory=list)
    differs: str = ""
    name: str = ""


_SECTIONS: dict[str, type[BaseModel]] = {
    "base": Settings, "arms": Arm, "sweep": Sweep, "presets": Preset, "claims": Claim, "figures": Figure, "paper": Known,
}  # fmt: skip


def names() -> list[str]:
    """Return the names of the benches that come with the package, in the order of the paper."""
    found = {item.name.removesuffix(".yaml") for item in _folder().iterdir() if item.name.endswith(".yaml")}
    return sorted(found)


def load_bench(reference: str) -> Bench:
    """Return a bench by its name, or from a YAML file of your own. InputError names the file and the place in it."""
    if reference.endswith((".yaml", ".yml")):
        path = Path(reference)
        try:
            return parse_bench(path.read_text(encoding="utf-8"), path.stem, str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {reference}: {error}; a bench of your own is a YAML file in UTF-8") from error
    choose(reference, names(), "bench")
    return parse_bench((_folder() / f"{reference}.yaml").read_text(encoding="utf-8"), reference, f"bench {reference}")


def parse_bench(text: str, name: str, source: str) -> Bench:
    """Return a bench from YAML text; `source` names it in error messages."""
    try:
        content = read_yaml(text, source)
    except ProblemError as error:
        raise InputError(str(error)) from error
    if not isinstance(content, dict):
        raise InputError(
            f"{source}: expected a mapping with 'title', 'measure', 'base' and 'arms', found {type(content).__name__}"
        )
    try:
        found = Bench.model_validate({**content, "name": name})
    except ValidationError as error:
        raise InputError("\n".join(f"{source}: {line}" for line in explain(error, content, Bench, _SECTIONS))) from None
    _check(found, source)
    return found


def _check(bench: Bench, source: str) -> None:
    from aegis.experiments.claims import TESTS
    from aegis.experiments.measures import MEASURES

    try:
        choose(bench.measure, MEASURES, "measure")
        for name in bench.presets:
            choose(name, PRESETS, "preset of a bench")
        for claim in bench.claims:
            choose(claim.test, TESTS, "test of a claim")
        for arm in bench.paper:
            choose(arm, bench.arms, "arm in 'paper'")
    except SettingError as error:
        raise InputError(f"{source}: {error}") from error


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with changes made: tables are merged, everything else is replaced; what is None changes nothing."""
    found = dict(base)
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(found.get(key), Mapping):
            found[key] = merged(found[key], value)
        elif value is not None:
            found[key] = value
    return found


def _folder() -> Any:
    return resources.files("aegis.experiments") / FOLDER
