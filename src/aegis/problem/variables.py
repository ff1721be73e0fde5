"""Variables of a problem: what a context, an outcome or an action may be."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from aegis.errors import ProblemError

Value = str | int | float | bool
Kind = Literal["real", "vector", "categorical"]


@dataclass(frozen=True, slots=True)
class Variable:
    """A context or an outcome.

    real: one number per row, held as `float64[n]`; vector: `float64[n, d]`, one column of the log per coordinate;
    categorical: `int32[n]` codes into `values`.
    """

    name: str
    kind: Kind = "real"
    columns: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        if not self.columns:
            object.__setattr__(self, "columns", (self.name,))
        if self.kind == "categorical":
            if len(self.values) < 2:
                raise ProblemError(f"categorical variable '{self.name}': needs at least two values, found {list(self.values)}")
            _no_duplicates(self.values, f"categorical variable '{self.name}'")
        elif self.values:
            raise ProblemError(f"variable '{self.name}' is {self.kind}: only a categorical variable has values")
        if self.kind != "vector" and len(self.columns) != 1:
            raise ProblemError(f"variable '{self.name}' is {self.kind}: it has one column, found {list(self.columns)}")
        _no_duplicates(self.columns, f"variable '{self.name}'")

    @property
    def width(self) -> int:
        """How many numbers a regression on this variable sees: 1, d, or one indicator per category."""
        if self.kind == "categorical":
            return len(self.values)
        return len(self.columns)


@dataclass(frozen=True, slots=True)
class Actions:
    """The finite set of actions of a level: an even grid, numbers, or labels. Logs hold values, arrays hold indices."""

    column: str
    values: tuple[Value, ...]
    kind: Literal["grid", "numbers", "labels"] = "numbers"

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ProblemError(
                f"action '{self.column}': a decision needs at least two actions, found {len(self.values)}; "
                "list them under 'values' or give a 'grid' of two or more points"
            )
        _no_duplicates(self.values, f"action '{self.column}'")
        if self.kind != "labels":
            for value in self.values:
                if isinstance(value, bool | str) or not math.isfinite(value):
                    raise ProblemError(f"action '{self.column}': {value!r} is not a finite number")

    @classmethod
    def grid(cls, column: str, low: float, high: float, points: int) -> Actions:
        """Return an even grid of `points` actions from `low` to `high`, both included."""
        if points < 2:
            raise ProblemError(f"action '{column}': a grid needs at least two points, found {points}")
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise ProblemError(f"action '{column}': a grid needs finite low < high, found low {low}, high {high}")
        return cls(column, tuple(float(v) for v in np.linspace(low, high, points)), "grid")

    @classmethod
    def of(cls, column: str, values: tuple[Value, ...]) -> Actions:
        """Return actions with the kind read off the values: labels as soon as one of them is not a number."""
        labels = any(isinstance(v, str | bool) for v in values)
        return cls(column, tuple(str(v) for v in values) if labels else tuple(values), "labels" if labels else "numbers")

    @property
    def count(self) -> int:
        """How many actions there are."""
        return len(self.values)

    @property
    def numeric(self) -> bool:
        """Whether actions are numbers, so that models may use their size."""
        return self.kind != "labels"

    @property
    def numbers(self) -> npt.NDArray[np.float64]:
        """The values as `float64[A]`; only for numeric actions."""
        if not self.numeric:
            raise ProblemError(f"action '{self.column}' has labels, not numbers")
        return np.asarray(self.values, dtype=np.float64)

    @property
    def variable(self) -> Variable:
        """The action as a variable that mechanisms can have as a parent."""
        if self.numeric:
            return Variable(self.column)
        return Variable(self.column, "categorical", values=self.values)

    def as_rows(self, index: npt.NDArray[np.integer]) -> npt.NDArray[Any]:
        """Return what a model sees for action indices: numbers for numeric actions, codes for labels."""
        if self.numeric:
            return self.numbers[index]
        return np.asarray(index, dtype=np.int32)


def _no_duplicates(items: tuple[Value, ...], where: str) -> None:
    seen: set[Value] = set()
    for item in items:
        if item in seen:
            raise ProblemError(f"{where}: {item!r} is listed twice")
        seen.add(item)
