"""Are exact actions as finely spread as a density says? A density gives no single number a chance.

A number that comes again and again is an atom that was not declared; numbers that all lie on a coarse lattice were rounded, or
never continuous. Either way windows hold more or less of the log than their length says.
"""

from __future__ import annotations

import numpy as np

from aegis.audit.finding import Finding, Severity, finding
from aegis.problem import Array, Batch, Level, Problem, Scope, at_atom

MOST = 20_000  # exact actions that are looked at, the first ones
FEWEST = 50
OFTEN = 10  # times as often as other numbers: an atom
COARSE = 0.005  # of a window, between neighbouring numbers: rounding that matters


class ExactActions:
    """The first exact actions of every interval, atoms left out."""

    def __init__(self, problem: Problem, scope: Scope) -> None:
        self.scope = scope
        self.levels = [level for level in problem.levels if level.actions.continuous]
        self.seen: dict[str, Array] = {level.name: np.zeros(0) for level in self.levels}

    def add(self, batch: Batch) -> None:
        """Add the decisions of a batch."""
        for level in self.levels:
            value = batch.levels[level.name].value
            if value is not None:
                self._keep(level.name, value[~at_atom(level.actions, value)])

    def merge(self, other: ExactActions) -> None:
        """Add later decisions."""
        for name, values in other.seen.items():
            self._keep(name, values)

    def findings(self) -> list[Finding]:
        """Return what was found."""
        return [found for level in self.levels for found in self._level(level)]

    def _keep(self, name: str, values: Array) -> None:
        room = MOST - self.seen[name].size
        if room > 0:
            self.seen[name] = np.concatenate([self.seen[name], values[:room]])

    def _level(self, level: Level) -> list[Finding]:
        values = self.seen[level.name]
        distinct, counts = np.unique(values, return_counts=True)
        if values.size < FEWEST or distinct.size == values.size:
            return []
        grave: Severity = "refused" if level.name in self.scope else "note"
        column, window = level.actions.column, 2.0 * float(level.actions.bandwidth or 0.0)
        step = float(np.diff(distinct).min(initial=np.inf))
        if step >= COARSE * window:
            message = (
                f"level '{level.name}': {values.size} exact actions have {distinct.size} different values, at least {step:.3g} "
                f"apart, in windows of {window:.3g}: they were rounded, or are no continuum"
            )
            return [finding("rounded-actions", grave, message, level.name, column, step=step, distinct=float(distinct.size))]
        top = int(np.argmax(counts))
        usual = (values.size - counts[top]) / (distinct.size - 1)
        if counts[top] < OFTEN * max(usual, 1.0):
            return []
        message = (
            f"level '{level.name}': {distinct[top]:.9g} was taken {counts[top]} times in {values.size} decisions; a density "
            "gives no single number a chance"
        )
        figures: dict[str, float | str] = {"value": float(distinct[top]), "count": float(counts[top])}
        return [finding("undeclared-atom", grave, message, level.name, column, figures=figures)]
