"""Checks of world parameters: each names the parameter, what was found and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable

from aegis.errors import SettingError


def check_finite(world: object, names: Iterable[str]) -> None:
    """Require finite numbers."""
    for name in names:
        _number(world, name, "a finite number", -math.inf, math.inf)


def check_spreads(world: object, names: Iterable[str]) -> None:
    """Require standard deviations: finite and not negative."""
    for name in names:
        _number(world, name, "a standard deviation, a finite number from 0", 0.0, math.inf)


def check_shares(world: object, names: Iterable[str]) -> None:
    """Require probabilities or mixing shares in [0, 1]."""
    for name in names:
        _number(world, name, "a number from 0 to 1", 0.0, 1.0)


def check_counts(world: object, names: Iterable[str], least: int = 1) -> None:
    """Require whole numbers from `least`."""
    for name in names:
        value = getattr(world, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            _refuse(world, name, f"a whole number from {least}", value)


def _number(world: object, name: str, allowed: str, low: float, high: float) -> None:
    value = getattr(world, name)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    if not (numeric and math.isfinite(value) and low <= value <= high):
        _refuse(world, name, allowed, value)


def _refuse(world: object, name: str, allowed: str, value: object) -> None:
    raise SettingError(f"world '{getattr(world, 'name', type(world).__name__)}': '{name}' is {allowed}; found {value!r}")
