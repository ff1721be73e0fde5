"""What policies share: the protocol of a single-level rule, storable state, and small array functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from aegis.errors import PolicyError, did_you_mean
from aegis.problem import SUM_TOLERANCE, AnyArray, Array, Batch, Bools, Level, LevelTable, Problem, Rows, Storable, Variable

Known = TypeVar("Known", Variable, AnyArray)


def require_storable(member: object, what: str) -> Storable:
    """Return `member` if it can be stored; raise PolicyError saying how it could be, otherwise."""
    if not isinstance(member, Storable):
        raise PolicyError(
            f"{what} is a {type(member).__name__}, which cannot be stored; give it the methods 'state' and 'restore', "
            "or use one of the kinds in aegis.policies.POLICIES"
        )
    return member


def storable_members(**members: object) -> dict[str, Storable]:
    """Return the members of a policy that are not None; raise PolicyError if one cannot be stored."""
    return {name: require_storable(member, f"the member '{name}'") for name, member in members.items() if member is not None}


def problem_of(policy: object) -> Problem:
    """Return the problem a policy was made for."""
    problem = getattr(policy, "problem", None)
    if not isinstance(problem, Problem):
        raise PolicyError(f"a {type(policy).__name__} does not say which problem it was made for; give it a 'problem' attribute")
    return problem


class SingleParticle:
    """The particle weights of an ordinary policy."""

    __slots__ = ()

    @property
    def weights(self) -> Array:
        """Return `[1]`."""
        return np.ones(1)


def set_fields(item: object, **values: object) -> None:
    """Set fields of a frozen dataclass while it is being built."""
    for name, value in values.items():
        object.__setattr__(item, name, value)


def table_of(batch: Batch, level: str) -> LevelTable:
    """Return the table of a level; raise PolicyError if the batch does not hold it."""
    if level not in batch.levels:
        held = ", ".join(batch.levels) or "none"
        raise PolicyError(
            f"the batch has no decisions of level '{level}'{did_you_mean(level, batch.levels)}; levels in it: {held}"
        )
    return batch.levels[level]


def open_actions(available: Bools | None, count: int, actions: int, where: str) -> Bools:
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


def bad_distribution(values: Array, mask: Bools | None) -> tuple[tuple[int, ...], str] | None:
    """Return where values `[..., n, A]` are not distributions over the open actions `[n, A]`, and what is expected.

    The place is the index `[..., n]` of the first bad row; None if all rows are distributions.
    """
    with np.errstate(invalid="ignore"):  # an infinity is found below, by row
        sums = values.sum(axis=-1)
    closed = None if mask is None else (values != 0) & ~mask
    proper = not values.size or (values.min() >= 0 and np.abs(sums - 1.0).max() <= SUM_TOLERANCE)
    if proper and (closed is None or not closed.any()):
        return None
    findings = (
        (~np.isfinite(values).all(axis=-1), "probabilities are finite numbers"),
        ((values < 0).any(axis=-1), "probabilities are not negative"),
        (np.zeros(sums.shape, bool) if closed is None else closed.any(axis=-1), "unavailable actions have probability 0"),
        (~(np.abs(sums - 1.0) <= SUM_TOLERANCE), f"probabilities sum to 1 (within {SUM_TOLERANCE:g})"),
    )
    bad, expected = next(finding for finding in findings if finding[0].any())
    return tuple(int(place) for place in np.argwhere(bad)[0]), f"{expected} ({int(bad.sum())} bad rows)"


def uniform_over(mask: Bools) -> Array:
    """Return the uniform distribution `[n, A]` over the open actions."""
    return mask / mask.sum(axis=1, keepdims=True)


def one_hot(index: AnyArray, actions: int) -> Array:
    """Return the deterministic distribution `[n, A]` on the actions `index[n]`."""
    return (np.arange(actions) == index[:, None]).astype(np.float64)


def nearest_action(values: Array, target: Array, mask: Bools) -> AnyArray:
    """Return the index `[n]` of the open action nearest to `target[n]`; of two equally near, the one listed first."""
    # Beyond the ends the order of distances no longer changes, but subtracting from a huge target would blur them.
    inside = np.clip(target, values.min(), values.max())
    distance = np.where(mask, np.abs(values - inside[:, None]), np.inf)
    return np.argmin(distance, axis=1)


def known_variable(known: Mapping[str, Known], name: str, where: str) -> Known:
    """Return a variable, or its values, by name; raise PolicyError if it is not known when the level decides."""
    if name not in known:
        listed = ", ".join(known) or "nothing"
        raise PolicyError(f"{where}: there is no variable '{name}'{did_you_mean(name, known)}; known when it decides: {listed}")
    return known[name]


def real_variable(rows: Rows, name: str, where: str) -> Array:
    """Return a real variable `[n]` of the augmented context; raise PolicyError if it is unknown, not real, or not finite."""
    values = known_variable(rows, name, where)
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
    if known_variable(known, name, where).kind != "real":
        raise PolicyError(f"{where}: '{name}' is {known[name].kind}, but a number is needed; use a real variable")


def linear_predictor(weights: Mapping[str, float], intercept: float, rows: Rows, count: int, where: str) -> Array:
    """Return the linear predictor `[n]`: intercept + sum of weight times variable."""
    total = np.full(count, intercept)
    with np.errstate(over="ignore", invalid="ignore"):  # checked right below
        for name, weight in weights.items():
            total = total + weight * real_variable(rows, name, where)
    if not np.isfinite(total).all():
        raise PolicyError(f"{where}: the linear predictor overflows; scale the variables or the weights down")
    return total


@runtime_checkable
class LevelRule(Protocol):
    """How one level picks an action."""

    def probabilities(self, level: Level, rows: Rows, count: int, available: Bools | None = None) -> Array:
        """Return the distribution `[n, A]` over the available actions for `count` decisions with context `rows`."""
        ...

    def check(self, level: Level, known: Mapping[str, Variable]) -> None:
        """Raise PolicyError unless the rule fits the level, whose decisions may look at the variables `known`."""
        ...

    def describe(self) -> dict[str, Any]:
        """Return the rule as plain data that `rule_from_description` reads back."""
        ...


class DescribedRule:
    """The description of a rule that is a dataclass: its kind, a key of LEVEL_RULES, and its fields."""

    __slots__ = ()
    kind: ClassVar[str]

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        settings = {part.name: _plain(getattr(self, part.name)) for part in fields(self)}  # type: ignore[arg-type]
        return {"kind": self.kind, **settings}


def _plain(value: Any) -> Any:
    if isinstance(value, LevelRule):
        return value.describe()
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def level_label(level: Level) -> str:
    """Return how error messages name a level."""
    return f"level '{level.name}'"


def need_numbers(level: Level, rule: str) -> None:
    """Raise PolicyError if the actions of a level are labels."""
    if not level.actions.numeric:
        raise PolicyError(f"{level_label(level)}: '{rule}' needs numeric actions, but '{level.actions.column}' has labels")
