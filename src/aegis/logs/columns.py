"""The columns that a problem needs from a log: the role of each, and what it may hold. Findings name the rows that do not fit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from aegis.errors import LogError, did_you_mean
from aegis.problem import AnyArray, Level, Problem, RowOrigins, Value, Variable

Role = Literal[
    "episode",
    "cluster",
    "time",
    "decision",
    "context",
    "action",
    "available",
    "propensity",
    "base",
    "incumbent",
    "outcome",
    "reward",
    "closed",
    "guard",
    "extra",
]
ColumnKind = Literal["key", "time", "number", "category", "flag", "any"]
# What other tools call the probability of the logged action.
PROPENSITY_NAMES = ("pscore", "action_prob", "probability", "propensity", "prob", "p")
KNOWN_POLICIES = ("uniform",)

_WORDS: dict[str, str] = {
    "episode": "episode id",
    "decision": "decision id",
    "available": "action mask",
    "base": "base action",
    "incumbent": "probability of the incumbent",
    "closed": "flag that closes the reward",
    "guard": "guard column",
    "extra": "extra column",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the log in one role; a column may have several roles.

    kind: `key` (text, whole numbers or dates, compared but not computed with), `time` (the same or any number),
    `number`, `category` (one of `values`), `flag` (true or false), `any` (carried as found). optional: may be empty. positive:
    a propensity of the action taken, which is never 0. density: it is per unit of the action, and may exceed 1. limits: the
    smallest and the largest number that is allowed.
    """

    name: str
    role: Role
    kind: ColumnKind
    level: str | None = None
    values: tuple[Value, ...] = ()
    optional: bool = False
    positive: bool = False
    density: bool = False
    limits: tuple[float, float] | None = None

    @property
    def key(self) -> str:
        """Return the name under which the converted column is kept, different for each role."""
        return column_key(self.role, self.name, self.level)

    @property
    def repeated(self) -> bool:
        """Whether the column holds few values many times over, if it holds text."""
        return self.kind == "category" or self.role in ("episode", "decision", "cluster")

    @property
    def what(self) -> str:
        """Return the role in words, for messages."""
        named = _WORDS.get(self.role, self.role)
        return named if self.level is None else f"{named} of level '{self.level}'"


def column_key(role: Role, name: str, level: str | None = None) -> str:
    """Return `Column.key` without building the column."""
    return f"{role}/{level or ''}/{name}"


def required_columns(problem: Problem, extra: Iterable[str] = ()) -> tuple[Column, ...]:
    """Return every column that reading a log of this problem needs, each role once, and the `extra` ones.

    Raises LogError for a propensity that the log does not hold and that is not known by name.
    """
    columns = [Column(name, "episode", "key") for name in problem.episode]
    columns += [Column(name, "cluster", "key") for name in problem.cluster_columns]
    if problem.time is not None:
        columns.append(Column(problem.time, "time", "time"))
    for level in problem.levels:
        columns += level_columns(level)
    if problem.outcome is not None:
        columns += _variable_columns(problem.outcome, "outcome", None, optional=True)
    columns.append(Column(problem.reward.column, "reward", "number", optional=True))
    if problem.reward.closed is not None:
        columns.append(Column(problem.reward.closed, "closed", "flag"))
    columns += [Column(guard.column, "guard", "number", optional=True) for guard in problem.guards]
    further = (extra,) if isinstance(extra, str) else extra
    columns += [Column(name, "extra", "any", optional=True) for name in further]
    return tuple({column.key: column for column in columns}.values())


def duplicate_column_error(file: str, name: str, names: Sequence[str]) -> LogError:
    """Return the error about a name that several columns have; the caller raises it."""
    if name:
        return LogError(f"{file}: the column '{name}' is there twice; rename or remove one of the two")
    blank, first = names.count(""), next(iter(names))
    return LogError(
        f"{file}: {blank} of {len(names)} columns have no name (the first is '{first}'); the header is the first line: remove "
        "the lines above it, or give every column a name"
    )


def check_columns_present(columns: Iterable[Column], names: Iterable[str], file: str, dialect: str = "") -> None:
    """Raise LogError, listing missing columns and similar names, unless `names` has every column once.

    dialect: how the file was read, in words, which may be why.
    """
    present = list(names)
    wanted = {column.name: column for column in reversed(tuple(columns))}
    twice = sorted({name for name in wanted if present.count(name) > 1})
    if twice:
        raise duplicate_column_error(file, twice[0], present)
    missing = [column for column in reversed(wanted.values()) if column.name not in present]
    if not missing:
        return
    lines = [f"'{column.name}' ({column.what}){_offer(column, present, wanted)}" for column in missing]
    many = f"{len(missing)} columns are" if len(missing) > 1 else "a column is"
    read = f" (read as text {dialect})" if dialect else ""
    raise LogError(f"{file}: {many} missing: {'; '.join(lines)}. {_listing(present)}{read}")


