"""A mechanism as a table: one mean and one variance per combination of its parents' values (the paper's `flat_joint`).

Each cell has its own Normal-Inverse-Gamma posterior, so nothing is shared between neighbouring actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from aegis.errors import ModelError, SettingError
from aegis.mechanisms.regression import ROUND_OFF, gamma_divergence
from aegis.problem import Actions, AnyArray, Array, Rows, Variable


@dataclass(frozen=True, slots=True)
class CellStates:
    """Natural parameters of C independent posteriors, each `[C]`: precision, precision * mean, shape, square."""

    precision: Array
    shift: Array
    shape: Array
    square: Array

    @property
    def mean(self) -> Array:
        """Return the cell means `[C]`."""
        return self.shift / self.precision

    @property
    def rate(self) -> Array:
        """Return the inverse-gamma rates `[C]`; raises ModelError if one is not positive by more than round-off."""
        rate = 0.5 * (self.square - self.shift * self.mean)
        if not (rate > ROUND_OFF * self.square).all():
            raise ModelError(
                "the noise rate of a cell is not positive beyond round-off: values are not finite or far too large for their "
                "noise; subtract their mean and divide by their spread first"
            )
        return rate


@dataclass(frozen=True, slots=True)
class Cells:
    """A table over finite parents: categorical variables and actions (numeric actions through their `Actions`)."""

    target: Variable
    axes: tuple[Variable | Actions, ...]
    temper: float = 1.0
    precision: float = 0.1
    shape: float = 2.0
    rate: float = 1.0

    def __post_init__(self) -> None:
        if self.target.kind != "real":
            raise SettingError(f"cells: the target '{self.target.name}' must be real, found {self.target.kind}")
        for axis in self.axes:
            if isinstance(axis, Variable) and axis.kind != "categorical":
                raise SettingError(
                    f"cells: the parent '{axis.name}' is {axis.kind}; a table needs actions or categorical parents, "
                    "use linear or polynomial features instead"
                )

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""
        return tuple(axis.column if isinstance(axis, Actions) else axis.name for axis in self.axes)

    @property
    def affine(self) -> bool:
        """Return False: cells interact in every way."""
        return False

    @property
    def size(self) -> int:
        """Return C."""
        return int(np.prod([_length(axis) for axis in self.axes]))

    def cell(self, rows: Rows, shape: tuple[int, ...]) -> AnyArray:
        """Return the cell number of each row, `[*shape]`."""
        index = np.zeros(shape, dtype=np.int64)
        for axis, name in zip(self.axes, self.parents, strict=True):
            index = index * _length(axis) + _codes(axis, rows[name])
        return index

    def prior(self) -> CellStates:
        """Return the prior state."""
        ones = np.ones(self.size)
        return CellStates(
            precision=self.precision * ones, shift=0.0 * ones, shape=self.shape * ones, square=2.0 * self.rate * ones
        )

    def update(self, state: CellStates, rows: Rows, values: AnyArray) -> CellStates:
        """Return the state after n rows; rows in which the value or a parent is missing (nan, code -1) are left out.

        Raises ModelError if a value is infinite.
        """
        numbers = np.asarray(values, dtype=np.float64)
        complete = ~np.isnan(numbers)
        for axis, name in zip(self.axes, self.parents, strict=True):
            if isinstance(axis, Variable):
                complete &= rows[name] != -1
        numbers = numbers[complete]
        if np.isinf(numbers).any():
            raise ModelError(f"cells: a value of '{self.target.name}' is infinite; remove such rows")
        index = self.cell({name: rows[name][complete] for name in self.parents}, (len(numbers),))
        count = np.bincount(index, minlength=self.size)
        return CellStates(
            precision=state.precision + self.temper * count,
            shift=state.shift + self.temper * np.bincount(index, weights=numbers, minlength=self.size),
            shape=state.shape + 0.5 * self.temper * count,
            square=state.square + self.temper * np.bincount(index, weights=numbers * numbers, minlength=self.size),
        )

    def draw(self, state: CellStates, rng: np.random.Generator, count: int) -> CellsDraw:
        """Return `count` draws of all cells."""
        sd = np.sqrt(state.rate / rng.standard_gamma(state.shape, size=(count, self.size)))
        means = state.mean + sd / np.sqrt(state.precision) * rng.standard_normal((count, self.size))
        return CellsDraw(self, means, sd)

    def point(self, state: CellStates) -> CellsDraw:
        """Return the posterior means; a variance is b / a if it has no mean."""
        variance = state.rate / np.where(state.shape > 1.0, state.shape - 1.0, state.shape)
        return CellsDraw(self, state.mean[None], np.sqrt(variance)[None])

    def predict(self, state: CellStates, rows: Rows, count: int) -> tuple[Array, Array, Array]:
        """Return mean, variance of the mean, variance of a new value, `[n, 1]`; infinite for shape <= 1."""
        index = self.cell(rows, (count,))
        proper = state.shape > 1.0
        scale = np.where(proper, state.rate / np.where(proper, state.shape - 1.0, 1.0), np.inf)
        of_mean = scale / state.precision
        return state.mean[index][:, None], of_mean[index][:, None], (of_mean + scale)[index][:, None]

    def kl(self, state: CellStates, other: CellStates) -> float:
        """Return KL(state || other), summed over cells."""
        p, q = state, other
        ratio = q.precision / p.precision
        gaussian = 0.5 * (ratio - 1.0 - np.log(ratio) + p.shape / p.rate * q.precision * np.square(p.mean - q.mean))
        return float(np.sum(gaussian + gamma_divergence(p.shape, p.rate, q.shape, q.rate)))


@dataclass(frozen=True, slots=True)
class CellsDraw:
    """S draws of a table: means `[S, C]` and noise standard deviations `[S, C]`."""

    spec: Cells
    means: Array
    spreads: Array

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the names of the parents."""
        return self.spec.parents

    @property
    def sd(self) -> Array:
        """Return the root mean square noise over cells, `[S, 1]`."""
        return np.sqrt(np.mean(np.square(self.spreads), axis=1, keepdims=True))

    def mean(self, rows: Rows, count: int, noisy: Mapping[str, Array] | None = None) -> Array:
        """Return cell means `[S, n, 1]`; finite parents carry no Gaussian noise."""
        particles = max((rows[name].shape[0] for name in self.spec.parents), default=1)
        index = np.broadcast_to(self.spec.cell(rows, (particles, count)), (len(self.means), count))
        return np.take_along_axis(self.means, index, axis=1)[..., None]

    def mean_each(self, rows: Rows, count: int, name: str, values: AnyArray) -> Array:
        """Return cell means `[S, n, A, 1]` with the parent `name` at each of the A values in turn."""
        wide: Rows = {parent: np.repeat(rows[parent], len(values), axis=1) for parent in self.spec.parents if parent != name}
        wide[name] = np.tile(values, count)[None]
        return self.mean(wide, count * len(values)).reshape(len(self.means), count, len(values), 1)


def _length(axis: Variable | Actions) -> int:
    return axis.count if isinstance(axis, Actions) else axis.width


def _codes(axis: Variable | Actions, values: AnyArray) -> AnyArray:
    """Return codes of a categorical variable as they are, of a numeric action by looking up its value.

    Raises SettingError for a value that is not on the axis: it would be counted in the cell of another one.
    """
    if isinstance(axis, Variable) or not axis.numeric:
        known = (values >= 0) & (values < _length(axis))
        codes = values
    else:
        order = np.argsort(axis.numbers)
        codes = order[np.minimum(np.searchsorted(axis.numbers[order], values), axis.count - 1)]
        known = axis.numbers[codes] == values
    if not known.all():
        name = axis.column if isinstance(axis, Actions) else axis.name
        raise SettingError(f"cells: '{name}' has the value {values[~known][0]}, which is not one of its {_length(axis)} values")
    return codes
