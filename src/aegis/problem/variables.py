"""Variables of a problem: contexts, outcomes, actions, the reward, and the guards (columns that must not get worse).

A policy that chooses the point a* of an interval [low, high] acts uniformly on the window `[a* - h, a* + h]`, cut to the
interval; h is the bandwidth. The density is one over the length of what is left. Dividing by 2 h instead would lose weight
at both ends. The cell of a point is the set of numbers nearer to it than to any other point. At an atom the logging policy
has a probability, elsewhere a density; the two are never divided by each other.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from aegis.errors import ProblemError, finite_number, whole_number

MOST_GRID_POINTS = 100_000  # of an action grid

SUM_TOLERANCE = 1e-6  # how far the probabilities of all actions may sum to something other than 1

NARROWEST = 1000  # spacings of floats in half a window: its length is then off by one in a thousand at most

Value = str | int | float | bool  # of an action or a category

Array = npt.NDArray[np.float64]  # numbers

Ints = npt.NDArray[np.int32]  # indices of rows, parents or actions

Bools = npt.NDArray[np.bool_]  # masks

AnyArray = npt.NDArray[Any]  # ids and contexts: numbers or words

VariableKind = Literal["real", "vector", "categorical"]


@dataclass(frozen=True, slots=True)
class Variable:
    """A context or an outcome.

    real: one number per row, held as `float64[n]`; vector: `float64[n, d]`, one column of the log per coordinate;
    categorical: `int32[n]` codes into `values`.
    """

    name: str
    kind: VariableKind = "real"
    columns: tuple[str, ...] = ()
    values: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        if not self.name:
            raise ProblemError("a variable needs a name")
        if not self.columns:
            object.__setattr__(self, "columns", (self.name,))
        if self.kind == "categorical":
            if len(self.values) < 2:
                raise ProblemError(f"categorical variable '{self.name}': needs at least two values, found {list(self.values)}")
            check_unique(self.values, f"categorical variable '{self.name}'")
            for value in self.values:
                if isinstance(value, float) and not math.isfinite(value):
                    raise ProblemError(
                        f"categorical variable '{self.name}': {value!r} is not a category; list finite numbers or texts"
                    )
        elif self.values:
            raise ProblemError(f"variable '{self.name}' is {self.kind}: only a categorical variable has values")
        if self.kind != "vector" and self.columns != (self.name,):
            raise ProblemError(
                f"variable '{self.name}' is {self.kind}: it has one column, of the same name, found {list(self.columns)}"
            )
        check_unique(self.columns, f"variable '{self.name}'")

    @property
    def width(self) -> int:
        """How many numbers a regression on this variable sees: 1, d, or one indicator per category."""
        if self.kind == "categorical":
            return len(self.values)
        return len(self.columns)


@dataclass(frozen=True, slots=True)
class Actions:
    """The actions of a level: an even grid, numbers, labels, or an interval. Logs hold values, arrays hold indices.

    interval: any number from the first value to the last. The values are then an even grid of points, around which models and
    planners choose; who chooses a point acts uniformly in its window, `bandwidth` to either side, cut to the interval. Tables
    hold the exact number besides the index of the nearest point. atoms: numbers to which the logging policy gives a probability
    of their own, such as the ends it clips to. lipschitz: a promise of how much the mean reward may change per unit of action.
    """

    column: str
    values: tuple[Value, ...]
    kind: Literal["grid", "numbers", "labels", "interval"] = "numbers"
    bandwidth: float | None = None
    atoms: tuple[float, ...] = ()
    lipschitz: float | None = None

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise ProblemError(
                f"action '{self.column}': a decision needs at least two actions, found {len(self.values)}; "
                "list them under 'values' or give a 'grid' of two or more points"
            )
        if not self.column:
            raise ProblemError("an action needs a column")
        check_unique(self.values, f"action '{self.column}'")
        for value in self.values:
            if self.kind == "labels" and not isinstance(value, str):
                raise ProblemError(
                    f"action '{self.column}': the label {value!r} is not a text; Actions.of makes labels of any values"
                )
            if self.kind != "labels" and not _finite(value):
                raise ProblemError(f"action '{self.column}': {value!r} is not a finite number")
        even = self.kind in ("grid", "interval")
        if even and not np.array_equal(self.numbers, np.linspace(self.numbers[0], self.numbers[-1], self.count)):
            raise ProblemError(f"action '{self.column}': the values are not an even grid; use Actions.grid, or kind 'numbers'")
        self._check_interval()

    def _check_interval(self) -> None:
        if self.kind != "interval":
            if self.bandwidth is not None or self.atoms or self.lipschitz is not None:
                raise ProblemError(f"action '{self.column}': 'bandwidth', 'atoms' and 'lipschitz' belong to an 'interval'")
            return
        low, high = self.limits
        if self.bandwidth is None or not (math.isfinite(self.bandwidth) and 0 < self.bandwidth <= high - low):
            raise ProblemError(
                f"action '{self.column}': an interval needs a 'bandwidth' above 0 and at most its length {high - low:g}, found "
                f"{self.bandwidth}; a policy acts uniformly within that distance of the point it chooses"
            )
        check_resolution(self.column, low, high, self.bandwidth, "a 'bandwidth'")
        for atom in self.atoms:
            if not (_finite(atom) and low <= atom <= high):
                raise ProblemError(f"action '{self.column}': an atom lies in the interval [{low:g}, {high:g}], found {atom!r}")
        check_unique(self.atoms, f"action '{self.column}', 'atoms'")
        if self.lipschitz is not None:
            what = f"action '{self.column}': 'lipschitz', the change of the mean reward per unit of action,"
            finite_number(what, self.lipschitz, 0.0, error=ProblemError)

    @classmethod
    def interval(
        cls,
        column: str,
        low: float,
        high: float,
        bandwidth: float | None,
        points: int = 21,
        atoms: tuple[float, ...] = (),
        lipschitz: float | None = None,
    ) -> Actions:
        """Return the interval [low, high] with `points` points to choose around, and a window of `bandwidth` to either side."""
        even = cls.grid(column, low, high, points)
        held = tuple(float(atom) if _finite(atom) else atom for atom in atoms)
        width = None if bandwidth is None else float(bandwidth)
        return cls(column=column, values=even.values, kind="interval", bandwidth=width, atoms=held, lipschitz=lipschitz)

    @classmethod
    def grid(cls, column: str, low: float, high: float, points: int) -> Actions:
        """Return an even grid of `points` actions from `low` to `high`, both included."""
        whole_number(f"action '{column}': the number of points", points, 2, MOST_GRID_POINTS, ProblemError)
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
    def continuous(self) -> bool:
        """Whether any number of an interval may be taken, so that propensities are densities."""
        return self.kind == "interval"

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest value; only for numeric actions."""
        return float(self.numbers.min()), float(self.numbers.max())

    @property
    def numeric(self) -> bool:
        """Whether actions are numbers, so that models may use their size."""
        return self.kind != "labels"

    @property
    def numbers(self) -> Array:
        """The values as `float64[A]`, read only; only for numeric actions."""
        if not self.numeric:
            raise ProblemError(f"action '{self.column}' has labels, not numbers")
        return _numbers(self.values)

    @property
    def variable(self) -> Variable:
        """The action as a variable that mechanisms can have as a parent."""
        if self.numeric:
            return Variable(self.column)
        return Variable(self.column, "categorical", values=self.values)

    def as_rows(self, index: npt.NDArray[np.integer]) -> AnyArray:
        """Return what a model sees for action indices: numbers for numeric actions, codes for labels.

        Raises ProblemError for an index outside 0..A-1; -1, an action not yet chosen, would otherwise pass as the last one.
        """
        if index.size and (index.min() < 0 or index.max() >= self.count):
            raise ProblemError(
                f"action '{self.column}': indices run from 0 to {self.count - 1}, found {index.min()} to {index.max()}; "
                "-1 marks a decision without an action"
            )
        if self.numeric:
            return self.numbers[index]
        return np.asarray(index, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of a decision: column, declared range [low, high], unit, goal, and what it belongs to (`per`).

    clip: rewards outside the range are to be clipped by who maps them to it; what is certified then is the clipped reward.
    closed: a column of flags; where it is false the reward is still awaited. Without one, a missing reward is missing for good.
    """

    column: str = "reward"
    range: tuple[float, float] | None = None
    unit: str = ""
    goal: Literal["maximise", "minimise"] = "maximise"
    per: str = "decision"
    clip: bool = False
    closed: str | None = None

    def __post_init__(self) -> None:
        if self.range is not None:
            check_ordered_limits(self.range, f"reward '{self.column}'")
        elif self.clip:
            raise ProblemError(f"reward '{self.column}': 'clip' needs a 'range' to clip to; declare it, or leave 'clip' out")
        if self.closed == "":
            raise ProblemError(f"reward '{self.column}': 'closed' names a column of flags, found an empty name; leave it out")


@dataclass(frozen=True, slots=True)
class Guard:
    """A column that must not get worse by more than `max_worsening`."""

    column: str
    range: tuple[float, float]
    max_worsening: float
    goal: Literal["maximise", "minimise"] = "minimise"

    def __post_init__(self) -> None:
        check_ordered_limits(self.range, f"guard '{self.column}'")
        finite_number(f"guard '{self.column}': 'max_worsening'", self.max_worsening, 0.0, error=ProblemError)


def check_ordered_limits(limits: tuple[float, float], where: str, name: str = "range") -> None:
    """Raise ProblemError unless limits are two finite numbers in order; name: the field that holds them."""
    low, high = limits
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ProblemError(f"{where}: '{name}' is [low, high] with finite low < high, found {list(limits)}")


def check_resolution(column: str, low: float, high: float, width: float, what: str) -> None:
    """Raise ProblemError if a width above 0 is too narrow for the digits that a float has for numbers of the interval."""
    largest = max(abs(low), abs(high))
    if not (math.isfinite(largest) and width > 0):
        return  # said elsewhere
    spacing = float(np.spacing(largest))
    if width < NARROWEST * spacing:
        raise ProblemError(
            f"action '{column}': {what} of {width:g} is too narrow for numbers as large as {largest:g}, which computers hold to "
            f"the nearest {spacing:.3g}; it is at least {NARROWEST} times that ({NARROWEST * spacing:.3g}): widen it, or "
            "log the action as its difference from a fixed number"
        )


def check_unique(items: tuple[Value, ...], where: str) -> None:
    """Raise ProblemError if an item is listed twice."""
    earlier: set[Value] = set()
    for item in items:
        if item in earlier:
            raise ProblemError(f"{where}: {item!r} is listed twice")
        earlier.add(item)


def _finite(value: Value) -> bool:
    """Return whether a value is a number that a float can hold."""
    try:
        return not isinstance(value, bool | str) and math.isfinite(value)
    except OverflowError:
        return False


@functools.lru_cache(maxsize=256)
def _numbers(values: tuple[Value, ...]) -> Array:
    numbers = np.asarray(values, dtype=np.float64)
    numbers.flags.writeable = False
    return numbers


ATOM_TOLERANCE = 1e-6  # of the length of an interval: a number this near to an atom is the atom, as files round


def window_ends(actions: Actions, centres: Array) -> tuple[Array, Array]:
    """Return lower and upper ends of the windows around centres of any shape, cut to the interval."""
    low, high = actions.limits
    reach = float(actions.bandwidth or 0.0)
    return np.maximum(centres - reach, low), np.minimum(centres + reach, high)


def window_density(actions: Actions, centres: Array, value: Array) -> Array:
    """Return the density at `value` of acting uniformly in the window around each centre; 0 outside it, and at atoms.

    centres and value have shapes that fit together. A window holds its lower end and not its upper one, but for the last.
    """
    lower, upper = window_ends(actions, centres)
    high = actions.limits[1]
    inside = (value >= lower) & ((value < upper) | ((upper >= high) & (value <= high)))
    return np.where(inside & ~is_atom(actions, value), 1.0 / (upper - lower), 0.0)


def is_atom(actions: Actions, value: Array) -> Bools:
    """Return which numbers are atoms of the logging policy; same shape as `value`."""
    low, high = actions.limits
    atoms: Bools = np.zeros(np.shape(value), dtype=np.bool_)
    for atom in actions.atoms:
        atoms = atoms | (np.abs(value - atom) <= ATOM_TOLERANCE * (high - low))
    return atoms


def nearest_points(actions: Actions, value: Array) -> Ints:
    """Return the index of the point nearest to each number, same shape; of two equally near the lower one."""
    points = actions.numbers
    return np.searchsorted((points[1:] + points[:-1]) / 2, value, side="left").astype(np.int32)
