"""Policies known only through columns of the log: the probability of the action taken, or of every action."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError, did_you_mean
from aegis.policies.base import SingleParticle, open_actions, probability_taken, refuse_undecided, set_fields, table_of
from aegis.problem import SUM_TOLERANCE, Actions, AnyArray, Array, Batch, Problem, State, Storable, is_atom


def column_values(problem: Problem, level: str, column: str, batch: Batch, density: bool = False) -> Array:
    """Return the probabilities `[n]` that a column of `Batch.extra` holds for the decisions of a level.

    density: it holds densities at the numbers taken, as for one action of an interval. PolicyError names column and row of what
    is missing, outside [0, 1] (a density: below 0) or contradictory.
    """
    values = _numbers(problem, column, batch)
    if density:
        _check_densities(problem, level, column, values, batch)
    elif values.size and not (values.min() >= 0 and values.max() <= 1):  # a nan is neither
        row = int(np.argmax(~((values >= 0) & (values <= 1))))
        raise PolicyError(f"{_at(column, row, batch)}: {values[row]} is not a probability; expected a number in [0, 1]")
    if level == problem.innermost.name:
        return values
    owner = batch.ancestors(problem.innermost.name)[level]
    first = np.concatenate([np.zeros(min(1, owner.size), dtype=np.int64), np.flatnonzero(owner[1:] != owner[:-1]) + 1])
    if first.size != len(table_of(batch, level)):
        childless = np.bincount(owner, minlength=len(table_of(batch, level))) == 0
        raise PolicyError(
            f"column '{column}': decision {int(np.argmax(childless))} of level '{level}' has no innermost row to read it from"
        )
    own: Array = values[first]
    # Equal to the first row everywhere is equal to the row before everywhere.
    if bool(((values[1:] != values[:-1]) & (owner[1:] == owner[:-1])).any()):
        row = int(np.argmax(values != own[owner]))
        raise PolicyError(
            f"{_at(column, row, batch)}: {values[row]}, but {own[owner[row]]} on the first row of the same decision "
            f"of level '{level}'; repeat one value on all rows below a decision"
        )
    return own


def _check_densities(problem: Problem, level: str, column: str, values: Array, batch: Batch) -> None:
    """Refuse what is no density of a policy without atoms: it is 0 where the legacy has a probability.

    The legacy's own column is the one exception: it is the same at atoms.
    """
    wrong = ~((values >= 0) & (values < np.inf))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise PolicyError(f"{_at(column, row, batch)}: {values[row]} is not a density; expected a finite number from 0")
    spec, table = problem.level(level), table_of(batch, level)
    if table.value is None or (spec.propensity is not None and column == spec.propensity.column):
        return
    atoms = is_atom(spec.actions, table.value)
    mixed = (atoms if level == problem.innermost.name else atoms[batch.ancestors(problem.innermost.name)[level]]) & (values != 0)
    if mixed.any():
        row = int(np.argmax(mixed))
        raise PolicyError(
            f"{_at(column, row, batch)}: {values[row]} at an atom of the legacy, where a policy with a density takes nothing; "
            "write 0 there: a density is never divided by a probability"
        )


def _numbers(problem: Problem, column: str, batch: Batch) -> Array:
    """Return a column `[n]` as numbers, one per innermost decision."""
    innermost = table_of(batch, problem.innermost.name)
    if column not in batch.extra:
        held = ", ".join(batch.extra) or "none"
        raise PolicyError(
            f"the batch does not hold the target column '{column}'{did_you_mean(column, batch.extra)}; columns read: {held}"
        )
    values: AnyArray = batch.extra[column]
    if values.shape != (len(innermost),):
        raise PolicyError(f"column '{column}': {list(values.shape)} values for {len(innermost)} innermost decisions")
    try:
        return values.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise PolicyError(f"column '{column}': target probabilities are numbers; {error}") from error


def _at(column: str, row: int, batch: Batch) -> str:
    return f"{batch.where(row)}, column '{column}'"


def order_by_name(actions: Actions, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return columns in the order of the actions, if every name ends with another action's name, or begins so; else None.

    Columns that are numbered from 0 or 1, as they stand, may be so by their places: they are left as they are.
    """
    labels = [(f"{value:g}" if isinstance(value, float) else str(value)).casefold() for value in actions.values]
    for pattern in (r"(?<![^\W_]){}$", r"^{}(?![^\W_])"):  # whole words at the end, or at the beginning
        meant: dict[str, str] = {}
        for column in columns:
            fits = [label for label in labels if re.search(pattern.format(re.escape(label)), column.casefold())]
            # The longest counts: of two actions `b` and `a b` a column `q a b` means the second.
            meant[max(fits, key=len, default="")] = column
        if sorted(meant) == sorted(labels):
            numbered = [[str(first + place) for place in range(len(labels))] for first in (0, 1)]
            return None if list(meant) in numbered else tuple(meant[label] for label in labels)
    return None


