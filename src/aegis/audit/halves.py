"""A level whose actions are numbers, seen as two: the lower half of them, and the upper one.

A context that leans a little to one side with the action, because it was measured after it, moves every single action by less
than a bet on that action can show. The policy that chooses evenly from a half has the weight `1 / (number of its actions times
mu)`, with a mean of at most one like that of a single action, and sees the lean as a whole. Atoms of an interval stay by
themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aegis.problem import Actions, AnyArray, Array, Level, LevelTable, Propensity, Value

SEVERAL = 4  # actions: halves of fewer are single actions, or nearly


@dataclass(frozen=True, slots=True)
class Halves:
    """The half `[A]` that each action of a level is in, and the level with halves (and atoms) as its actions."""

    level: Level
    member: AnyArray

    @classmethod
    def of(cls, level: Level, atoms: int | None = None) -> Halves | None:
        """Return the halves; None if actions have no order (two need none), or there is one only.

        atoms: of the cells of an interval, which are in order, how many of the last actions are atoms.
        """
        count = level.actions.count - (atoms or 0)
        numeric = atoms is None and level.actions.numeric
        if count < 2 or (atoms is None and not numeric and count > 2):
            return None
        order = np.argsort(level.actions.numbers, kind="stable") if numeric else np.arange(count)
        member = np.arange(level.actions.count, dtype=np.int32) - count + 2
        member[order] = (np.arange(count) >= count // 2).astype(np.int32)
        values = level.actions.values
        ends = [(0, count // 2 - 1), (count // 2, count - 1)]
        names = [_between(values[order[first]], values[order[last]]) for first, last in ends]
        actions = Actions(level.actions.column, (*names, *[str(value) for value in values[count:]]), "labels")
        least = None if level.propensity is None else level.propensity.least
        # A half is at least as likely as one of its actions, so that what is promised of these holds of it too.
        return cls(
            replace(level, actions=actions, propensity=Propensity("half", least=least), available=(), incumbent=None), member
        )

    @property
    def several(self) -> bool:
        """Say whether halves are more than single actions."""
        return int((self.member < 2).sum()) >= SEVERAL

    def table(self, table: LevelTable) -> LevelTable:
        """Return the decisions `[n]` of a table, among the halves."""
        rows, half = np.arange(len(table)), self.member[table.action]
        inside = np.zeros((self.member.size, self.level.actions.count))
        inside[np.arange(self.member.size), self.member] = 1.0
        if table.mu_full is not None:
            full: Array = table.mu_full @ inside
            return replace(table, action=half, mu_taken=full[rows, half], mu_full=full, available=None)
        if table.available is None:
            return replace(table, action=half, mu_taken=table.mu_taken * inside.sum(axis=0)[half])
        number: Array = table.available @ inside
        return replace(table, action=half, mu_taken=table.mu_taken * number[rows, half], available=number > 0)


def _between(first: Value, last: Value) -> str:
    return str(first) if first == last else f"{first} ... {last}"
