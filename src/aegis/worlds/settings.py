"""Checks of world parameters: each names the parameter, what was found and what is allowed."""

from __future__ import annotations

import math
from collections.abc import Iterable

from aegis.errors import SettingError

LARGEST = 1e6  # of a parameter's modulus: beyond it squares and exponentials of the equations lose all meaning
SMALLEST_SPREAD = 1e-6  # of a standard deviation that is not 0: below it likelihood ratios overflow
MOST_DECISIONS = 10**5  # innermost ones per episode: the noise of 64 episodes is drawn at once
MOST_ACTIONS = 10**4
MOST_PROBABILITIES = 10**7  # decisions x actions of one episode at one level


def check_finite(world: object, names: Iterable[str]) -> None:
    """Require numbers of a size that can be computed with."""
    for name in names:
        _number(world, name, f"a number from {-LARGEST:.0f} to {LARGEST:.0f}", -LARGEST, LARGEST)


def check_spreads(world: object, names: Iterable[str]) -> None:
    """Require standard deviations: not negative, and neither vanishing nor enormous."""
    for name in names:
        allowed = f"a standard deviation: 0, or a number from {SMALLEST_SPREAD:g} to {LARGEST:.0f}"
        _number(world, name, allowed, 0.0, LARGEST)
        if 0 < getattr(world, name) < SMALLEST_SPREAD:
            _refuse(world, name, allowed, getattr(world, name))


def check_shares(world: object, names: Iterable[str]) -> None:
    """Require probabilities or mixing shares in [0, 1]."""
    for name in names:
        _number(world, name, "a number from 0 to 1", 0.0, 1.0)


def check_counts(world: object, names: Iterable[str], least: int = 1, most: int = MOST_DECISIONS) -> None:
    """Require whole numbers from `least` to `most`."""
    for name in names:
        value = getattr(world, name)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            _refuse(world, name, f"a whole number from {least} to {most}", value)


def check_size(world: object, steps: dict[str, int], actions: Iterable[int]) -> None:
    """Require an episode that fits into memory. steps: decisions below each parent, by parameter, outermost level first.

    actions: how many there are at each level.
    """
    rows, words = 1, " x ".join(steps)
    for number, choices in zip(steps.values(), actions, strict=True):
        rows *= number
        if rows > MOST_DECISIONS:
            raise SettingError(
                f"world '{_name(world)}': {words} gives {rows} decisions or more per episode, at most {MOST_DECISIONS} are "
                "allowed; simulate more episodes instead"
            )
        if rows * choices > MOST_PROBABILITIES:
            raise SettingError(
                f"world '{_name(world)}': {rows} decisions with {choices} actions each in one episode are {rows * choices} "
                f"probabilities, at most {MOST_PROBABILITIES} are allowed; use fewer steps or a coarser grid"
            )


def _number(world: object, name: str, allowed: str, low: float, high: float) -> None:
    value = getattr(world, name)
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    # The limits come first: a whole number beyond the floats has no answer to isfinite.
    if not (numeric and low <= value <= high and math.isfinite(value)):
        _refuse(world, name, allowed, value)


def _refuse(world: object, name: str, allowed: str, value: object) -> None:
    raise SettingError(f"world '{_name(world)}': '{name}' is {allowed}; found {value!r}")


def _name(world: object) -> str:
    return str(getattr(world, "name", type(world).__name__))