def level_columns(level: Level) -> list[Column]:
    """Return every column that one level needs from a log."""
    name, values = level.name, level.actions.values
    columns = [] if level.decision is None else [Column(level.decision, "decision", "key", name)]
    for variable in level.context:
        columns += _variable_columns(variable, "context", name)
    if level.actions.continuous:
        columns.append(Column(level.actions.column, "action", "number", name, limits=level.actions.limits))
    else:
        columns.append(Column(level.actions.column, "action", "category", name, values))
    columns += [Column(column, "available", "flag", name) for column in level.available]
    logged, own = level.propensity, level.comparator
    if own is not None and own.base is not None:
        columns.append(Column(own.base, "base", "category", name, values))
    if own is not None:
        columns += [Column(column, "incumbent", "number", name) for column in own.columns]
    if logged is None:
        return columns
    if logged.policy is not None and logged.policy not in KNOWN_POLICIES:
        raise LogError(
            f"level '{name}': the propensities of the policy '{logged.policy}' are not known"
            f"{did_you_mean(logged.policy, KNOWN_POLICIES)}; known: {', '.join(KNOWN_POLICIES)}. Log the probability of "
            "the action "
            "taken and name it under propensity 'column'"
        )
    if logged.base is not None and (own is None or own.base != logged.base):
        columns.append(Column(logged.base, "base", "category", name, values))
    if logged.column is not None:
        return [*columns, Column(logged.column, "propensity", "number", name, positive=True, density=logged.density)]
    return columns + [Column(column, "propensity", "number", name) for column in logged.columns]


def _variable_columns(variable: Variable, role: Role, level: str | None, optional: bool = False) -> list[Column]:
    kind: ColumnKind = "category" if variable.kind == "categorical" else "number"
    return [Column(column, role, kind, level, variable.values, optional) for column in variable.columns]


def _offer(column: Column, present: list[str], wanted: Iterable[str]) -> str:
    """Say which present column may have been meant; not one that the problem already uses."""
    free = [name for name in present if name not in set(wanted)]
    known = [name for name in free if name.lower() in PROPENSITY_NAMES] if column.role == "propensity" else []
    if known:
        return f", perhaps '{known[0]}', as other tools call it"
    close = did_you_mean(column.name, free)
    if column.role == "episode" and not close:
        return (
            ", which tells independent units apart: name one that is there, or write 'episode: row' if each row is a unit of "
            "its own"
        )
    return close


def _listing(present: list[str], most: int = 40) -> str:
    if len(present) == 1:
        return f"The file has one column, {present[0]!r}; fields are separated by commas, semicolons, tabs or vertical bars"
    shown = ", ".join(present[:most])
    return f"The file has: {shown}{f' and {len(present) - most} more' if len(present) > most else ''}"


MOST_KINDS = 10  # kinds that a message lists


# Takes note of wrong rows: indices (one or more), the column, and a text about one of them.
RowReport = Callable[[AnyArray, str, Callable[[int], str]], None]
ROUND_OFF = 1e-9
PROBABILITY_ADVICE = "a propensity is the probability of the action taken, above 0 and at most 1"


def note_rows(report: RowReport, wrong: AnyArray, column: str, text: Callable[[int], str]) -> None:
    """Report the rows of a mask `bool[n]`, if there are any."""
    if wrong.any():
        report(np.flatnonzero(wrong), column, text)


@dataclass(slots=True)
class Findings:
    """Kinds of findings in rows whose origin is known; one call of `add` is one kind."""

    places: RowOrigins
    _lines: list[tuple[tuple[int, int], str]] = field(default_factory=list)

    def add(self, wrong: AnyArray, column: str, text: Callable[[int], str], more: bool = False) -> None:
        """Note the row indices `wrong`, one or more; `text` describes one. more: there may be others."""
        index, further = self.places.earliest(wrong), wrong.size - 1
        line = f"{self.places.at(index)}, column '{column}': {text(index)}"
        if further:
            line += f" (and {'at least ' if more else ''}{further:,} more row{'s' if further > 1 else ''} like it nearby)"
        self._lines.append((self.places.order(index), line))

    def __bool__(self) -> bool:
        return bool(self._lines)

    def settle(self) -> None:
        """Raise LogError with a line for each kind, in the order of the rows, if there are any."""
        if not self._lines:
            return
        lines = [line for _, line in sorted(self._lines, key=lambda entry: entry[0])]
        left = len(lines) - MOST_KINDS
        if left > 0:
            lines = [*lines[:MOST_KINDS], f"and {left} more kind{'s' if left > 1 else ''} of findings in these rows"]
        raise LogError("\n".join(lines))


def shorten(text: str, most: int = 80) -> str:
    """Return a text, cut if it is long."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def show_value(value: object) -> str:
    """Return a value as messages show it: text in quotes, numbers as they are, long text cut."""
    return shorten(repr(value))
