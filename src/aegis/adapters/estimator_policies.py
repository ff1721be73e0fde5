"""Fitted estimators, of scikit-learn or alike, as policies and as a reward model.

A classifier gives probabilities of actions, a regressor predicts their rewards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from aegis.adapters.base import finite_numbers
from aegis.adapters.estimator_data import EstimatorInputs, MakeFrame, ask_estimator, estimators_by_level
from aegis.errors import PolicyError, finite_number
from aegis.policies import one_hot, open_actions, probability_taken, table_of, uniform_over
from aegis.problem import Actions, AnyArray, Array, Batch, Bools, Policy, Problem, Rows, augmented_context

PREDICTION_BLOCK = 2**18  # rows that an estimator is asked for at once


class RegressorRewards:
    """Regressors of the mean reward below a decision on what is known there and the action, by level; in logged units.

    Each has a method `predict` and takes the columns of `features` (all that are known if None), then the action, as
    `TrainingRows` gives them in `with_action`. A wrong prediction makes certificates slower, never wrong, as long as it was
    fitted on other units.
    """

    def __init__(
        self,
        problem: Problem,
        estimators: object,
        features: Mapping[str, Sequence[str]] | None = None,
        frame: MakeFrame | None = None,
    ) -> None:
        self.problem, self.estimators = problem, estimators_by_level(problem, estimators)
        self.inputs: dict[str, EstimatorInputs] = {}
        for level, estimator in self.estimators.items():
            if not callable(getattr(estimator, "predict", None)):
                raise PolicyError(
                    f"level '{level}': a {type(estimator).__name__} has no method 'predict'; give a fitted regressor"
                )
            self.inputs[level] = EstimatorInputs.of(problem, level, (features or {}).get(level), frame, True, estimator)

    def predict(self, level: str, batch: Batch) -> Array:
        """Return the predicted mean reward below each decision for every action, `[n, A]`, in logged units."""
        if level not in self.estimators:
            raise PolicyError(f"level '{level}' has no regressor; levels with one: {', '.join(self.estimators)}")
        actions = self.problem.level(level).actions
        rows = augmented_context(self.problem, batch, level)
        count = len(batch.levels[level])
        predictions = np.empty((count, actions.count))
        step = max(1, PREDICTION_BLOCK // actions.count)
        for start in range(0, count, step):
            part = {name: column[start : start + step] for name, column in rows.items()}
            predictions[start : start + step] = self._block(level, part, min(step, count - start))
        return predictions

    def _block(self, level: str, rows: Rows, count: int) -> Array:
        actions = self.problem.level(level).actions
        every: dict[str, AnyArray] = {name: np.repeat(column, actions.count, axis=0) for name, column in rows.items()}
        every[actions.column] = np.tile(actions.as_rows(np.arange(actions.count, dtype=np.int32)), count)
        size, where = count * actions.count, f"level '{level}'"
        answer = ask_estimator(self.estimators[level], "predict", self.inputs[level].values(every, size), where)
        flat = answer.reshape(size) if answer.shape == (size, 1) else answer
        return finite_numbers(flat, (size,), f"{where}, predictions", error=PolicyError).reshape(count, actions.count)


ESTIMATOR_STEPS = 2.0**32  # last digits of a matrix product depend on how many rows are asked for at once: they are not kept


# From level, batch and mask of open actions to weights `[n, A]`, not negative, 0 where closed; rows need not sum to one.
Chooser = Callable[[str, Batch, Bools], Array]


@dataclass(frozen=True, slots=True)
class EstimatorPolicy:
    """Choosers by level, mixed with a uniform choice among the available actions at rate `explore`; one particle or the legacy's.

    legacy: acts at the other levels; without one they cannot be asked. It cannot be stored: an estimator is code, and files of
    code need trust. Name it as module:object.
    """

    kind: ClassVar[str] = "estimator"
    problem: Problem
    choosers: Mapping[str, Chooser]
    explore: float = 0.0
    legacy: Policy | None = None

    def __post_init__(self) -> None:
        finite_number("'explore'", self.explore, 0.0, 1.0)

    @property
    def levels(self) -> tuple[str, ...]:
        """Return the levels that an estimator decides at, outermost first."""
        return tuple(self.choosers)

    @property
    def weights(self) -> Array:
        """Return `[S]`."""
        return np.ones(1) if self.legacy is None else self.legacy.weights

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`; PolicyError names the row in which an estimator leaves no available action a chance."""
        if level not in self.choosers:
            return self._legacy(level).full(level, batch)
        table = table_of(batch, level)
        mask = open_actions(table.available, len(table), self.problem.level(level).actions.count, f"level '{level}'")
        weights = self.choosers[level](level, batch, mask)
        total = weights.sum(axis=1, keepdims=True)
        stuck = total[:, 0] <= 0
        if stuck.any() and self.explore == 0:
            raise PolicyError(
                f"level '{level}', row {int(np.argmax(stuck))}: the estimator gives no available action a chance "
                f"({int(stuck.sum())} such rows); mix in some exploration (explore=0.05), or fit it on rows with these actions"
            )
        even = uniform_over(mask)
        chosen = np.where(stuck[:, None], even, weights / np.where(stuck[:, None], 1.0, total))
        settled = np.round(((1.0 - self.explore) * chosen + self.explore * even) * ESTIMATOR_STEPS)
        return np.repeat((settled / settled.sum(axis=1, keepdims=True))[None], self.weights.size, axis=0)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        if level not in self.choosers:
            return self._legacy(level).taken(level, batch)
        return probability_taken(self.full(level, batch), self.problem.level(level), table_of(batch, level))

    def _legacy(self, level: str) -> Policy:
        self.problem.level(level)
        if self.legacy is None:
            raise PolicyError(
                f"level '{level}': this policy decides at {', '.join(self.choosers)} only; choose the scope, or give it a "
                "'legacy' for the other levels"
            )
        return self.legacy


