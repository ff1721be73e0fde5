"""Rules that always take the same action in the same context: sign, constant, nearest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from aegis.errors import PolicyError, nearest
from aegis.policies.rule import named_weights, need_numbers, place
from aegis.policies.support import Mask, linear, nearest_action, need_real, number, one_hot, open_actions, real_variable
from aegis.problem import Array, Level, Rows, Value, Variable


@dataclass(frozen=True, slots=True)
class Sign:
    """Always the available action nearest to size times the sign of a variable; the sign of 0 counts as +1."""

    variable: str
    size: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", number(self.size, "sign: 'size'"))

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        need_numbers(level, "sign")
        values = real_variable(rows, self.variable, place(level))
        target = np.where(values >= 0, self.size, -self.size)
        mask = open_actions(available, count, level.actions.count, place(level))
        return one_hot(nearest_action(level.actions.numbers, target, mask), level.actions.count)

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs numeric actions and a real variable."""
        need_numbers(level, "sign")
        need_real(self.variable, known, place(level))

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "sign", "variable": self.variable, "size": self.size}


@dataclass(frozen=True, slots=True)
class Constant:
    """Always the same action: the nearest to a number, or exactly a label.

    Where it is not available: the nearest available number, or the first available label.
    """

    value: Value

    def __post_init__(self) -> None:
        if isinstance(self.value, np.generic):
            object.__setattr__(self, "value", self.value.item())
        if not isinstance(self.value, str | bool):
            number(self.value, "constant: 'value'")

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        actions = level.actions
        mask = open_actions(available, count, actions.count, place(level))
        if actions.numeric:
            target = np.full(count, float(self._number(level)))
            return one_hot(nearest_action(actions.numbers, target, mask), actions.count)
        wanted = self._label(level)
        return one_hot(np.where(mask[:, wanted], wanted, np.argmax(mask, axis=1)), actions.count)

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs a number for numeric actions, a known label for labels."""
        if level.actions.numeric:
            self._number(level)
        else:
            self._label(level)

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "constant", "value": self.value}

    def _number(self, level: Level) -> float:
        if isinstance(self.value, str | bool):
            raise PolicyError(f"{place(level)}: its actions are numbers, and constant: {self.value!r} is not a number")
        return self.value

    def _label(self, level: Level) -> int:
        labels = level.actions.values
        if self.value in labels:
            return labels.index(self.value)
        hint = nearest(str(self.value), labels)
        raise PolicyError(f"{place(level)}: there is no action {self.value!r}{hint}; actions: {', '.join(map(str, labels))}")


@dataclass(frozen=True, slots=True)
class Nearest:
    """Always the available action nearest to a linear predictor: a deterministic controller."""

    weights: Mapping[str, float]
    intercept: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", named_weights(self.weights, "nearest"))
        object.__setattr__(self, "intercept", number(self.intercept, "nearest: 'intercept'"))

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        need_numbers(level, "nearest")
        target = linear(self.weights, self.intercept, rows, count, place(level))
        mask = open_actions(available, count, level.actions.count, place(level))
        return one_hot(nearest_action(level.actions.numbers, target, mask), level.actions.count)

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs numeric actions and real variables."""
        need_numbers(level, "nearest")
        for name in self.weights:
            need_real(name, known, place(level))

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "nearest", "weights": dict(self.weights), "intercept": self.intercept}
