"""Asking an estimator: what it raises, and what it returns that is no number, becomes an error that says where."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aegis.errors import PolicyError
from aegis.problem import AnyArray, Problem


def by_level(problem: Problem, estimators: Any) -> dict[str, Any]:
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


def asked(estimator: Any, method: str, inputs: Any, where: str) -> AnyArray:
    """Return what a method of an estimator answers, as an array; PolicyError for what it raises."""
    try:
        return np.asarray(getattr(estimator, method)(inputs))
    except Exception as error:  # whatever another library raises
        raise PolicyError(f"{where}: {name_of(estimator)}.{method} raised {type(error).__name__}: {error}") from error


def numbers(answer: AnyArray, shape: tuple[int, ...], what: str, where: str) -> np.typing.NDArray[np.float64]:
    """Return an answer as finite numbers of the shape expected; PolicyError names the first bad row."""
    try:
        found = answer.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"{where}: {what} are numbers; {error}") from error
    if found.shape != shape:
        raise PolicyError(f"{where}: {what} have the shape {list(found.shape)}, expected {list(shape)}")
    bad = ~np.isfinite(found).reshape(len(found), -1).all(axis=1)
    if bad.any():
        raise PolicyError(f"{where}, row {int(np.argmax(bad))}: {what} are not finite ({int(bad.sum())} bad rows)")
    return found


def name_of(estimator: Any) -> str:
    """Return what messages call an estimator."""
    return type(estimator).__name__