def _check_columns(problem: Problem, kind: str, columns: Mapping[str, Sequence[str]]) -> None:
    """Raise PolicyError unless columns are of known levels, and none has another role than that of a propensity."""
    names = ", ".join(problem.names)
    for name in columns:
        if name not in problem.names:
            raise PolicyError(f"{kind}: there is no level '{name}'{did_you_mean(name, problem.names)}; levels: {names}")
    if not columns:
        raise PolicyError(f"{kind}: name columns for at least one level of {names}")
    used = {column for listed in columns.values() for column in listed}
    for role in problem.roles:
        if role.kind != "propensity" and role.column in used:  # the legacy's own probabilities may be a target
            raise PolicyError(
                f"{kind}: '{role.column}' is {role.words}; a column here holds a probability of the candidate, fixed without "
                "looking at rewards: log it under a name of its own"
            )


@dataclass(frozen=True, slots=True)
class TargetColumns(SingleParticle):
    """Target probabilities of the taken actions, one column per level name, found in `Batch.extra`; one particle.

    A level without a column cannot be asked. An outer level's column is repeated on the rows below each decision and must
    agree there.

    Parameters
    ----------
    problem
        The problem of the log.
    columns
        A column of the log by level name.

    Raises
    ------
    PolicyError
        If a level is unknown, or if a column has another role.
    """

    kind: ClassVar[str] = "columns"
    problem: Problem
    columns: Mapping[str, str]

    def __post_init__(self) -> None:
        _check_columns(self.problem, "target columns", {level: (column,) for level, column in self.columns.items()})
        set_fields(self, columns={name: self.columns[name] for name in self.problem.names if name in self.columns})

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`; PolicyError names column and row of what is missing, outside [0, 1] or contradictory."""
        refuse_undecided(level, table_of(batch, level))
        density = self.problem.level(level).actions.continuous
        return column_values(self.problem, level, self._column(level), batch, density)[None]

    def full(self, level: str, batch: Batch) -> Array:
        """Raise PolicyError: a column holds one probability per decision."""
        raise PolicyError(
            f"level '{level}': a target column holds the probability of the action taken only, but the whole distribution over "
            "the actions is needed here (doubly robust terms, caps, acting); give the policy as module:object or as a folder"
        )

    def state(self) -> State:
        """Return the columns."""
        return State(self.kind, {"columns": dict(self.columns)})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> TargetColumns:
        """Build the policy from its state."""
        return cls(problem, state.setting("columns"))

    def _column(self, level: str) -> str:
        if level not in self.columns:
            raise PolicyError(f"level '{level}' has no target column; levels with one: {', '.join(self.columns)}")
        return self.columns[level]


@dataclass(frozen=True, slots=True)
class FullColumns(SingleParticle):
    """Probabilities of all actions, in the order of the action's values, by level; found in `Batch.extra`. One particle.

    Actions that are not available have probability 0 in it. Columns whose names show another order of the actions are refused.
    On an interval they are the probabilities of its points, around which it acts uniformly; it takes no atom.

    Parameters
    ----------
    problem
        The problem of the log.
    columns
        One column per action by level name.

    Raises
    ------
    PolicyError
        If a level is unknown, if there is not one column per action, or if a column has another role.
    """

    kind: ClassVar[str] = "full columns"
    problem: Problem
    columns: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        _check_columns(self.problem, "full columns", self.columns)
        for name, listed in self.columns.items():
            actions = self.problem.level(name).actions
            if len(listed) != actions.count or len(set(listed)) < actions.count:
                raise PolicyError(
                    f"full columns: level '{name}' needs {actions.count} different columns, one per action: {list(listed)}"
                )
            shown = order_by_name(actions, listed)
            if shown is not None and shown != tuple(listed):
                values = ", ".join(map(str, actions.values))
                raise PolicyError(
                    f"full columns: level '{name}' has the actions {values}, in this order, but the columns "
                    f"{', '.join(listed)} are named after them in another; write {','.join(shown)}, or rename columns whose "
                    "names mean something else"
                )
        set_fields(self, columns={name: tuple(self.columns[name]) for name in self.problem.names if name in self.columns})

    @property
    def windowed(self) -> frozenset[str]:
        """Return the levels at which it acts, on an interval, in windows around the numbers it chooses."""
        return frozenset(self.columns)

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`; PolicyError names column and row of what is missing or no distribution."""
        if level not in self.columns:
            raise PolicyError(f"level '{level}' has no columns; levels with some: {', '.join(self.columns)}")
        chances = np.stack([column_values(self.problem, level, column, batch) for column in self.columns[level]], axis=1)
        wrong = np.abs(chances.sum(axis=1) - 1.0) > SUM_TOLERANCE
        if wrong.any():
            row = int(np.argmax(wrong))
            raise PolicyError(
                f"level '{level}', row {row}: the probabilities in the columns '{self.columns[level][0]}' and following sum to "
                f"{chances[row].sum():.6g}, expected 1"
            )
        self._check_available(level, chances, batch)
        return chances[None]

    def _check_available(self, level: str, chances: Array, batch: Batch) -> None:
        """Raise PolicyError where actions that are not available have a probability."""
        spec, table = self.problem.level(level), table_of(batch, level)
        if table.available is None:
            return
        mask = open_actions(table.available, len(table), spec.actions.count, f"level '{level}'")
        wrong = (chances > SUM_TOLERANCE) & ~mask
        if wrong.any():
            row, place = (int(at) for at in np.argwhere(wrong)[0])
            where = batch.where(row) if level == self.problem.innermost.name else f"level '{level}', decision {row}"
            raise PolicyError(
                f"{where}, column '{self.columns[level][place]}': {chances[row, place]:g} for the action "
                f"'{spec.actions.values[place]}', which is not available there; unavailable actions have probability 0: log what "
                "the candidate does with the others"
            )

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        return probability_taken(self.full(level, batch), self.problem.level(level), table_of(batch, level))

    def state(self) -> State:
        """Return the columns."""
        return State(self.kind, {"columns": {level: list(listed) for level, listed in self.columns.items()}})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> FullColumns:
        """Build the policy from its state."""
        return cls(problem, state.setting("columns"))


def policy_columns(policy: object) -> tuple[str, ...]:
    """Return the further columns of the log that a policy, or a member of it, reads."""
    return tuple(dict.fromkeys(_member_columns(policy)))


def _member_columns(item: object) -> Iterable[str]:
    if isinstance(item, TargetColumns):
        yield from item.columns.values()
    elif isinstance(item, FullColumns):
        for listed in item.columns.values():
            yield from listed
    elif isinstance(item, Storable):
        try:
            members = item.state().members
        except PolicyError:  # what cannot be stored has no members that could be asked
            return
        for member in members.values():
            yield from _member_columns(member)
