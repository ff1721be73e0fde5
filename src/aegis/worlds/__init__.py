"""Simulated plants: worlds with known equations, their legacy controllers, and oracles that know the truth."""

from __future__ import annotations

from collections import ChainMap
from dataclasses import fields
from typing import Any

from aegis.errors import SettingError, check_choice, did_you_mean
from aegis.worlds.base import (
    LegacyOffer,
    World,
    full_propensity,
    named_parameters,
    parse_legacy,
    with_exploration,
)
from aegis.worlds.chemical_plant import ChemicalPlant
from aegis.worlds.clinic import Clinic
from aegis.worlds.dosing import Dosing
from aegis.worlds.linear_world import LinearWorld
from aegis.worlds.oracle import OraclePolicy, oracle_value, true_value
from aegis.worlds.unified_world import PRESETS, SHIFTS, Additive, Unified

WORLDS: dict[str, type[World]] = {
    "unified": Unified,
    "additive": Additive,
    "linear": LinearWorld,
    "plant": ChemicalPlant,
    "clinic": Clinic,
}
# Worlds whose actions are an interval. They log densities and have no probabilities of all actions, so that only what needs
# those of the actions taken applies: logs, audits, learning and certificates, not the live gate.
INTERVAL_WORLDS: dict[str, type[World]] = {"dosing": Dosing}
ALL_WORLDS: ChainMap[str, type[World]] = ChainMap(INTERVAL_WORLDS, WORLDS)


def make_world(name: str, /, *, preset: str | None = None, shift: str | None = None, **settings: Any) -> World:
    """Return a world by name with some of its parameters set.

    Parameters
    ----------
    name
        A key of `WORLDS`, or `dosing`.
    preset
        Parameters that go together (`Unified.presets`); `settings` take precedence over them.
    shift
        The world after a distribution shift (`Unified.shifts`); a parameter that the shift changes cannot be set as well.
    **settings
        Parameters of the world, by field name.

    Returns
    -------
    World
        The simulated plant.

    Raises
    ------
    SettingError
        If a name is unknown or a value is not allowed.
    """
    check_choice(name, ALL_WORLDS, "world")
    allowed = [part.name for part in fields(ALL_WORLDS[name]) if part.init]  # type: ignore[arg-type]
    for key in settings:
        if key not in allowed:
            raise SettingError(
                f"world '{name}' has no setting '{key}'{did_you_mean(key, allowed)}; allowed: {', '.join(allowed)}"
            )
    kind = ALL_WORLDS[name]
    chosen = {**(named_parameters("preset", preset, name, kind.presets) if preset is not None else {}), **settings}
    changes = named_parameters("shift", shift, name, kind.shifts) if shift is not None else {}
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
    "LegacyOffer",
    "LinearWorld",
    "OraclePolicy",
    "Unified",
    "World",
    "full_propensity",
    "make_world",
    "oracle_value",
    "parse_legacy",
    "true_value",
    "with_exploration",
]
