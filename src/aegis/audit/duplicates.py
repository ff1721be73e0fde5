"""Rows that repeat the row before them: exported twice? Only neighbours are compared, which is cheap."""

from __future__ import annotations

import numpy as np

from aegis.audit.finding import Finding, finding
from aegis.audit.sums import followed
from aegis.audit.view import View
from aegis.problem import AnyArray, Problem

RARE = 0.01  # share of equal rewards in neighbours of different parents, up to which equal rewards mean something
FEWEST = 3
SHARE = 0.001


class Duplicates:
    """Counts neighbours that are equal in reward, action and contexts, within a parent and across parents."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.pairs = 0
        self.equal = 0
        self.across = 0
        self.across_equal = 0

    def add(self, view: View) -> None:
        """Add the innermost decisions of a batch."""
        level = self.problem.innermost
        if level.decision is not None:
            return  # an id tells them apart, and reading refuses one that comes twice
        table = view.batch.levels[level.name]
        if len(table) < 2:
            return
        same_parent = followed(table.parent)[:-1]
        same_reward = view.reward[1:] == view.reward[:-1]  # nan is unlike itself
        self.pairs += int(same_parent.sum())
        self.across += int((~same_parent).sum())
        self.across_equal += int((same_reward & ~same_parent).sum())
        rows = np.flatnonzero(same_reward & same_parent)
        compared: list[AnyArray] = [table.action, table.mu_taken, *table.context.values()]
        for values in compared:
            rows = rows[_same(values, rows)]
        self.equal += rows.size

    def merge(self, other: Duplicates) -> None:
        """Add the counts of other rows."""
        self.pairs += other.pairs
        self.equal += other.equal
        self.across += other.across
        self.across_equal += other.across_equal

    def findings(self, repeated: bool) -> list[Finding]:
        """Return what was found; nothing if the reward is `repeated` anyway."""
        if repeated or self.across < FEWEST or self.across_equal > RARE * self.across:
            return []  # rewards have few values: equal neighbours are no surprise
        if self.equal < max(FEWEST, SHARE * self.pairs):
            return []
        message = f"{self.equal} of {self.pairs} rows are equal to the row before them, although rewards are hardly ever equal"
        figures: dict[str, float | str] = {
            "equal": float(self.equal),
            "share": self.equal / self.pairs,
            "by_chance": self.across_equal / self.across,
        }
        return [finding("duplicated-rows", "warning", message, self.problem.innermost.name, figures=figures)]


def _same(values: AnyArray, rows: AnyArray) -> AnyArray:
    equal = values[rows] == values[rows + 1]
    return equal if equal.ndim == 1 else equal.all(axis=1)
