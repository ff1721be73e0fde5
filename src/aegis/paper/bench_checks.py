"""Checks of a bench before it is run: its settings are built once, and its numbers, claims and figures must be known."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ConfigDict, create_model

from aegis.errors import InputError, SettingError, check_choice
from aegis.paper.bench_claims import TESTS, named_arm
from aegis.paper.bench_figures import FIGURES
from aegis.paper.bench_file import Bench, BenchClaim, BenchFigure, UnitSettings, check_form
from aegis.paper.bench_results import NAMING_ARMS, BenchResults, MissingResult
from aegis.paper.bench_units import BenchUnit, key_of
from aegis.paper.measure_table import MEASURES, MetricNames, metrics_of

NAMING_METRICS = ("metric", "than", "over", "among")  # entries under `with` that may name a metric

OF_SWEEPS = (
    "concave",
    "draws",
    "flat",
    "peak",
    "pooled",
    "ranks",
    "same peak",
    "trend",
)  # tests over all values of what is swept

OF_LISTS = ("contraction",)  # tests that look at a whole list

ONE_VALUE = ("banner", "bars", "convergence", "curves", "flips")  # figures of a bench without a sweep

OF_GATES = ("banner", "flips")


def check_settings(units: Sequence[BenchUnit]) -> dict[str, MetricNames]:
    """Build what every unit names, and return by arm what its runs give; SettingError names bench, arm and setting."""
    metrics: dict[str, MetricNames] = {}
    for unit in units:
        try:
            check_form(UnitSettings, unit.settings)
            if "episodes" not in unit.settings:
                raise SettingError("'episodes' is missing: say how many are run")
            MEASURES[unit.measure](unit.settings, ())
        except SettingError as error:
            raise SettingError(f"bench {unit.bench}, {unit.label}: {error}") from error
        metrics[unit.arm] = metrics_of(unit.measure, unit.settings)
    return metrics


def check_bench(bench: Bench, metrics: Mapping[str, MetricNames]) -> None:
    """Raise InputError if a number, a claim or a figure of a bench cannot come out of it. metrics: by arm what runs give."""
    try:
        for name in bench.metrics:
            _check_number(bench, name, metrics, "metric in 'metrics'")
        for figure in bench.figures:
            _check_figure(bench, figure, metrics)
        _check_paper(bench)
    except SettingError as error:
        raise InputError(f"bench {bench.name}: {error}") from error
    _check_claims(bench, metrics)


def _check_paper(bench: Bench) -> None:
    """Check that the paper's numbers have the names of metrics, or of swept values."""
    swept = [] if bench.sweep is None else [key_of(value) for value in _values(bench)]
    allowed = bench.metrics if len(bench.metrics) > 1 else swept
    for arm, numbers in bench.paper.items():
        for key in numbers if isinstance(numbers, dict) else ():
            check_choice(key, allowed, f"key under 'paper.{arm}'")


def _check_number(bench: Bench, name: str, metrics: Mapping[str, MetricNames], what: str) -> None:
    """Check that a name is that of a number in every arm: a metric, or the place of a list such as `bound@500`."""
    listed, sign, point = name.partition("@")
    for arm, known in metrics.items():
        if not sign:
            if name in known.lists:
                raise SettingError(f"{what}: '{name}' is a list in the arm '{arm}'; name a place of it, such as {name}@POINT")
            check_choice(name, known.numbers, f"{what} of the arm '{arm}'")
            continue
        check_choice(listed, known.lists, f"list in {what} of the arm '{arm}'")
        check_choice(point, [key_of(value) for value in bench.points], f"point of '{listed}' (of 'points' of the bench)")


def _check_figure(bench: Bench, figure: BenchFigure, metrics: Mapping[str, MetricNames]) -> None:
    check_choice(figure.kind, FIGURES, "kind of a figure")
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
            check_choice(figure.metric, known.lists, f"list for the curve of the arm '{arm}'")


def _check_claims(bench: Bench, metrics: Mapping[str, MetricNames]) -> None:
    """Check that a claim's test, entries, metrics and arms are there."""
    units: dict[tuple[str, Any], dict[int, Any]] = {(arm, value): {} for arm in bench.arms for value in _values(bench)}
    results = BenchResults(bench=bench, preset="full", seeds=0, runs=units)  # without a run
    for claim in bench.claims:
        try:
            if bench.sweep is None and claim.test in OF_SWEEPS:
                raise SettingError(f"the test '{claim.test}' needs a 'sweep'")
            _check_claim_form(claim)
            _check_metrics(claim, metrics)
            for arm in [claim.entries[entry] for entry in NAMING_ARMS if entry in claim.entries]:
                if claim.test in OF_SWEEPS:
                    check_choice(arm, bench.arms, "arm")
                else:
                    named_arm(results, arm)
        except (SettingError, MissingResult) as error:
            raise InputError(f"bench {bench.name}, claim '{claim.says}': {error}") from error


def _check_claim_form(claim: BenchClaim) -> None:
    """Check names and types under `with` against the test's own signature."""
    _, *taken = inspect.signature(TESTS[claim.test], eval_str=True).parameters.values()
    entries: dict[str, Any] = {own.name: (own.annotation, ... if own.default is own.empty else own.default) for own in taken}
    form = create_model(claim.test, __config__=ConfigDict(extra="forbid", strict=True), **entries)
    check_form(form, claim.entries, "with.")


def _check_metrics(claim: BenchClaim, metrics: Mapping[str, MetricNames]) -> None:
    names = list(dict.fromkeys(name for known in metrics.values() for name in known.all))
    lists = {name for known in metrics.values() for name in known.lists}
    for entry in NAMING_METRICS:
        metric = claim.entries.get(entry)
        if not isinstance(metric, str):
            continue
        check_choice(metric.partition("@")[0], names, f"metric under 'with.{entry}'")
        if metric in lists and claim.test not in OF_LISTS and "at" not in claim.entries:
            raise SettingError(f"'with.{entry}': '{metric}' is a list; name a place of it, such as {metric}@POINT")


def _values(bench: Bench) -> list[Any]:
    """Return every value that is swept under some preset, `[None]` without a sweep."""
    if bench.sweep is None:
        return [None]
    values = list(bench.sweep.values)
    for preset in bench.presets.values():
        values += [value for value in preset.sweep or () if value not in values]
    return values
