"""Checks of a bench before it is run: its settings, and whether its numbers, claims and figures can come out of it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, ValidationError, create_model

from aegis.errors import InputError, SettingError, choose
from aegis.experiments.bench import Bench, Claim, Figure
from aegis.experiments.claims import TESTS, UNTESTED, judge
from aegis.experiments.figures import FIGURES
from aegis.experiments.measured import Metrics, metrics_of
from aegis.experiments.results import Results, key_of
from aegis.experiments.trial import build
from aegis.experiments.units import Unit
from aegis.problem.strict_yaml import explain
from aegis.rng import stream

NAMING_METRICS = ("metric", "than", "over")  # entries under `with` that may name a metric
OF_SWEEPS = ("draws", "flat", "peak", "trend")  # tests over all values of what is swept
OF_LISTS = ("contraction",)  # tests that look at a whole list
PLACES, RUNS = 64, 3  # of made-up lists, and of each arm
ONE_VALUE = ("banner", "bars", "convergence", "curves", "flips")  # figures of a bench without a sweep
OF_GATES = ("banner", "flips")


def check_settings(units: Sequence[Unit]) -> dict[str, Metrics]:
    """Build what every unit names, and return by arm what its runs give; SettingError names bench, arm and setting."""
    found: dict[str, Metrics] = {}
    for unit in units:
        try:
            build(unit.measure, unit.settings)
        except SettingError as error:
            raise SettingError(f"bench {unit.bench}, {unit.label}: {error}") from error
        found[unit.arm] = metrics_of(unit.measure, unit.settings)
    return found


def check_bench(bench: Bench, metrics: Mapping[str, Metrics]) -> None:
    """Raise InputError if a number, a claim or a figure of a bench cannot come out of it. metrics: by arm what runs give."""
    try:
        for name in bench.metrics:
            _check_number(bench, name, metrics, "metric in 'metrics'")
        _check_paper(bench)
        for figure in bench.figures:
            _check_figure(bench, figure, metrics)
    except SettingError as error:
        raise InputError(f"bench {bench.name}: {error}") from error
    _check_claims(bench, metrics)


def _check_number(bench: Bench, name: str, metrics: Mapping[str, Metrics], what: str) -> None:
    """Check that a name is that of a number in every arm: a metric, or the place of a list such as `bound@500`."""
    listed, sign, point = name.partition("@")
    for arm, known in metrics.items():
        if not sign:
            if name in known.lists:
                raise SettingError(f"{what}: '{name}' is a list in the arm '{arm}'; name a place of it, such as {name}@POINT")
            choose(name, known.numbers, f"{what} of the arm '{arm}'")
            continue
        choose(listed, known.lists, f"list in {what} of the arm '{arm}'")
        choose(point, [key_of(value) for value in bench.points], f"point of '{listed}' (of 'points' of the bench)")


def _check_paper(bench: Bench) -> None:
    """Check that what the paper reports stands where it is looked for."""
    swept = [] if bench.sweep is None else [key_of(value) for value in _values(bench)]
    allowed = bench.metrics if len(bench.metrics) > 1 else swept
    for arm, known in bench.paper.items():
        for key in known if isinstance(known, dict) else ():
            choose(key, allowed, f"key under 'paper.{arm}'")


def _check_figure(bench: Bench, figure: Figure, metrics: Mapping[str, Metrics]) -> None:
    choose(figure.kind, FIGURES, "kind of a figure")
    if figure.kind == "sweep" and bench.sweep is None:
        raise SettingError("a figure of kind 'sweep' needs a 'sweep'; without one use 'bars'")
    if figure.kind in ONE_VALUE and bench.sweep is not None:
        raise SettingError(f"a figure of kind '{figure.kind}' has no place for what is swept; use 'sweep' or 'grouped'")
    if figure.kind in OF_GATES and bench.measure != "gate":
        raise SettingError(f"a figure of kind '{figure.kind}' shows a handover, and the measure is '{bench.measure}', not 'gate'")
    if figure.kind == "convergence" and (bench.measure != "split" or "points" not in bench.base.options):
        raise SettingError("a figure of kind 'convergence' needs the measure 'split' and 'points' in the options of the base")
    if figure.kind in ("bars", "sweep"):
        _check_number(bench, figure.metric, metrics, "metric of a figure")
    if figure.kind == "curves":
        for arm, known in metrics.items():
            choose(figure.metric, known.lists, f"list for the curve of the arm '{arm}'")


def _check_claims(bench: Bench, metrics: Mapping[str, Metrics]) -> None:
    """Judge every claim on made-up numbers of a whole run: one that cannot be tested then never can."""
    values = [None] if bench.sweep is None else _values(bench)
    made = {
        (arm, value): {seed: _made_up(known, bench.name, arm, str(value), seed) for seed in range(RUNS)}
        for arm, known in metrics.items()
        for value in values
    }
    results = Results(bench, "full", RUNS, made)
    for claim in bench.claims:
        try:
            if bench.sweep is None and claim.test in OF_SWEEPS:
                raise SettingError(f"the test '{claim.test}' needs a 'sweep'")
            _check_form(claim)
            _check_metrics(claim, metrics)
            judged = judge(claim, results)
        except (SettingError, KeyError, IndexError, ValueError, TypeError) as error:
            raise InputError(f"bench {bench.name}, claim '{claim.says}': {_words(error)}") from error
        if judged.verdict == UNTESTED:
            raise InputError(f"bench {bench.name}, claim '{claim.says}': it can never be tested: {judged.why}")


def _check_form(claim: Claim) -> None:
    """Check names and types under `with` against the test's own signature."""
    _, *taken = inspect.signature(TESTS[claim.test], eval_str=True).parameters.values()
    entries: dict[str, Any] = {own.name: (own.annotation, ... if own.default is own.empty else own.default) for own in taken}
    form = create_model(claim.test, __config__=ConfigDict(extra="forbid", strict=True), **entries)
    try:
        form.model_validate(claim.given)
    except ValidationError as error:
        raise SettingError("under 'with': " + "; ".join(explain(error, claim.given, form, {}))) from None


def _check_metrics(claim: Claim, metrics: Mapping[str, Metrics]) -> None:
    names = list(dict.fromkeys(name for known in metrics.values() for name in known.all))
    lists = {name for known in metrics.values() for name in known.lists}
    for entry in NAMING_METRICS:
        given = claim.given.get(entry)
        if not isinstance(given, str):
            continue
        choose(given.partition("@")[0], names, f"metric under 'with.{entry}'")
        if given in lists and claim.test not in OF_LISTS and "at" not in claim.given:
            raise SettingError(f"'with.{entry}': '{given}' is a list; name a place of it, such as {given}@POINT")


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, SettingError) else f"'with' does not fit ({type(error).__name__}: {error})"


def _made_up(known: Metrics, *name: str | int) -> dict[str, Any]:
    rng = stream(0, "made up", *name)
    return {
        **{metric: 1.0 + float(rng.random()) for metric in known.numbers},
        **{metric: [1.0 + float(number) for number in rng.random(PLACES)] for metric in known.lists},
    }


def _values(bench: Bench) -> list[Any]:
    """Return every value that is swept under some preset."""
    if bench.sweep is None:
        return []
    found = list(bench.sweep.values)
    for preset in bench.presets.values():
        found += [value for value in preset.sweep or () if value not in found]
    return found
