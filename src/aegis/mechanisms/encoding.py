"""Regression inputs from named rows: scalings of numbers, indicators of categories, and the rows a mechanism learns from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from aegis.errors import SettingError
from aegis.problem import AnyArray, Array, Batch, Problem, Rows, Variable, augmented_context


@dataclass(frozen=True, slots=True)
class Scaling:
    """Centre `[d]` and scale `[d]` of a variable; categorical variables are never scaled."""

    centre: Array
    scale: Array

    def __post_init__(self) -> None:
        if not (np.isfinite(self.centre).all() and np.isfinite(self.scale).all() and (self.scale > 0).all()):
            raise SettingError(
                f"a scaling has a finite centre and a finite scale above 0, found {self.centre.tolist()}, {self.scale.tolist()}"
            )

    @classmethod
    def identity(cls, width: int) -> Scaling:
        """Return the scaling that changes nothing."""
        return cls(np.zeros(width), np.ones(width))

    def forward(self, values: Array) -> Array:
        """Return standardised values `[..., d]`."""
        standardised = values - self.centre
        standardised /= self.scale
        return standardised

    def back(self, values: Array) -> Array:
        """Undo `forward`."""
        return values * self.scale + self.centre


@dataclass(frozen=True, slots=True)
class Encoder:
    """Turns rows of the parents of a mechanism into inputs `[..., d]`, one block of columns per parent."""

    parents: tuple[Variable, ...]
    scalings: Mapping[str, Scaling] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Return d."""
        return sum(parent.width for parent in self.parents)

    def block(self, name: str) -> slice:
        """Return the columns of one parent."""
        start = 0
        for parent in self.parents:
            if parent.name == name:
                return slice(start, start + parent.width)
            start += parent.width
        raise SettingError(f"'{name}' is not among the parents {[parent.name for parent in self.parents]}")

    def __call__(self, rows: Mapping[str, AnyArray], shape: tuple[int, ...], skip: str | None = None) -> Array:
        """Return inputs `[*shape, d]`; rows are `[*shape]`, or `[*shape, k]` for vectors, or broadcast to that.

        The columns of the parent `skip` are left at zero.
        """
        inputs = np.empty((*shape, self.width))
        for parent in self.parents:
            own = 0.0 if parent.name == skip else self.encode(parent, rows[parent.name])
            inputs[..., self.block(parent.name)] = own
        return inputs

    def encode(self, variable: Variable, values: AnyArray) -> Array:
        """Return one variable as numbers `[..., width]`: indicators of categories, nan for a missing one (code -1)."""
        if variable.kind == "categorical":
            indicators = (values[..., None] == np.arange(variable.width)).astype(np.float64)
            if values.size and values.min() < 0:
                indicators[values < 0] = np.nan
            return indicators
        numbers = values if variable.kind == "vector" else values[..., None]
        scaling = self.scalings.get(variable.name)
        return np.asarray(numbers, dtype=np.float64) if scaling is None else scaling.forward(numbers)

    def standardised(self) -> Scaling:
        """Return centre and scale of all inputs `[d]`, categories at 0 and 1."""
        scalings = [self.scalings.get(parent.name, Scaling.identity(parent.width)) for parent in self.parents]
        centre, scale = ([getattr(scaling, part) for scaling in scalings] for part in ("centre", "scale"))
        return Scaling(np.concatenate([[], *centre]), np.concatenate([[], *scale]))

    def scale_of(self, name: str) -> Array:
        """Return the scale `[k]` by which a parent's numbers are divided."""
        block = self.block(name)
        scaling = self.scalings.get(name)
        return np.ones(block.stop - block.start) if scaling is None else scaling.scale


def fit_scalings(problem: Problem, batches: Iterable[Batch]) -> dict[str, Scaling]:
    """Return the mean and standard deviation of every numeric variable over prior data, in one streaming pass.

    Parameters
    ----------
    problem
        The problem whose variables are scaled.
    batches
        Prior data only: a scaling fitted on rows that are certified later would let them choose the model.

    Returns
    -------
    dict of str to Scaling
        By variable name. Numeric actions are scaled by their set of values, which is known without data.
    """
    totals: dict[str, tuple[float, Array, Array]] = {}
    for batch in batches:
        for name, values in observed_values(problem, batch).items():
            numbers = values if values.ndim == 2 else values[:, None]
            numbers = numbers[np.isfinite(numbers).all(axis=1)].astype(np.float64)
            if not len(numbers):
                continue
            mean, spread = numbers.mean(axis=0), np.square(numbers - numbers.mean(axis=0)).sum(axis=0)
            totals[name] = _merge(totals.get(name), (float(len(numbers)), mean, spread))
    scalings = {name: Scaling(mean, _safe(np.sqrt(spread / count), mean)) for name, (count, mean, spread) in totals.items()}
    actions = [level.actions for level in problem.levels if level.actions.numeric]
    return scalings | {
        each.column: Scaling(each.numbers.mean(keepdims=True), each.numbers.std(keepdims=True)) for each in actions
    }


def observed_values(problem: Problem, batch: Batch) -> dict[str, AnyArray]:
    """Return each numeric context, outcome and reward once per decision it belongs to."""
    columns: Rows = {
        variable.name: batch.levels[level.name].context[variable.name]
        for level in problem.levels
        for variable in level.context
        if variable.kind != "categorical"
    }
    if problem.outcome is not None and problem.outcome.kind != "categorical" and batch.outcome is not None:
        columns[problem.outcome.name] = batch.outcome
    reward = _known_reward(batch)
    if reward is not None:
        columns[problem.reward.column] = reward
    return columns


def mechanism_rows(problem: Problem, batch: Batch, targets: Iterable[str]) -> dict[str, tuple[Rows, AnyArray]]:
    """Return parents' rows and target values of mechanisms, one entry per decision at their level; missing ones are nan or -1.

    Rows that several of them look at are gathered once.
    """
    gathered: dict[tuple[str, bool], Rows] = {}
    by_target: dict[str, tuple[Rows, AnyArray]] = {}
    for target in targets:
        level = problem.level_of(target).name
        context = batch.levels[level].context
        results = target not in context  # outcome and reward come after the action, contexts before it
        if (level, results) not in gathered:
            rows = augmented_context(problem, batch, level, with_action=results)
            if results and problem.outcome is not None and batch.outcome is not None:
                rows[problem.outcome.name] = batch.outcome
            gathered[level, results] = rows
        value = context[target] if not results else batch.outcome if target != problem.reward.column else _known_reward(batch)
        if value is None:
            raise SettingError(f"the batch holds no values of '{target}'; give a log that has them")
        by_target[target] = gathered[level, results], value
    return by_target


def _known_reward(batch: Batch) -> Array | None:
    """Return the reward with nan where it was not observed; what the batch holds there does not count."""
    if batch.reward is None or batch.observed is None:
        return batch.reward
    return np.where(batch.observed, batch.reward, np.nan)


def _merge(old: tuple[float, Array, Array] | None, new: tuple[float, Array, Array]) -> tuple[float, Array, Array]:
    """Combine counts, means and sums of squares of two parts (Chan et al. 1979)."""
    if old is None:
        return new
    count = old[0] + new[0]
    shift = new[1] - old[1]
    return count, old[1] + shift * (new[0] / count), old[2] + new[2] + np.square(shift) * (old[0] * new[0] / count)


def _safe(scale: Array, mean: Array) -> Array:
    """Keep scale 1 for a column that is constant up to rounding; how small its unit is does not matter."""
    return np.where(scale > 1e-12 * np.abs(mean), scale, 1.0)
