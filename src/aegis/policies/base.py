"""What policies share: the protocol of a single-level rule, storable state, and small array functions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from aegis.errors import PolicyError, SettingError, did_you_mean
from aegis.problem import AnyArray, Array, Batch, Level, LevelTable, Problem, Rows, Storable, Variable


def require_storable(member: object, what: str) -> Storable:
    """Return `member` if it can be stored; raise PolicyError saying how it could be, otherwise."""
    if not isinstance(member, Storable):
        raise PolicyError(
            f"{what} is a {type(member).__name__}, which cannot be stored; give it the methods 'state' and 'restore', "
            "or use one of the kinds in aegis.policies.POLICIES"
        )
    return member


def problem_of(policy: object) -> Problem:
    """Return the problem a policy was made for."""
    problem = getattr(policy, "problem", None)
    if not isinstance(problem, Problem):
        raise PolicyError(f"a {type(policy).__name__} does not say which problem it was made for; give it a 'problem' attribute")
    return problem


# Which actions are available.
Mask = npt.NDArray[np.bool_]


def checked_number(value: object, what: str, low: float = -math.inf, high: float = math.inf) -> float:
    """Return a setting as a float; raise SettingError unless it is a finite number in [low, high]."""
    plain = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not plain or not math.isfinite(value) or not low <= value <= high:  # type: ignore[arg-type, operator]
        limits = "" if (low, high) == (-math.inf, math.inf) else f" from {low:g}" + ("" if high == math.inf else f" to {high:g}")
        raise SettingError(f"{what} is a finite number{limits}, found {value!r}")
    return float(value)  # type: ignore[arg-type]


def visible_variables(problem: Problem, level: str) -> dict[str, Variable]:
    """Return what a policy may look at when it decides at `level`: contexts at and above it, actions above it."""
    found: dict[str, Variable] = {}
    for outer in problem.above(level):
        found |= {variable.name: variable for variable in (*outer.context, outer.actions.variable)}
    return found | {variable.name: variable for variable in problem.level(level).context}


def table_of(batch: Batch, level: str) -> LevelTable:
    """Return the table of a level; raise PolicyError if the batch does not hold it."""
    if level not in batch.levels:
        held = ", ".join(batch.levels) or "none"
        raise PolicyError(
            f"the batch has no decisions of level '{level}'{did_you_mean(level, batch.levels)}; levels in it: {held}"
        )
    return batch.levels[level]


def open_actions(available: Mask | None, count: int, actions: int, where: str) -> Mask:
    """Return the mask `[n, A]`, everything open if `available` is None; raise PolicyError if a row has no action left."""
    if available is None:
        return np.ones((count, actions), dtype=bool)
    if available.shape != (count, actions):
        raise PolicyError(f"{where}: the action mask has shape {list(available.shape)}, expected {[count, actions]}")
    stuck = ~available.any(axis=1)
    if stuck.any():
        raise PolicyError(
            f"{where}, row {int(np.argmax(stuck))}: no action is available ({int(stuck.sum())} such rows); "
            "a decision needs at least one, correct the availability columns"
        )
    return available


def uniform_over(mask: Mask) -> Array:
    """Return the uniform distribution `[n, A]` over the open actions."""
    return mask / mask.sum(axis=1, keepdims=True)


def one_hot(index: AnyArray, actions: int) -> Array:
    """Return the deterministic distribution `[n, A]` on the actions `index[n]`."""
    return (np.arange(actions) == index[:, None]).astype(np.float64)


def nearest_action(values: Array, target: Array, mask: Mask) -> AnyArray:
    """Return the index `[n]` of the open action nearest to `target[n]`; of two equally near, the one listed first."""
    # Beyond the ends the order of distances no longer changes, but subtracting from a huge target would blur them.
    inside = np.clip(target, values.min(), values.max())
    distance = np.where(mask, np.abs(values - inside[:, None]), np.inf)
    return np.argmin(distance, axis=1)


def real_variable(rows: Rows, name: str, where: str) -> Array:
    """Return a real variable `[n]` of the augmented context; raise PolicyError if it is unknown, not real, or not finite."""
    if name not in rows:
        raise _unknown(name, rows, where)
    values = rows[name]
    if values.ndim != 1 or values.dtype.kind != "f":
        kind = "a vector" if values.ndim != 1 else "held as codes"
        raise PolicyError(f"{where}: '{name}' is {kind}, but a number per row is needed; use a real variable")
    bad = ~np.isfinite(values)
    if bad.any():
        row = int(np.argmax(bad))
        raise PolicyError(
            f"{where}, row {row}: '{name}' is {values[row]} ({int(bad.sum())} such rows); a rule needs a finite number, "
            "so set these rows aside or fill them in before asking the policy"
        )
    return values.astype(np.float64, copy=False)


def need_real(name: str, known: Mapping[str, Variable], where: str) -> None:
    """Raise PolicyError unless `name` is a real variable among `known`, what the decision may look at."""
    if name not in known:
        raise _unknown(name, known, where)
    if known[name].kind != "real":
        raise PolicyError(f"{where}: '{name}' is {known[name].kind}, but a number is needed; use a real variable")


def linear_predictor(weights: Mapping[str, float], intercept: float, rows: Rows, count: int, where: str) -> Array:
    """Return the linear predictor `[n]`: intercept + sum of weight times variable."""
    total = np.full(count, intercept)
    with np.errstate(over="ignore", invalid="ignore"):  # looked at right below
        for name, weight in weights.items():
            total = total + weight * real_variable(rows, name, where)
    if not np.isfinite(total).all():
        raise PolicyError(f"{where}: the linear predictor overflows; scale the variables or the weights down")
    return total


def _unknown(name: str, known: Mapping[str, object], where: str) -> PolicyError:
    listed = ", ".join(known) or "nothing"
    return PolicyError(f"{where}: there is no variable '{name}'{did_you_mean(name, known)}; known when it decides: {listed}")


@runtime_checkable
class LevelRule(Protocol):
    """How one level picks an action."""

    def probabilities(self, level: Level, rows: Rows, count: int, available: Mask | None = None) -> Array:
        """Return the distribution `[n, A]` over the available actions for `count` decisions with context `rows`."""
        ...

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Raise PolicyError unless the rule fits the level, whose decisions may look at the variables `known`."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the rule as plain data that `rule_of` reads back."""
        ...


def level_label(level: Level) -> str:
    """Return how error messages name a level."""
    return f"level '{level.name}'"


def need_numbers(level: Level, rule: str) -> None:
    """Raise PolicyError if the actions of a level are labels."""
    if not level.actions.numeric:
        raise PolicyError(f"{level_label(level)}: '{rule}' needs numeric actions, but '{level.actions.column}' has labels")


def named_weights(weights: Mapping[str, float], rule: str) -> dict[str, float]:
    """Return checked weights in the order of names, so that equal rules add up in the same order."""
    return {name: checked_number(weights[name], f"{rule}: the weight of '{name}'") for name in sorted(weights)}
