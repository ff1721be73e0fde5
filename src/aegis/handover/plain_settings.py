"""Settings as plain data, and what is wrong with them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from aegis.errors import SettingError, choose

Settings = TypeVar("Settings")


def from_plain(kind: type[Settings], given: Mapping[str, Any], what: str) -> Settings:
    """Return settings of a kind from plain data; SettingError for a name that does not exist."""
    known = [item.name for item in fields(kind)]  # type: ignore[arg-type]
    for name in given:
        choose(name, known, what)
    return kind(**given)


def to_plain(settings: Any) -> dict[str, Any]:
    """Return settings as plain data, from which `from_plain` makes the same ones."""
    found = {item.name: getattr(settings, item.name) for item in fields(settings)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in found.items()}


def check_number(value: object, what: str, low: float, high: float, low_too: bool = False) -> None:
    """Raise SettingError unless a setting is a finite number between low and high, low itself allowed if `low_too`."""
    plain = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not (plain and (low < value < high or (low_too and value == low))):  # type: ignore[operator]
        below = "" if math.isinf(high) else f" and below {high:g}"
        raise SettingError(f"{what} is a number {'from' if low_too else 'above'} {low:g}{below}, found {value!r}")


def check_whole(value: object, what: str, least: int = 1) -> None:
    """Raise SettingError unless a setting is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingError(f"{what} is a whole number from {least}, found {value!r}")
