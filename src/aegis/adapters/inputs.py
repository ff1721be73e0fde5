"""What an estimator of another library sees of decisions: named columns in a fixed order, as a matrix or as a data frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aegis.errors import PolicyError, nearest
from aegis.policies.support import visible
from aegis.problem import AnyArray, Problem, Rows, Variable

Frame = Callable[[Mapping[str, AnyArray]], Any]  # makes a data frame of columns


@dataclass(frozen=True, slots=True)
class Inputs:
    """Columns of the log that are known when a level decides, in the order in which an estimator takes them.

    Numbers are numbers; categories, and actions, are the values that the problem file lists, as they stand in the log. A matrix
    is of numbers if all columns are, else of objects. frame: makes a data frame of the columns, by name; None: a matrix.
    """

    problem: Problem
    level: str
    columns: tuple[str, ...]
    with_action: bool = False
    frame: Frame | None = None

    @classmethod
    def of(
        cls,
        problem: Problem,
        level: str,
        columns: Sequence[str] | None = None,
        frame: Frame | None = None,
        with_action: bool = False,
        estimator: Any = None,
    ) -> Inputs:
        """Return the inputs of an estimator; columns: all that are known there if None, or those the estimator was fitted with.

        with_action: the level's own action is a column too, the last one unless they are named. Raises PolicyError for a column
        that is not known when the level decides, and if an estimator was fitted on other columns, or on more or fewer, than are
        named.
        """
        known = _known(problem, level, with_action)
        fitted = getattr(estimator, "feature_names_in_", None)
        names = None if fitted is None else tuple(str(name) for name in fitted)
        chosen = tuple(columns) if columns is not None else names or tuple(known)
        if with_action and columns is not None and problem.level(level).actions.column not in chosen:
            chosen = (*chosen, problem.level(level).actions.column)
        for name in chosen:
            if name not in known:
                raise PolicyError(
                    f"level '{level}': the column '{name}' is not known when it decides{nearest(name, known)}; known are "
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
        return cls(problem, level, chosen, with_action, frame if frame is not None or names is None else _pandas(level))

    def values(self, rows: Rows, count: int) -> Any:
        """Return the inputs of `count` decisions: a matrix `[n, d]`, or a frame. rows: by variable, as `augmented` gives them."""
        known = _known(self.problem, self.level, self.with_action)
        found = {name: _values(rows, *known[name]) for name in self.columns}
        if self.frame is not None:
            return self.frame(found)
        if not found:
            return np.zeros((count, 0))
        kind = object if any(column.dtype == object for column in found.values()) else np.float64
        return np.stack([column.astype(kind) for column in found.values()], axis=1)


def _known(problem: Problem, level: str, with_action: bool) -> dict[str, tuple[Variable, int]]:
    """Return variable and coordinate by column: contexts at and above a level, actions above it; its own, last, if asked for."""
    variables = list(visible(problem, level).values())
    if with_action:
        variables.append(problem.level(level).actions.variable)
    return {column: (variable, place) for variable in variables for place, column in enumerate(variable.columns)}


def _values(rows: Rows, variable: Variable, place: int) -> AnyArray:
    """Return one column `[n]`: numbers, or the values of a category."""
    given = rows[variable.name]
    if variable.kind == "vector":
        return np.asarray(given[:, place], dtype=np.float64)
    if variable.kind == "real":
        return np.asarray(given, dtype=np.float64)
    if given.size and int(given.min()) < 0:
        raise PolicyError(
            f"column '{variable.name}', row {int(np.argmin(given))}: the category is missing; an estimator needs it"
        )
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in variable.values)
    table = np.empty(len(variable.values), dtype=np.float64 if numeric else object)
    table[:] = variable.values
    found: AnyArray = table[given]
    return found


def _pandas(level: str) -> Frame:
    try:
        import pandas
    except ImportError as error:
        raise PolicyError(
            f"level '{level}': the estimator was fitted on a data frame and wants its columns by name: pip install pandas, give "
            "frame=polars.DataFrame or the like, or fit it on a matrix"
        ) from error
    made: Frame = pandas.DataFrame
    return made
