"""A bench: one experiment of the paper as a YAML file, with its claims, plant, arms, presets and reported numbers."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from aegis.errors import InputError, ProblemError, SettingError, check_choice
from aegis.problem import explain_validation_error, read_yaml

BENCH_FOLDER = "benches"
BENCH_PRESETS = ("quick", "full")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class PaperNumber(_Section):
    """A number that the paper reports."""

    mean: float
    sd: float | None = None


class UnitSettings(_Section):
    """What a unit runs with; arms, presets and sweeps change parts of it.

    world: `name`, perhaps `preset`, and parameters. agent: a row of the table of agents; outer_rule, model, rule, outer:
    changes of its rule for outer levels, of its model, and of the settings of its rules. standardise: whether its inputs and
    targets are put in units of their spread; by default only those of random features are. options: of the measure.
    """

    world: dict[str, Any] = Field(default_factory=dict)
    legacy: str | None = None
    agent: str | None = None
    outer_rule: str | None = None
    model: dict[str, Any] = Field(default_factory=dict)
    rule: dict[str, Any] = Field(default_factory=dict)
    outer: dict[str, Any] = Field(default_factory=dict)
    standardise: bool | None = None
    episodes: int | None = Field(default=None, ge=1)
    options: dict[str, Any] = Field(default_factory=dict)


class Arm(UnitSettings):
    """One of the things that are compared. about: what it is, in words."""

    about: str = ""


class Preset(UnitSettings):
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


class BenchClaim(_Section):
    """Something that is claimed. says: in words. test: a name of `aegis.paper.bench_claims.TESTS`; with: what it needs.

    paper: what the paper says about it. of: whose claim it is; the paper's if it says something about it. horizon: the number
    of episodes that it speaks of; with fewer it cannot be tested. statement: what the paper states, in the same words for all
    claims that judge it, in any bench; `says` by default. reading: how this claim reads what the paper leaves open. why: why it
    does not come out, if the reason is not that of the bench.
    """

    says: str
    test: str
    paper: str = ""
    of: Literal["paper", "ours"] | None = None
    statement: str = ""
    reading: str = ""
    why: str = ""
    horizon: int | None = Field(default=None, ge=1)
    entries: dict[str, Any] = Field(default_factory=dict, alias="with")

    @property
    def whose(self) -> str:
        """Return whose claim it is."""
        return self.of or ("paper" if self.paper else "ours")


class BenchFigure(_Section):
    """How it is drawn: a name of `aegis.paper.bench_figures.FIGURES`."""

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
    base: UnitSettings
    seeds: int = Field(ge=1)
    arms: dict[str, Arm] = Field(min_length=1)
    sweep: Sweep | None = None
    presets: dict[str, Preset] = Field(default_factory=dict)
    metrics: list[str] = Field(default_factory=lambda: ["reward"], min_length=1)
    unit: str = "reward per episode"
    paper: dict[str, PaperNumber | dict[str, PaperNumber]] = Field(default_factory=dict)
    claims: list[BenchClaim] = Field(default_factory=list)
    figures: list[BenchFigure] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    points: list[float] = Field(default_factory=list)
    differs: str = ""
    name: str = ""


_SECTIONS: dict[str, type[BaseModel]] = {
    "base": UnitSettings, "arms": Arm, "sweep": Sweep, "presets": Preset, "claims": BenchClaim,
    "figures": BenchFigure, "paper": PaperNumber,
}  # fmt: skip


def list_benches() -> list[str]:
    """Return the names of the benches that come with the package, in the order of the paper."""
    return sorted(item.name.removesuffix(".yaml") for item in _folder().iterdir() if item.name.endswith(".yaml"))


def load_bench(reference: str) -> Bench:
    """Return a bench by its name, or from a YAML file of your own. InputError names the file and the place in it."""
    if reference.endswith((".yaml", ".yml")):
        path = Path(reference)
        try:
            return parse_bench(path.read_text(encoding="utf-8"), path.stem, str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read {reference}: {error}; a bench of your own is a YAML file in UTF-8") from error
    check_choice(reference, list_benches(), "bench")
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
        bench = Bench.model_validate({**content, "name": name})
    except ValidationError as error:
        raise InputError(
            "\n".join(f"{source}: {line}" for line in explain_validation_error(error, content, Bench, _SECTIONS))
        ) from None
    _check(bench, source)
    return bench


def _check(bench: Bench, source: str) -> None:
    from aegis.paper.bench_claims import TESTS
    from aegis.paper.measure_table import MEASURES

    try:
        check_choice(bench.measure, MEASURES, "measure")
        for name in bench.presets:
            check_choice(name, BENCH_PRESETS, "preset of a bench")
        for claim in bench.claims:
            check_choice(claim.test, TESTS, "test of a claim")
        for arm in bench.paper:
            check_choice(arm, bench.arms, "arm in 'paper'")
    except SettingError as error:
        raise InputError(f"{source}: {error}") from error


Form = TypeVar("Form", bound=BaseModel)


def check_form(form: type[Form], values: Mapping[str, Any], above: str = "") -> Form:
    """Return settings in their form; SettingError names each that has none. above: what their names begin with."""
    try:
        return form.model_validate(dict(values))
    except ValidationError as error:
        lines = explain_validation_error(error, dict(values), form, {})
        raise SettingError("; ".join(line.replace("'", f"'{above}", 1) for line in lines)) from None


def merge_settings(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with changes made: tables are merged, everything else is replaced; what is None changes nothing."""
    merged = dict(base)
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge_settings(merged[key], value)
        elif value is not None:
            merged[key] = value
    return merged


def _folder() -> Any:
    return resources.files("aegis.paper") / BENCH_FOLDER
