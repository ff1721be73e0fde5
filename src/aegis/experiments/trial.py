"""Building what a unit names, before anything is run: a setting that cannot work is told once, with its name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from pydantic import ValidationError

from aegis.agents import Agent, make_online
from aegis.errors import AegisError, SettingError, choose
from aegis.experiments.bench import Settings
from aegis.experiments.measured import OPTIONS
from aegis.experiments.measures.parts import agent_of, legacy_of, world_of
from aegis.handover import HOSTS
from aegis.handover.gates import make_gate
from aegis.paper import register_gates
from aegis.mechanisms import ModelSettings
from aegis.problem import Policy
from aegis.problem.strict_yaml import explain
from aegis.worlds import World

OF_AGENTS = ("agent", "outer_rule", "model", "rule", "outer")


def build(measure: str, settings: Mapping[str, Any]) -> None:
    """Build everything that the settings of a unit name; SettingError says which of them cannot work."""
    _check_form(measure, settings)
    options = OPTIONS[measure](**settings.get("options", {})).model_dump()
    with _naming("world"):
        world = world_of(settings)
    if measure == "offline" and options["constant"] is not None:
        settings = {**settings, "legacy": f"constant:value={options['constant']},epsilon={options['epsilon']}"}
    with _naming("legacy"):
        legacy = legacy_of(settings, world)
    _CHECKS[measure](settings, options, world, legacy)


def _check_form(measure: str, settings: Mapping[str, Any]) -> None:
    try:
        Settings.model_validate(dict(settings))
    except ValidationError as error:
        raise SettingError("; ".join(explain(error, dict(settings), Settings, {}))) from None
    if "episodes" not in settings:
        raise SettingError("'episodes' is missing: say how many are run")
    form, given = OPTIONS[measure], settings.get("options", {})
    for name in given:
        choose(name, form.model_fields, f"option of the measure '{measure}'")
    try:
        form.model_validate(dict(given))
    except ValidationError as error:
        lines = explain(error, dict(given), form, {})
        raise SettingError("; ".join(line.replace("'", "'options.", 1) for line in lines)) from None


def _online(settings: Mapping[str, Any], options: Mapping[str, Any], world: World, legacy: Policy) -> None:
    _built(settings, world, legacy, _agent(settings))


def _shift(settings: Mapping[str, Any], options: Mapping[str, Any], world: World, legacy: Policy) -> None:
    _built(settings, world, legacy, _agent(settings))
    with _naming("options.shifts"):
        for name in options["shifts"]:
            legacy_of(settings, world_of(settings, shift=name))


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
    _built(settings, world, legacy, agent)
    with _naming("options.scope"):
        world.problem.scope(options["scope"])


def _gate(settings: Mapping[str, Any], options: Mapping[str, Any], world: World, legacy: Policy) -> None:
    for name in OF_AGENTS:
        if settings.get(name):
            raise SettingError(f"'{name}' is given, but the measure 'gate' has no agent; who proposes is 'options.host'")
    with _naming("options.host"):
        choose(options["host"], HOSTS, "host")
    register_gates()
    with _naming("options.gate_settings"):
        make_gate(options["gate"], world, legacy, HOSTS[options["host"]](), options["gate_settings"], 0)


def _offline(settings: Mapping[str, Any], options: Mapping[str, Any], world: World, legacy: Policy) -> None:
    _built(settings, world, legacy, _agent(settings))
    if not 0 < round(options["alpha"] * settings["episodes"]) < settings["episodes"]:
        raise SettingError(
            f"'options.alpha' = {options['alpha']:g} of {settings['episodes']} episodes leaves none to learn from, or none to "
            "certify on; run more episodes, or use a share nearer to 0.5"
        )
    with _naming("options.prior_world"):
        choose(options["prior_world"].get("name", world.name), [world.name], "world of the prior part")
        legacy_of(settings, world_of(settings, **options["prior_world"]))
    with _naming("options.scope"):
        world.problem.scope(options["scope"])


_CHECKS = {"gate": _gate, "offline": _offline, "online": _online, "shift": _shift, "split": _split}


def _agent(settings: Mapping[str, Any]) -> Agent:
    if not settings.get("agent"):
        raise SettingError("'agent' is missing: name one, such as nested_cts")
    with _naming("model"):
        for name in settings.get("model", {}):
            choose(name, [part.name for part in fields(ModelSettings)], "setting of a model")
    with _naming("agent"):
        return agent_of(settings)


def _built(settings: Mapping[str, Any], world: World, legacy: Policy, agent: Agent) -> None:
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
