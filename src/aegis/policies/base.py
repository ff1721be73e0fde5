"""What policies share: storable members, checked distributions, smoothed choices, and the protocol of a single-level rule.

Where actions are an interval, a policy that gives probabilities to points acts uniformly in the window of the point it draws.
Here, and only here, probabilities of points become the density of the number taken, `sum_j pi_j 1{A in window j} / length_j`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from aegis.errors import PolicyError, did_you_mean
from aegis.problem import (
    SUM_TOLERANCE,
    Actions,
    AnyArray,
    Array,
    Batch,
    Bools,
    Level,
    LevelTable,
    Policy,
    Problem,
    Rows,
    Storable,
    Variable,
    is_atom,
    window_density,
    window_ends,
)

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
class DrawsNumbers(Protocol):
    """A policy that draws numbers of an interval itself, otherwise than by points and their windows."""

    def drawn(self, level: str, batch: Batch, uniform: Array) -> Array:
        """Return the number `[S, n]` that each particle takes for uniform numbers `[n]` from 0 to 1."""
        ...


def exact_actions(level: str, table: LevelTable) -> Array:
    """Return the exact actions `[n]`; PolicyError if the table does not hold them, or one has not been taken yet."""
    if table.value is None:
        raise PolicyError(
            f"level '{level}': its actions are an interval, but the decisions hold no exact ones (LevelTable.value); a density "
            "needs the number that was taken"
        )
    if np.isnan(table.value).any():
        raise _undecided(level, np.isnan(table.value))
    return table.value


def smoothed_density(actions: Actions, full: Array, value: Array) -> Array:
    """Return the density `[S, n]` at numbers `[n]` of choosing points by `full` `[S, n, A]` and acting in their windows."""
    heights = window_density(actions, actions.numbers[None, :], value[:, None])
    return np.einsum("sna,na->sn", full, heights)


def probability_taken(full: Array, level: Level, table: LevelTable) -> Array:
    """Return the probabilities `[S, n]` of the actions taken, out of full distributions `[S, n, A]`; densities on an interval."""
    if level.actions.continuous:
        return smoothed_density(level.actions, full, exact_actions(level.name, table))
    refuse_undecided(level.name, table)
    return np.take_along_axis(full, table.action[None, :, None].astype(np.int64), axis=2)[:, :, 0]


def without_atoms(level: Level, table: LevelTable, taken: Array) -> Array:
    """Return what a policy gives to the actions taken, `[S, n]`, with 0 at atoms of the logging policy.

    A probability was logged there; dividing a density by it would mean nothing. Counting such a decision as never taken can
    only lower what is certified.
    """
    if not level.actions.continuous or not level.actions.atoms:
        return taken
    return np.where(is_atom(level.actions, exact_actions(level.name, table)), 0.0, taken)


def refuse_undecided(level: str, table: LevelTable) -> None:
    """Raise PolicyError if an action is still -1: an index of -1 would read the last action in silence."""
    if (table.action < 0).any():
        raise _undecided(level, table.action < 0)


def _undecided(level: str, missing: Bools) -> PolicyError:
    row = int(np.argmax(missing))
    return PolicyError(f"level '{level}', row {row}: no action has been taken yet; ask for the full distribution instead")


def draw_numbers(policy: Policy, level: Level, batch: Batch, uniform: Array) -> Array:
    """Return the number `[S, n]` that each particle takes at an interval, for uniform numbers `[n]` from 0 to 1.

    The uniform number picks a point by inverse cdf, and what is left of it says where in the window.
    """
    if isinstance(policy, DrawsNumbers):
        return policy.drawn(level.name, batch, uniform)
    return draw_from_points(level.actions, np.asarray(policy.full(level.name, batch), dtype=np.float64), uniform)


def draw_from_points(actions: Actions, full: Array, uniform: Array) -> Array:
    """Return the number `[S, n]` taken by probabilities of points `[S, n, A]` for uniform numbers `[n]`."""
    cumulated = np.cumsum(full, axis=2)
    target = uniform * cumulated[:, :, -1]
    point: AnyArray = np.minimum((cumulated <= target[:, :, None]).sum(axis=2), full.shape[2] - 1)  # rounding may reach the end
    chance = np.take_along_axis(full, point[:, :, None], axis=2)[:, :, 0]
    after = np.take_along_axis(cumulated, point[:, :, None], axis=2)[:, :, 0]
    return number_in_window(actions, actions.numbers[point], 1.0 - (after - target) / chance)


def number_in_window(actions: Actions, centres: Array, share: Array) -> Array:
    """Return the numbers that lie a share, from 0 to 1, of the way through the windows around centres."""
    lower, upper = window_ends(actions, centres)
    return np.clip(lower + np.clip(share, 0.0, 1.0) * (upper - lower), lower, upper)


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


@runtime_checkable
class IntervalRule(Protocol):
    """A rule with a density of its own on an interval."""

    def density(self, level: Level, rows: Rows, count: int, value: Array) -> Array:
        """Return the density `[n]` at numbers `[n]`; at an atom of the level the probability of it."""
        ...

    def quantile(self, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
        """Return the number `[n]` that is drawn for uniform numbers `[n]` from 0 to 1."""
        ...


def density_of(rule: LevelRule, level: Level, rows: Rows, count: int, value: Array) -> Array:
    """Return the density `[n]` of a rule at numbers `[n]` of an interval."""
    if isinstance(rule, IntervalRule):
        return rule.density(level, rows, count, value)
    return smoothed_density(level.actions, rule.probabilities(level, rows, count)[None], value)[0]


def quantile_of(rule: LevelRule, level: Level, rows: Rows, count: int, uniform: Array) -> Array:
    """Return the number `[n]` that a rule draws from an interval for uniform numbers `[n]`."""
    if isinstance(rule, IntervalRule):
        return rule.quantile(level, rows, count, uniform)
    return draw_from_points(level.actions, rule.probabilities(level, rows, count)[None], uniform)[0]