def classifier_policy(
    problem: Problem,
    estimators: Any,
    features: Mapping[str, Sequence[str]] | None = None,
    temperature: float = 1.0,
    explore: float = 0.0,
    greedy: bool = False,
    allow_missing: bool = False,
    legacy: Policy | None = None,
    frame: MakeFrame | None = None,
) -> EstimatorPolicy:
    """Return the policy of fitted classifiers, by level: an action is taken with the probability that `predict_proba` gives it.

    Classes are the action's values as the log has them; another class is refused, and so is an action without a class unless
    `allow_missing`, which gives it probability 0. temperature: probabilities to the power of 1/temperature. greedy: the likeliest
    available action. features: columns by level, in the order the classifier takes them; see `EstimatorInputs`.
    """
    finite_number("'temperature'", temperature, 1e-6)
    named = features or {}
    choosers = {
        level: partial(
            _classifier_weights,
            estimator=estimator,
            inputs=EstimatorInputs.of(problem, level, named.get(level), frame, False, estimator),
            places=_class_actions(estimator, problem.level(level).actions, level, allow_missing),
            power=1.0 / temperature,
            greedy=greedy,
        )
        for level, estimator in estimators_by_level(problem, estimators).items()
    }
    return EstimatorPolicy(problem=problem, choosers=choosers, explore=explore, legacy=legacy)


def regressor_policy(
    problem: Problem,
    estimators: Any,
    features: Mapping[str, Sequence[str]] | None = None,
    temperature: float | None = None,
    explore: float = 0.0,
    legacy: Policy | None = None,
    frame: MakeFrame | None = None,
) -> EstimatorPolicy:
    """Return the policy of fitted regressors, by level: the available action of the best predicted reward, the largest or the
    smallest by the goal.

    temperature: in units of the reward; the choice is a softmax of predictions divided by it. See `RegressorRewards`.
    """
    if temperature is not None:
        finite_number("'temperature'", temperature, 1e-12)
    rewards = estimators if isinstance(estimators, RegressorRewards) else RegressorRewards(problem, estimators, features, frame)
    sign = 1.0 if problem.reward.goal == "maximise" else -1.0
    return EstimatorPolicy(
        problem=problem,
        choosers=dict.fromkeys(rewards.estimators, partial(_regressor_weights, rewards, sign, temperature)),
        explore=explore,
        legacy=legacy,
    )


