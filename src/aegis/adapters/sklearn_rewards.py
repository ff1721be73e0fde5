"""A fitted regressor, of scikit-learn or alike, as a reward model: a prediction for every action of a level."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aegis.adapters.estimating import asked, by_level, name_of, numbers
from aegis.adapters.inputs import Frame, Inputs
from aegis.errors import PolicyError
from aegis.problem import AnyArray, Array, Batch, Problem, Rows, augmented

BLOCK = 2**18  # rows that an estimator is asked for at once


@dataclass(frozen=True, slots=True, init=False)
class RegressorRewards:
    """Regressors of the mean reward below a decision on what is known there and the action, by level; in logged units.

    Each has a method `predict` and takes the columns of `features` (all that are known if None), then the action, as
    `TrainingRows` gives them in `with_action`. A wrong prediction makes certificates slower, never wrong, as long as it was
    fitted on other units.
    """

    problem: Problem
    estimators: Mapping[str, object]
    inputs: Mapping[str, Inputs]

    def __init__(
        self,
        problem: Problem,
        estimators: object,
        features: Mapping[str, Sequence[str]] | None = None,
        frame: Frame | None = None,
    ) -> None:
        found = by_level(problem, estimators)
        for level, estimator in found.items():
            if not callable(getattr(estimator, "predict", None)):
                raise PolicyError(f"level '{level}': a {name_of(estimator)} has no method 'predict'; give a fitted regressor")
        named = features or {}
        inputs = {
            level: Inputs.of(problem, level, named.get(level), frame, True, estimator) for level, estimator in found.items()
        }
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "estimators", found)
        object.__setattr__(self, "inputs", inputs)

    def predict(self, level: str, batch: Batch) -> Array:
        """Return the predicted mean reward below each decision for every action, `[n, A]`, in logged units."""
        if level not in self.estimators:
            raise PolicyError(f"level '{level}' has no regressor; levels with one: {', '.join(self.estimators)}")
        actions = self.problem.level(level).actions
        rows = augmented(self.problem, batch, level)
        count = len(batch.levels[level])
        found = np.empty((count, actions.count))
        step = max(1, BLOCK // actions.count)
        for start in range(0, count, step):
            part = {name: column[start : start + step] for name, column in rows.items()}
            found[start : start + step] = self._block(level, part, min(step, count - start))
        return found

    def _block(self, level: str, rows: Rows, count: int) -> Array:
        actions = self.problem.level(level).actions
        every: dict[str, AnyArray] = {name: np.repeat(column, actions.count, axis=0) for name, column in rows.items()}
        every[actions.column] = np.tile(actions.as_rows(np.arange(actions.count, dtype=np.int32)), count)
        size, where = count * actions.count, f"level '{level}'"
        answer = asked(self.estimators[level], "predict", self.inputs[level].values(every, size), where)
        flat = answer.reshape(size) if answer.shape == (size, 1) else answer
        return numbers(flat, (size,), "predictions", where).reshape(count, actions.count)
