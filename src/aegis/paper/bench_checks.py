"""Checks of a bench before it is run: its settings are built once, and its numbers, claims and figures must be known."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from pydantic import ConfigDict, ValidationError, create_model

from aegis.agents import Agent, make_online
from aegis.errors import AegisError, InputError, SettingError, check_choice
from aegis.handover import HOSTS, make_gate
from aegis.mechanisms import ModelSettings
from aegis.paper.bench_claims import TESTS, named_arm
from aegis.paper.bench_figures import FIGURES
from aegis.paper.bench_file import Bench, BenchClaim, BenchFigure, UnitSettings
from aegis.paper.bench_results import BenchResults, MissingResult
from aegis.paper.bench_units import BenchUnit, key_of
from aegis.paper.gates import register_gates
from aegis.paper.measure_table import OPTIONS, MetricNames, metrics_of
from aegis.paper.run_measures import unit_agent, unit_legacy, unit_world
from aegis.problem import Policy, explain_validation_error
from aegis.worlds import World

OF_AGENTS = ("agent", "outer_rule", "model", "rule", "outer")


def build_unit(measure: str, settings: Mapping[str, Any]) -> None:
    """Build everything that the settings of a unit name; SettingError says which of them cannot work."""
    _check_unit_form(measure, settings)
    options = OPTIONS[measure](**settings.get("options", {})).model_dump()
    with _naming("world"):
        world = unit_world(settings)
    if measure == "offline" and options["constant"] is not None:
        settings = {**settings, "legacy": f"constant:value={options['constant']},epsilon={options['epsilon']}"}
    with _naming("legacy"):
        legacy = unit_legacy(settings, world)
    _CHECKS[measure](settings, options, world, legacy)


def _check_unit_form(measure: str, settings: Mapping[str, Any]) -> None:
    try:
        UnitSettings.model_validate(dict(settings))
    except ValidationError as error:
        raise SettingError("; ".join(explain_validation_error(error, dict(settings), UnitSettings, {}))) from None
    if "episodes" not in settings:
        raise SettingError("'episodes' is missing: say how many are run")
    form, options = OPTIONS[measure], settings.get("options", {})
    for name in options:
        check_choice(name, form.model_fields, f"option of the measure '{measure}'")
    try:
        form.model_validate(dict(options))
    except ValidationError as error:
        lines = explain_validation_error(error, dict(options), form, {})
        raise SettingError("; ".join(line.replace("'", "'options.", 1) for line in lines)) from None


def _online(settings: Mapping[str, Any], options: Mapping[str, Any], world: World, legacy: Policy) -> None:
    _start_run(settings, world, legacy, _agent(settings))


def _shift(settings: Mapping[str, Any], options: Mapping[str, Any], world: World, legacy: Policy) -> None:
    _start_run(settings, world, legacy, _agent(settings))
    with _naming("options.shifts"):
        for name in options["shifts"]:
            unit_legacy(settings, unit_world(settings, shift=name))


def _split(settings: Mapping[str, Any], options: Mapping[str, Any], world: World, legacy: Policy) -> None:
    agent, points, episodes = _agent(settings), options["points"], settings["episodes"]
    if points != sorted(set(points)):
        raise SettingError(f"'options.points' are numbers of episodes that grow, found {points}")
    if points[0] > episodes:
        raise SettingError(
            f"'episodes' is {episodes}, and the first bound comes after {points[0]} ('options.points'); "
            f"run as many, or set the points, too: --set options.points=[{episodes}]"
        )
    if options["logger"] == "agent":
        with _naming("options.particles"):
            agent = agent.with_particles(options["particles"])
    _start_run(settings, world, legacy, agent)
    with _naming("options.scope"):
        world.problem.scope(options["scope"])


def _gate(settings: Mapping[str, Any], options: Mapping[str, Any], world: World, legacy: Policy) -> None:
    for name in OF_AGENTS:
        if settings.get(name):
            raise SettingError(f"'{name}' is given, but the measure 'gate' has no agent; who proposes is 'options.host'")
    with _naming("options.host"):
        check_choice(options["host"], HOSTS, "host")
    register_gates()
    with _naming("options.gate_settings"):
        make_gate(options["gate"], world, legacy, HOSTS[options["host"]](), options["gate_settings"], 0)


def _offline(settings: Mapping[str, Any], options: Mapping[str, Any], world: World, legacy: Policy) -> None:
    _start_run(settings, world, legacy, _agent(settings))
    if not 0 < round(options["alpha"] * settings["episodes"]) < settings["episodes"]:
        raise SettingError(
            f"'options.alpha' = {options['alpha']:g} of {settings['episodes']} episodes leaves none to learn from, or none to "
            "certify on; run more episodes, or use a share nearer to 0.5"
        )
    with _naming("options.prior_world"):
        check_choice(options["prior_world"].get("name", world.name), [world.name], "world of the prior part")
        unit_legacy(settings, unit_world(settings, **options["prior_world"]))
    with _naming("options.scope"):
        world.problem.scope(options["scope"])


def _agent(settings: Mapping[str, Any]) -> Agent:
    if not settings.get("agent"):
        raise SettingError("'agent' is missing: name one, such as nested_cts")
    with _naming("model"):
        for name in settings.get("model", {}):
            check_choice(name, [part.name for part in fields(ModelSettings)], "setting of a model")
    with _naming("agent"):
        return unit_agent(settings)


def _start_run(settings: Mapping[str, Any], world: World, legacy: Policy, agent: Agent) -> None:
    """Start a run of the agent, which looks at every part of its model."""
    with _naming("model" if settings.get("model") else "agent"):
        make_online(world, agent, 0, legacy).prior()


@contextlib.contextmanager
def _naming(setting: str) -> Iterator[None]:
    try:
        yield
    except AegisError as error:
        raise SettingError(f"'{setting}': {error}") from error
    except (TypeError, ValueError, AttributeError, KeyError, IndexError, ArithmeticError) as error:
        raise SettingError(f"'{setting}' cannot be used ({type(error).__name__}: {error})") from error


_CHECKS = {"gate": _gate, "offline": _offline, "online": _online, "shift": _shift, "split": _split}


NAMING_METRICS = ("metric", "than", "over")  # entries under `with` that may name a metric

NAMING_ARMS = ("above", "below", "left", "right", "arm")  # entries that name an arm

OF_SWEEPS = ("draws", "flat", "peak", "trend")  # tests over all values of what is swept

OF_LISTS = ("contraction",)  # tests that look at a whole list

ONE_VALUE = ("banner", "bars", "convergence", "curves", "flips")  # figures of a bench without a sweep

OF_GATES = ("banner", "flips")


def check_settings(units: Sequence[BenchUnit]) -> dict[str, MetricNames]:
    """Build what every unit names, and return by arm what its runs give; SettingError names bench, arm and setting."""
    metrics: dict[str, MetricNames] = {}
    for unit in units:
        try:
            build_unit(unit.measure, unit.settings)
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
    try:
        form.model_validate(claim.entries)
    except ValidationError as error:
        raise SettingError("under 'with': " + "; ".join(explain_validation_error(error, claim.entries, form, {}))) from None


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
