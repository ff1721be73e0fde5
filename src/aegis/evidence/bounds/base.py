"""A lower bound, the conditions it meets and those it does not, and the choice of the largest of several at a shared risk."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from aegis.errors import RefusedError, SettingError
from aegis.evidence.grid import Array
from aegis.evidence.sketch import check_delta

Validity = Literal["anytime", "fixed time", "approximate"]


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound of a mean at risk delta, from a number of units.

    validity: 'anytime' holds at every number of units at once, 'fixed time' at one number of units chosen beforehand,
    'approximate' only as the number of units grows. met, unmet: the conditions of the theorem behind it, in words. Some are
    read off the data and some are what the caller declared; one that is not met makes the number no certificate.
    """

    method: str
    value: float
    delta: float
    units: int
    validity: Validity
    met: tuple[str, ...]
    unmet: tuple[str, ...]

    @property
    def certificate(self) -> bool:
        """Say whether the number may be shown as a certificate."""
        return not self.unmet and self.validity != "approximate"

    @property
    def label(self) -> str:
        """Return what must stand next to the number wherever it is shown."""
        if self.unmet:
            return f"not a certificate: {'; '.join(self.unmet)}"
        if self.validity == "approximate":
            return "not a certificate: right only as the number of units grows"
        return "certificate" if self.validity == "anytime" else "certificate at one number of units, fixed beforehand"

    def plain(self) -> dict[str, Any]:
        """Return plain data, with the label."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        shown = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in values.items()}
        return {**shown, "certificate": self.certificate, "label": self.label}


@dataclass(frozen=True, slots=True)
class BoundPath(Bound):
    """A bound that is computed after every unit: path `[K]`."""

    path: Array


def sort_conditions(conditions: list[tuple[bool, str, str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the conditions that are met and those that are not, from (met?, words if met, words if not)."""
    return tuple(good for met, good, _ in conditions if met), tuple(bad for met, _, bad in conditions if not met)


def unit_values(values: Array, least: float | None = None) -> Array:
    """Return values `[K]` as floats; SettingError if there are none, RefusedError if one is not finite or below `least`."""
    if np.ndim(values) != 1:
        raise SettingError(f"a bound needs one number for each unit; found an array of shape {np.shape(values)}")
    return particle_values(values, least)[:, 0]


def particle_values(values: Array, least: float | None = None) -> Array:
    """Return values `[K]` or `[K, N]` as `[K, N]`: units by particles, checked as by `unit_values`."""
    checked = np.asarray(values, dtype=np.float64)
    checked = checked[:, None] if checked.ndim == 1 else checked
    if checked.ndim != 2 or not checked.size:
        raise SettingError(
            "a bound needs the values of one unit or more, given by unit, or by unit and particle; found an array of shape "
            f"{np.shape(values)}"
        )
    good = np.isfinite(checked) if least is None else np.isfinite(checked) & (checked >= least)
    if not good.all():
        unit = int(np.argmin(good.all(axis=1)))
        wanted = "a finite number" if least is None else f"a finite number from {least:g}"
        bad = checked[unit][~good[unit]][0]
        raise RefusedError(f"unit {unit}: a unit's value is {wanted}, found {bad}; rescale rewards to [0, 1] beforehand")
    return checked


@dataclass(frozen=True, slots=True)
class Selection:
    """The scope with the largest bound, and the bounds of all, each at its share of delta."""

    scope: str
    bounds: dict[str, Bound]
    delta: float

    @property
    def bound(self) -> Bound:
        """Return the bound of the selected scope."""
        return self.bounds[self.scope]


def select_scope(scopes: Mapping[str, Callable[[float], Bound]], delta: float) -> Selection:
    """Return the scope whose bound at risk delta / M is largest, M the number of scopes; the first of equals.

    scopes: for each the function from a risk to its bound. Comparing certificates on the same units costs log M each.
    """
    if not scopes:
        raise SettingError("there is no scope to select from; name one or more")
    share = check_delta(delta) / len(scopes)
    bounds = {name: bound(share) for name, bound in scopes.items()}
    return Selection(max(bounds, key=lambda name: bounds[name].value), bounds, delta)
