"""Does a level leave anything to chance, and are its propensities exact numbers?"""

from __future__ import annotations

import numpy as np

from aegis.audit.finding import Finding, Severity, finding
from aegis.errors import counted
from aegis.problem import Level, LevelTable

CERTAIN = 1.0 - 1e-9
MANY = {100: 8, 1000: 30}  # distinct values, all of them multiples of 1/100 or 1/1000, that no exact policy is likely to have
NO_DENSITY = (
    "log the density with which the controller drew its action, per unit of the action, and name it: 'propensity: {column: ..., "
    "density: true}'; or certify a scope without this level"
)


class LevelRandomisation:
    """Counts about the propensities of one level. atoms: see `Propensities`; a density is never certain, an atom may be."""

    def __init__(self, level: Level, atoms: int | None = None) -> None:
        self.level, self.atoms = level, atoms
        self.decisions = 0
        self.free = 0  # with more than one action available
        self.certain = 0  # of these, with a propensity of one
        self.below = 0
        self.smallest = np.inf
        self.choices: set[int] = set()  # numbers of actions that were available
        # How often each multiple of 1/100 and 1/1000 was logged; None once another number was.
        self.multiples: dict[int, np.ndarray | None] = {steps: np.zeros(steps + 1) for steps in MANY}

    @property
    def deterministic(self) -> bool:
        """Whether no decision was left to chance."""
        return self.free > 0 and self.certain == self.free

    def add(self, table: LevelTable) -> None:
        """Add the decisions of a batch."""
        self.decisions += len(table)
        known = np.isfinite(table.mu_taken)
        mu = table.mu_taken if known.all() else table.mu_taken[known]
        if self.level.propensity is None or not mu.size:
            return
        free = np.ones(len(table), dtype=np.bool_)
        if table.available is None:
            self.choices.add(self.level.actions.count)
        else:
            number = table.available.sum(axis=1)
            free = number > 1
            self.choices |= set(np.unique(number).tolist())
        self.free += int(free.sum())
        chances = free if self.atoms is None else table.action >= self.level.actions.count - self.atoms
        self.certain += int((free & chances & (table.mu_taken >= CERTAIN)).sum())
        self.smallest = min(self.smallest, float(mu.min()))
        if self.level.propensity.least is not None:
            self.below += int((mu < self.level.propensity.least * (1 - 1e-9)).sum())
        for steps, counts in self.multiples.items():
            if counts is None or self.atoms is not None:
                continue
            scaled = np.minimum(mu, 1.0) * steps
            whole = np.rint(scaled)
            exact = bool((np.abs(scaled - whole) <= 1e-7).all())
            self.multiples[steps] = counts + np.bincount(whole.astype(np.int64), minlength=steps + 1) if exact else None

    def merge(self, other: LevelRandomisation) -> None:
        """Add the counts of other decisions."""
        self.decisions += other.decisions
        self.free += other.free
        self.certain += other.certain
        self.below += other.below
        self.smallest = min(self.smallest, other.smallest)
        self.choices |= other.choices
        for steps, more in other.multiples.items():
            own = self.multiples[steps]
            self.multiples[steps] = None if own is None or more is None else own + more

    def findings(self, in_scope: bool) -> list[Finding]:
        """Return what was found; outside the scope nothing of it stands in the way."""
        level, given = self.level.name, self.level.propensity
        grave: Severity = "refused" if in_scope else "note"
        if given is None:
            message = f"level '{level}' has no propensity; nothing can be certified there"
            return [finding("no-propensity", grave, message, level, fix=None if self.atoms is None else NO_DENSITY)]
        column = given.log_columns[0] if given.log_columns else None
        found: list[Finding] = []
        if given.wrong_by is not None:
            message = (
                f"level '{level}': the propensities are declared as estimated and wrong by a factor of up to {given.wrong_by:g}; "
                "a certificate rests on that factor, which is not checked"
            )
            fix = "see that the factor holds in every context; where the controller can log its probabilities, log them"
            found.append(finding("estimated-propensities", "warning" if in_scope else "note", message, level, column, fix))
        elif given.estimated:
            message = f"level '{level}': the propensities are declared as estimated; they allow an estimate, not a certificate"
            found.append(finding("estimated-propensities", grave, message, level, column))
        if self.below:
            message = (
                f"level '{level}': {self.below} of {self.decisions} propensities are below the declared least {given.least:g}, "
                f"down to {self.smallest:g}"
            )
            found.append(finding("propensity-below-least", grave, message, level, column, smallest=self.smallest))
        if self.deterministic:
            every = "the one action was" if self.free == 1 else f"all {self.free} actions were"
            message = f"level '{level}': {every} taken with probability one; nothing else was ever tried"
            found.append(finding("deterministic-level", grave, message, level, column, decisions=float(self.free)))
        elif self.certain:
            share = self.certain / self.free
            message = f"level '{level}': {share:.1%} of {counted(self.free, 'decisions')} with a choice had a propensity of one"
            found.append(finding("partly-deterministic", "warning" if in_scope else "note", message, level, column, share=share))
        return found + self._rounded(in_scope, column)

    def _rounded(self, in_scope: bool, column: str | None) -> list[Finding]:
        given = self.level.propensity
        if self.atoms is not None or self.deterministic or column is None or given is None or given.base is not None:
            return []  # computed, not logged
        for steps, counts in self.multiples.items():
            if counts is None:
                continue
            values = np.flatnonzero(counts)
            if values.size < MANY[steps] and not any(_rounded_uniform(int(v), steps, self.choices) for v in values):
                continue
            error = 0.5 / steps / max(self.smallest, 1.0 / steps)
            message = (
                f"level '{self.level.name}': all propensities are multiples of {1 / steps:g} ({values.size} different ones), as "
                f"if rounded; a weight may be off by {error:.1%}"
            )
            severity: Severity = "warning" if in_scope else "note"
            return [
                finding(
                    "rounded-propensities", severity, message, self.level.name, column, distinct=float(values.size), error=error
                )
            ]
        return []


def _rounded_uniform(value: int, steps: int, choices: set[int]) -> bool:
    """Say whether value / steps is a uniform choice from some number of actions, rounded."""
    return any(number > 1 and steps % number and value == round(steps / number) for number in choices)
