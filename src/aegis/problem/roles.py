"""Roles of columns: each column of a log has one, but for a few pairs that mean the same thing twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from aegis.errors import ProblemError
from aegis.problem.level import Level
from aegis.problem.variables import Variable

Kind = Literal["id", "context", "action", "available", "propensity", "incumbent", "base", "outcome", "reward", "closed", "guard"]


@dataclass(frozen=True, slots=True)
class Role:
    """A column in one role; `words` say which; `depth` counts levels from the outside, 0 for what belongs to no level."""

    column: str
    kind: Kind
    words: str
    depth: int = 0


def column_roles(
    levels: tuple[Level, ...],
    outcome: Variable | None,
    reward: str,
    guards: Iterable[str] = (),
    episode: Iterable[str] = (),
    cluster: Iterable[str] = (),
    time: str | None = None,
    closed: str | None = None,
) -> tuple[Role, ...]:
    """Return every role of every column that a problem names."""
    found = [Role(column, "id", "the episode id") for column in episode]
    found += [Role(column, "id", "the cluster") for column in cluster]
    found += [] if time is None else [Role(time, "id", "the time")]
    for depth, level in enumerate(levels):
        found += _level_roles(level, depth)
    found += [] if outcome is None else [Role(column, "outcome", "the outcome") for column in outcome.columns]
    found.append(Role(reward, "reward", "the reward"))
    found += [] if closed is None else [Role(closed, "closed", "the flag that says whether the reward is final")]
    found += [Role(column, "guard", "a guard") for column in guards]
    return tuple(found)


def check_roles(roles: Iterable[Role], names: Iterable[str]) -> None:
    """Raise ProblemError if two roles share a column and may not, or two variables a name.

    A reward among the contexts would leak into every policy, a propensity shared by two levels would be divided by twice, an id
    that is a reward would cut episodes apart by their results: all of that reads well and gives wrong numbers.
    """
    taken: dict[str, list[Role]] = {}
    for role in roles:
        for other in taken.setdefault(role.column, []):
            if not may_share(other, role):
                raise ProblemError(
                    f"'{role.column}' is both {other.words} and {role.words}; each column has one role: name another column, or "
                    "log a copy under a name of its own if both are meant"
                )
        taken[role.column].append(role)
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ProblemError(f"two variables are called '{name}'; each variable has a name of its own")
        seen.add(name)


def may_share(one: Role, other: Role) -> bool:
    """Say whether two roles may be played by one column.

    Ids, time among them, only say which rows belong together, and a controller may look at one. So it may at a mask and at
    the action it meant to take; two levels may have a mask in common; what an inner controller means to do may be what the
    level above decided. A guard may watch the outcome, an action, or a context that the decisions above it bring about.
    """
    pair = frozenset((one.kind, other.kind))
    if pair == {"propensity", "incumbent"}:  # the incumbent's probabilities may be those that were logged
        return one.depth == other.depth
    if pair == {"base", "action"}:
        base, action = (one, other) if one.kind == "base" else (other, one)
        return base.depth > action.depth
    if pair == {"guard", "context"}:
        return max(one.depth, other.depth) > 0
    return pair in _SHARED


_SHARED: frozenset[frozenset[Kind]] = frozenset(
    frozenset(kinds)
    for kinds in (
        ("id", "id"),
        ("id", "context"),
        ("available", "available"),
        ("available", "context"),
        ("base", "context"),
        ("guard", "outcome"),
        ("guard", "action"),
    )
)


def _level_roles(level: Level, depth: int) -> Iterator[Role]:
    where = f"of level '{level.name}'"
    if level.decision is not None:
        yield Role(level.decision, "id", f"the decision id {where}", depth)
    for variable in level.context:
        for column in variable.columns:
            yield Role(column, "context", f"a context {where}", depth)
    yield Role(level.actions.column, "action", f"the action {where}", depth)
    for column in level.available:
        yield Role(column, "available", f"an action mask {where}", depth)
    if level.propensity is not None:
        for column in level.propensity.log_columns:
            if column == level.propensity.base:
                yield Role(column, "base", f"the base action {where}", depth)
            else:
                yield Role(column, "propensity", f"a propensity {where}", depth)
    if level.incumbent is not None:
        known = None if level.propensity is None else level.propensity.base
        for column in level.incumbent.log_columns:
            if column == level.incumbent.base and column != known:
                yield Role(column, "base", f"the incumbent's action {where}", depth)
            elif column != known:
                yield Role(column, "incumbent", f"a probability of the incumbent {where}", depth)
