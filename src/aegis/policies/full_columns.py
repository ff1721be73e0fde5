"""A policy known only through columns of the log, with its whole distribution at every decision: one column per action.

This is how a controller is known that says, each time it is asked, what it would do: in the states that were met, and no others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError, nearest
from aegis.policies.column_values import column_values
from aegis.policies.columns import TargetColumns
from aegis.policies.named_order import order_by_name
from aegis.policies.smoothed import at_taken
from aegis.policies.state import State, Storable
from aegis.policies.support import open_actions, table_of
from aegis.problem import Array, Batch, Problem

SUM_TOLERANCE = 1e-6


@dataclass(frozen=True, slots=True)
class FullColumns:
    """Probabilities of all actions, in the order of the action's values, by level; found in `Batch.extra`. One particle.

    Actions that are not available have probability 0 in it. Columns whose names show another order of the actions are refused.
    On an interval they are the probabilities of its points, around which it acts uniformly; it takes no atom.
    """

    kind: ClassVar[str] = "full columns"
    problem: Problem
    columns: Mapping[str, Sequence[str]]

    def __post_init__(self) -> None:
        names = self.problem.names
        for name, listed in self.columns.items():
            if name not in names:
                raise PolicyError(f"full columns: there is no level '{name}'{nearest(name, names)}; levels: {', '.join(names)}")
            count = self.problem.level(name).actions.count
            if len(listed) != count or len(set(listed)) < count:
                raise PolicyError(f"full columns: level '{name}' needs {count} different columns, one per action: {list(listed)}")
            shown = order_by_name(self.problem.level(name).actions, listed)
            if shown is not None and shown != tuple(listed):
                values = ", ".join(map(str, self.problem.level(name).actions.values))
                raise PolicyError(
                    f"full columns: level '{name}' has the actions {values}, in this order, but the columns {', '.join(listed)} "
                    f"are named after them in another; write {','.join(shown)}, or rename columns whose names mean something else"
                )
        if not self.columns:
            raise PolicyError(f"full columns: name the columns of at least one level of {', '.join(names)}")
        used = {column for listed in self.columns.values() for column in listed}
        for role in self.problem.roles:
            if role.kind != "propensity" and role.column in used:  # a legacy's own probabilities may be a target
                raise PolicyError(
                    f"full columns: '{role.column}' is {role.words}; a column here holds the probability that the candidate "
                    "gives to one action, fixed without looking at rewards: log it under a name of its own"
                )
        object.__setattr__(self, "columns", {name: tuple(self.columns[name]) for name in names if name in self.columns})

    @property
    def windowed(self) -> frozenset[str]:
        """Return the levels at which it acts, on an interval, in windows around the numbers it chooses."""
        return frozenset(self.columns)

    @property
    def weights(self) -> Array:
        """Return `[1]`."""
        return np.ones(1)

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`; PolicyError names column and row of what is missing or no distribution."""
        if level not in self.columns:
            raise PolicyError(f"level '{level}' has no columns; levels with some: {', '.join(self.columns)}")
        found = np.stack([column_values(self.problem, level, column, batch) for column in self.columns[level]], axis=1)
        wrong = np.abs(found.sum(axis=1) - 1.0) > SUM_TOLERANCE
        if wrong.any():
            row = int(np.argmax(wrong))
            raise PolicyError(
                f"level '{level}', row {row}: the probabilities in the columns '{self.columns[level][0]}' and following sum to "
                f"{found[row].sum():.6g}, expected 1"
            )
        self._check_available(level, found, batch)
        return found[None]

    def _check_available(self, level: str, found: Array, batch: Batch) -> None:
        """Raise PolicyError where actions that are not available have a probability."""
        spec, table = self.problem.level(level), table_of(batch, level)
        if table.available is None:
            return
        mask = open_actions(table.available, len(table), spec.actions.count, f"level '{level}'")
        wrong = (found > SUM_TOLERANCE) & ~mask
        if wrong.any():
            row, place = (int(at) for at in np.argwhere(wrong)[0])
            where = batch.where(row) if level == self.problem.innermost.name else f"level '{level}', decision {row}"
            raise PolicyError(
                f"{where}, column '{self.columns[level][place]}': {found[row, place]:g} for the action "
                f"'{spec.actions.values[place]}', which is not available there; unavailable actions have probability 0: log what "
                "the candidate does with the others"
            )

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        return at_taken(self.full(level, batch), self.problem.level(level), table_of(batch, level))

    def state(self) -> State:
        """Return the columns."""
        return State(self.kind, {"columns": {level: list(listed) for level, listed in self.columns.items()}})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> FullColumns:
        """Build the policy from its state."""
        return cls(problem, state.setting("columns"))


def columns_read(policy: object) -> tuple[str, ...]:
    """Return the further columns of the log that a policy, or a member of it, reads."""
    return tuple(dict.fromkeys(_columns_read(policy)))


def _columns_read(item: object) -> Iterable[str]:
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
            yield from _columns_read(member)
