"""Data of estimators of other libraries, scikit-learn or alike: the columns that they see of a decision, rows to fit them on,
the record of the fit, and checks of their answers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aegis.errors import LogError, PolicyError, SettingError, did_you_mean
from aegis.logs import Source, Split, learning_record
from aegis.problem import AnyArray, Array, Policy, Problem, RewardModel, Rows, Variable, augmented_context, concat, subtree_means

MakeFrame = Callable[[Mapping[str, AnyArray]], Any]  # makes a data frame of columns


@dataclass(frozen=True, slots=True)
class EstimatorInputs:
    """Columns of the log that are known when a level decides, in the order in which an estimator takes them.

    Numbers are numbers; categories, and actions, are the values that the problem file lists, as they stand in the log. A matrix
    is of numbers if all columns are, else of objects. frame: makes a data frame of the columns, by name; None: a matrix.
    """

    problem: Problem
    level: str
    columns: tuple[str, ...]
    with_action: bool = False
    frame: MakeFrame | None = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        level: str,
        columns: Sequence[str] | None = None,
        frame: MakeFrame | None = None,
        with_action: bool = False,
        estimator: Any = None,
    ) -> EstimatorInputs:
        """Return the inputs of an estimator; columns: all that are known there if None, or those the estimator was fitted with.

        with_action: the level's own action is a column too, the last one unless they are named. Raises PolicyError for a column
        that is not known when the level decides, and if an estimator was fitted on other columns, or on more or fewer, than are
        named.
        """
        known = _known_columns(problem, level, with_action)
        fitted = getattr(estimator, "feature_names_in_", None)
        names = None if fitted is None else tuple(str(name) for name in fitted)
        chosen = tuple(columns) if columns is not None else names or tuple(known)
        if with_action and columns is not None and problem.level(level).actions.column not in chosen:
            chosen = (*chosen, problem.level(level).actions.column)
        for name in chosen:
            if name not in known:
                raise PolicyError(
                    f"level '{level}': the column '{name}' is not known when it decides{did_you_mean(name, known)}; known are "
                    f"{', '.join(known) or 'none'}"
                )
        if names is not None and chosen != names:
            raise PolicyError(
                f"level '{level}': the estimator was fitted on the columns {', '.join(names)}, not on {', '.join(chosen)}; name "
                "them in that order, or none"
            )
        width = getattr(estimator, "n_features_in_", None)
        if width is not None and width != len(chosen):
            raise PolicyError(
                f"level '{level}': the estimator was fitted on {width} columns, found {len(chosen)} ({', '.join(chosen)}); name "
                "those it was fitted on, in their order"
            )
        return cls(problem, level, chosen, with_action, frame if frame is not None or names is None else _pandas_frame(level))

    def values(self, rows: Rows, count: int) -> Any:
        """Return the inputs of `count` decisions: a matrix `[n, d]`, or a frame. rows: of `augmented_context`, by variable."""
        known = _known_columns(self.problem, self.level, self.with_action)
        columns = {name: _column_values(rows, *known[name]) for name in self.columns}
        if self.frame is not None:
            return self.frame(columns)
        if not columns:
            return np.zeros((count, 0))
        kind = object if any(column.dtype == object for column in columns.values()) else np.float64
        return np.stack([column.astype(kind) for column in columns.values()], axis=1)


def _known_columns(problem: Problem, level: str, with_action: bool) -> dict[str, tuple[Variable, int]]:
    """Return variable and coordinate by column: contexts at and above a level, actions above it; its own, last, if asked for."""
    variables = list(problem.visible(level).values())
    if with_action:
        variables.append(problem.level(level).actions.variable)
    return {column: (variable, place) for variable in variables for place, column in enumerate(variable.columns)}


def _column_values(rows: Rows, variable: Variable, place: int) -> AnyArray:
    """Return one column `[n]`: numbers, or the values of a category."""
    column = rows[variable.name]
    if variable.kind == "vector":
        return np.asarray(column[:, place], dtype=np.float64)
    if variable.kind == "real":
        return np.asarray(column, dtype=np.float64)
    if column.size and int(column.min()) < 0:
        raise PolicyError(
            f"column '{variable.name}', row {int(np.argmin(column))}: the category is missing; an estimator needs it"
        )
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in variable.values)
    return _value_array(variable.values, numeric)[column]


def _value_array(values: Sequence[Any], numeric: bool) -> AnyArray:
    """Return the values of a category as they stand in the log: numbers, or objects."""
    array = np.empty(len(values), dtype=np.float64 if numeric else object)
    array[:] = values
    return array


def _pandas_frame(level: str) -> MakeFrame:
    try:
        import pandas
    except ImportError as error:
        raise PolicyError(
            f"level '{level}': the estimator was fitted on a data frame and wants its columns by name: pip install pandas, give "
            "frame=polars.DataFrame or the like, or fit it on a matrix"
        ) from error
    frame: MakeFrame = pandas.DataFrame
    return frame


def estimators_by_level(problem: Problem, estimators: Any) -> dict[str, Any]:
    """Return estimators by level, outermost first; one by itself is that of the only level."""
    if not isinstance(estimators, Mapping):
        if len(problem.names) > 1:
            raise PolicyError(
                f"the problem has the levels {', '.join(problem.names)}: say whose estimator it is, as in "
                f"{{'{problem.names[-1]}': estimator}}"
            )
        return {problem.names[0]: estimators}
    if not estimators:
        raise PolicyError(f"there is no estimator; give one for at least one level of {', '.join(problem.names)}")
    for name in estimators:
        problem.level(name)
    return {name: estimators[name] for name in problem.names if name in estimators}


def ask_estimator(estimator: Any, method: str, inputs: Any, where: str) -> AnyArray:
    """Return what a method of an estimator answers, as an array; PolicyError for what it raises."""
    try:
        return np.asarray(getattr(estimator, method)(inputs))
    except Exception as error:  # any error of another library
        raise PolicyError(f"{where}: {type(estimator).__name__}.{method} raised {type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The decisions of a level on the prior side of a split, those with an observed reward below them.

    inputs: a matrix `[n, d]`, or a frame. with_action: the same and the action, for a regressor. actions `[n]`: values as in
    the log. rewards `[n]`: means below, in logged units. propensities `[n]`: of the actions taken. left_out: decisions without
    a reward.
    """

    inputs: Any
    with_action: Any
    actions: AnyArray
    rewards: Array
    propensities: Array
    left_out: int


