"""From settings to parts: worlds, legacies, agents."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from aegis.agents import AGENTS, Agent
from aegis.errors import SettingError, choose
from aegis.problem import Policy
from aegis.worlds import World, make_world


def world_of(settings: Mapping[str, Any], **changed: Any) -> World:
    """Return the world of a unit, some parameters changed."""
    given = {**settings.get("world", {}), **changed}
    if "name" not in given:
        raise SettingError("a bench names its world: 'world: {name: unified}'")
    return make_world(given.pop("name"), **given)


def legacy_of(settings: Mapping[str, Any], world: World) -> Policy:
    """Return the legacy; uniform choice unless another is named."""
    return world.legacy(settings.get("legacy", "uniform"))


def agent_of(settings: Mapping[str, Any]) -> Agent:
    """Return the agent with its changes. One belief is drawn per episode, as in the paper: the law of actions is the same."""
    choose(settings.get("agent", ""), AGENTS, "agent")
    found = AGENTS[settings["agent"]]
    with contextlib.suppress(SettingError):  # a rule that draws none
        found = found.with_particles(1)
    outer = settings.get("outer_rule", found.outer_rule)
    return replace(
        found,
        outer_rule=outer,
        model=replace(found.model, **settings.get("model", {})),
        rule_settings={**found.rule_settings, **settings.get("rule", {})},
        outer_settings={**found.outer_settings, **settings.get("outer", {})},
    )


def options_of(settings: Mapping[str, Any], **usual: Any) -> dict[str, Any]:
    """Return the options of a measure; SettingError for one that it does not have."""
    given = settings.get("options", {})
    for name in given:
        choose(name, usual, "option of this measure")
    return {**usual, **given}
