"""Simulated plants: worlds with known equations, their legacy controllers, and oracles that know the truth."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import fields
from typing import Any

from aegis.errors import SettingError, choose, nearest
from aegis.worlds.additive import Additive
from aegis.worlds.clinic import Clinic
from aegis.worlds.dosing import Dosing
from aegis.worlds.linear import Linear
from aegis.worlds.oracle import OraclePolicy, oracle_value, per_episode, true_value
from aegis.worlds.plant import ChemicalPlant
from aegis.worlds.unified import PRESETS, SHIFTS, Unified
from aegis.worlds.world import World, entry

WORLDS: dict[str, type[World]] = {
    "unified": Unified,
    "additive": Additive,
    "linear": Linear,
    "plant": ChemicalPlant,
    "clinic": Clinic,
}
# Worlds whose actions are an interval. They log densities and have no probabilities of all actions, so that only what needs
# those of the actions taken applies: logs, audits, learning and certificates, not the live gate.
INTERVAL_WORLDS: dict[str, type[World]] = {"dosing": Dosing}
ALL_WORLDS: ChainMap[str, type[World]] = ChainMap(INTERVAL_WORLDS, WORLDS)


def make_world(name: str, /, *, preset: str | None = None, shift: str | None = None, **settings: Any) -> World:
    """Return a world by name with some of its parameters set; raise SettingError for names it does not know.

    preset: parameters that go together (`Unified.presets`), over which `settings` take precedence. shift: the world after a
    distribution shift (`Unified.shifts`); a parameter that the shift changes cannot be set as well.
    """
    choose(name, ALL_WORLDS, "world")
    allowed = [part.name for part in fields(ALL_WORLDS[name]) if part.init]  # type: ignore[arg-type]
    for key in settings:
        if key not in allowed:
            raise SettingError(f"world '{name}' has no setting '{key}'{nearest(key, allowed)}; allowed: {', '.join(allowed)}")
    kind = ALL_WORLDS[name]
    chosen = {**(entry("preset", preset, name, kind.presets) if preset is not None else {}), **settings}
    changes = entry("shift", shift, name, kind.shifts) if shift is not None else {}
    for key in settings:
        if key in changes:
            raise SettingError(f"shift '{shift}' sets '{key}' to {changes[key]:g}: leave out '{key}' or the shift")
    return kind(**{**chosen, **changes})


__all__ = [
    "ALL_WORLDS",
    "INTERVAL_WORLDS",
    "PRESETS",
    "SHIFTS",
    "WORLDS",
    "Additive",
    "ChemicalPlant",
    "Clinic",
    "Dosing",
    "Linear",
    "OraclePolicy",
    "Unified",
    "World",
    "make_world",
    "oracle_value",
    "per_episode",
    "true_value",
]
