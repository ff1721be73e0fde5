"""Simulated plants: worlds with known equations, their legacy controllers, and oracles that know the truth."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from aegis.errors import SettingError, choose, nearest
from aegis.worlds.additive import Additive
from aegis.worlds.clinic import Clinic
from aegis.worlds.linear import Linear
from aegis.worlds.oracle import OraclePolicy, oracle_value, per_episode, true_value
from aegis.worlds.plant import ChemicalPlant
from aegis.worlds.unified import PRESETS, SHIFTS, Unified
from aegis.worlds.world import World

WORLDS: dict[str, type[World]] = {
    "unified": Unified,
    "additive": Additive,
    "linear": Linear,
    "plant": ChemicalPlant,
    "clinic": Clinic,
}


def make_world(name: str, **settings: Any) -> World:
    """Return a world by name with some of its parameters set; raise SettingError for names it does not know."""
    choose(name, WORLDS, "world")
    allowed = [part.name for part in fields(WORLDS[name]) if part.init]  # type: ignore[arg-type]
    for key in settings:
        if key not in allowed:
            raise SettingError(f"world '{name}' has no setting '{key}'{nearest(key, allowed)}; allowed: {', '.join(allowed)}")
    return WORLDS[name](**settings)


__all__ = [
    "PRESETS",
    "SHIFTS",
    "WORLDS",
    "Additive",
    "ChemicalPlant",
    "Clinic",
    "Linear",
    "OraclePolicy",
    "Unified",
    "World",
    "make_world",
    "oracle_value",
    "per_episode",
    "true_value",
]