def _classifier_weights(
    level: str,
    batch: Batch,
    mask: Bools,
    *,
    estimator: Any,
    inputs: EstimatorInputs,
    places: npt.NDArray[np.int64],
    power: float,
    greedy: bool,
) -> Array:
    """Return the weights of the actions by a classifier; places `[C]`: which action each class is."""
    if not len(mask):
        return np.zeros(mask.shape)
    where = f"level '{level}'"
    values = inputs.values(augmented_context(inputs.problem, batch, level), len(mask))
    answer = ask_estimator(estimator, "predict_proba", values, where)
    by_class = finite_numbers(answer, (len(mask), places.size), f"{where}, probabilities of the classes", error=PolicyError)
    if (by_class < 0).any():
        raise PolicyError(f"{where}, row {int(np.argmax((by_class < 0).any(axis=1)))}: a probability is below 0")
    chances = np.zeros(mask.shape)
    chances[:, places] = by_class
    chances = np.where(mask, chances, 0.0)
    best = chances.max(axis=1, keepdims=True)
    if greedy:
        return one_hot(np.argmax(chances, axis=1), mask.shape[1]) * (best > 0)
    # Divided by the largest first: a power of small numbers would vanish.
    raised: Array = np.where(best > 0, chances / np.where(best > 0, best, 1.0), 0.0) ** power
    return raised


def _regressor_weights(
    rewards: RegressorRewards, sign: float, temperature: float | None, level: str, batch: Batch, mask: Bools
) -> Array:
    """Return the weights of the actions by predicted rewards: the best, or a softmax."""
    values = np.where(mask, sign * rewards.predict(level, batch), -np.inf)
    if temperature is None:
        return one_hot(np.argmax(values, axis=1), mask.shape[1])
    softmax: Array = np.exp((values - values.max(axis=1, keepdims=True)) / temperature)
    return softmax


def _class_actions(estimator: Any, actions: Actions, level: str, allow_missing: bool) -> npt.NDArray[np.int64]:
    """Return which action each class of a classifier is, `[C]`; PolicyError for other classes, and for actions without one."""
    where = f"level '{level}'"
    if not callable(getattr(estimator, "predict_proba", None)):
        raise PolicyError(
            f"{where}: a {type(estimator).__name__} has no method 'predict_proba'; give a classifier that gives probabilities "
            "(for an SVC: CalibratedClassifierCV around it), or a regressor to regressor_policy"
        )
    classes = getattr(estimator, "classes_", None)
    if classes is None:
        raise PolicyError(f"{where}: the {type(estimator).__name__} has no 'classes_': it is not fitted yet")
    if any(np.ndim(value) for value in classes):
        raise PolicyError(f"{where}: the {type(estimator).__name__} has several outputs; give one estimator for each level")
    listed_classes = np.asarray(classes).tolist()
    known = {_comparison_key(value, actions.numeric): place for place, value in enumerate(actions.values)}
    keys = [_comparison_key(value, actions.numeric) for value in listed_classes]
    unknown = [value for value, key in zip(listed_classes, keys, strict=True) if key not in known]
    listed = ", ".join(map(str, actions.values))
    if unknown:
        raise PolicyError(
            f"{where}: the classifier knows the class {unknown[0]!r}, which is no value of the action '{actions.column}' "
            f"({len(unknown)} such classes); fit it on the action as the log has it: {listed}"
        )
    missing = [value for value in actions.values if _comparison_key(value, actions.numeric) not in keys]
    if missing and not allow_missing:
        raise PolicyError(
            f"{where}: the classifier has no class for the action {missing[0]!r} ({len(missing)} of {actions.count} without "
            "one); fit it on rows with every action, or say allow_missing=True: it then never takes them"
        )
    return np.array([known[key] for key in keys], dtype=np.int64)


def _comparison_key(value: Any, numeric: bool) -> Any:
    """Return what a class and an action are compared by: numbers as numbers, labels as text."""
    if not numeric:
        return str(value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else repr(value)