@dataclass(frozen=True, slots=True)
class FittedPolicy:
    """A policy from another library and the record of what it was fitted on: `certify` uses the other side of the split alone."""

    policy: Policy
    record: Mapping[str, Any] = field(default_factory=dict)
    rewards: RewardModel | None = None


def training_rows(
    source: Source, split: Split, level: str | None = None, features: Sequence[str] | None = None, frame: MakeFrame | None = None
) -> TrainingRows:
    """Return rows of the prior side of a split to fit an estimator on, at a level (the innermost if None).

    features: columns, in their order; all that are known when the level decides if None. frame: `pandas.DataFrame` or the like,
    for estimators that want named columns; None: matrices. Decisions without any observed reward below them are left out.
    """
    problem = source.problem
    spec = problem.innermost if level is None else problem.level(level)
    batch = concat(list(source.batches(side="prior", split=source.with_cut(split))))
    rewards = subtree_means(batch)[spec.name]
    known = np.flatnonzero(np.isfinite(rewards))
    if not known.size:
        raise LogError(f"no reward was observed on the prior side of the split (column '{problem.reward.column}')")
    table = batch.levels[spec.name]
    rows = {name: values[known] for name, values in augmented_context(problem, batch, spec.name, with_action=True).items()}
    actions = _value_array(spec.actions.values, spec.actions.numeric)[table.action[known]]
    return TrainingRows(
        inputs=EstimatorInputs.of(problem, spec.name, features, frame).values(rows, known.size),
        with_action=EstimatorInputs.of(problem, spec.name, features, frame, with_action=True).values(rows, known.size),
        actions=actions if spec.actions.numeric else actions.astype(np.str_),
        rewards=rewards[known],
        propensities=table.mu_taken[known],
        left_out=int(rewards.size - known.size),
    )


def record_fit(source: Source, split: Split, policy: Policy, rewards: RewardModel | None = None) -> FittedPolicy:
    """Return a policy that was fitted on the prior side of a split of this log, with the record that says so.

    The record holds split, units, digests and fingerprints, as that of `learn` does. It is a declaration: if the policy was
    fitted on more rows than `training_rows` gives, its certificate is worthless.
    """
    levels = getattr(policy, "levels", None)
    scope = [name for name in source.problem.names if levels is None or name in levels]
    if not scope:
        raise SettingError(f"the policy acts at no level of {', '.join(source.problem.names)}")
    record = {"kind": str(getattr(policy, "kind", type(policy).__name__)), "scope": scope}
    return FittedPolicy(policy, {**record, **learning_record(source, split)}, rewards)
