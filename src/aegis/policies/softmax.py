"""Scores turned into probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aegis.errors import PolicyError, SettingError
from aegis.policies.rule import place
from aegis.policies.support import Mask, need_real, number, open_actions, real_variable
from aegis.problem import Array, Level, Rows, Variable


@dataclass(frozen=True, slots=True)
class Softmax:
    """Probabilities proportional to exp(score / temperature), score_a = intercept_a + sum of slopes[v][a] times v."""

    intercepts: tuple[float, ...]
    slopes: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    temperature: float = 1.0

    def __post_init__(self) -> None:
        size = len(self.intercepts)
        for name, slope in self.slopes.items():
            if len(slope) != size:
                raise SettingError(
                    f"softmax: the slopes of '{name}' are one number per action, like the {size} intercepts; found {len(slope)}"
                )
        slopes = {name: _numbers(self.slopes[name], f"softmax: slope of '{name}'") for name in sorted(self.slopes)}
        object.__setattr__(self, "intercepts", _numbers(self.intercepts, "softmax: intercept"))
        object.__setattr__(self, "slopes", slopes)
        temperature = number(self.temperature, "softmax: 'temperature'", low=0.0)
        if temperature == 0:
            raise SettingError("softmax: 'temperature' is above 0, found 0; for a deterministic choice use another rule")
        object.__setattr__(self, "temperature", temperature)

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return `[n, A]`."""
        self._fits(level)
        mask = open_actions(available, count, level.actions.count, place(level))
        score = np.tile(np.asarray(self.intercepts), (count, 1))
        with np.errstate(over="ignore", invalid="ignore"):  # looked at right below
            for name, slope in self.slopes.items():
                score = score + real_variable(rows, name, place(level))[:, None] * np.asarray(slope)
            score = score / self.temperature
        if not np.isfinite(score).all():
            raise PolicyError(f"{place(level)}: the softmax scores overflow; scale the variables or the slopes down")
        score = np.where(mask, score, -np.inf)
        mass = np.exp(score - score.max(axis=1, keepdims=True))
        return np.asarray(mass / mass.sum(axis=1, keepdims=True))

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Needs one intercept per action and real variables."""
        self._fits(level)
        for name in self.slopes:
            need_real(name, known, place(level))

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        slopes = {name: list(slope) for name, slope in self.slopes.items()}
        return {"kind": "softmax", "intercepts": list(self.intercepts), "slopes": slopes, "temperature": self.temperature}

    def _fits(self, level: Level) -> None:
        if len(self.intercepts) != level.actions.count:
            raise PolicyError(
                f"{place(level)}: softmax needs one intercept per action, {level.actions.count}; found {len(self.intercepts)}"
            )


def _numbers(values: Sequence[float], what: str) -> tuple[float, ...]:
    return tuple(number(value, f"{what} {position + 1}") for position, value in enumerate(values))
