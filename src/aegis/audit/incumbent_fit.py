"""Can the stated incumbent belong to this log? Every row is held against what the problem promises of it.

With the whole distribution in the log a promised largest ratio of incumbent to logger is checked at every action; with the
probability of the action taken alone, at that action.
"""

from __future__ import annotations

from aegis.audit.codes import IMPOSSIBLE
from aegis.audit.finding import Finding, finding
from aegis.errors import RefusedError
from aegis.policies import StatedIncumbent, stated_levels
from aegis.policies.incumbent import misfit
from aegis.problem import Batch, Problem

FIX = "correct 'incumbent' in the problem file, or the propensities"


class IncumbentFit:
    """The first decision of each level that its stated incumbent does not fit."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.levels = sorted(stated_levels(problem))
        self.policy = StatedIncumbent(problem) if self.levels else None
        self.broken: dict[str, str] = {}

    def add(self, batch: Batch) -> None:
        """Add the episodes of a batch, as it is in the log."""
        for name in self.levels:
            if self.policy is None or name in self.broken:
                continue
            known = batch.levels[name].mu_full is not None
            full = self.policy.full(name, batch)[0] if known else None
            found = misfit(name, batch, self.policy.taken(name, batch)[0], full, self.problem.level(name).ratio_bound)
            if found is not None:
                self.broken[name] = _message(name, batch, *found)

    def merge(self, other: IncumbentFit) -> None:
        """Add what a later part of the log holds."""
        self.broken = {**other.broken, **self.broken}

    def findings(self) -> list[Finding]:
        """Return a finding for each level whose incumbent does not fit."""
        return [finding(IMPOSSIBLE, "refused", message, name, fix=FIX) for name, message in self.broken.items()]


def impossible(level: str, batch: Batch, decision: int, why: str) -> RefusedError:
    """Return the error of a decision that an incumbent does not fit."""
    return RefusedError(_message(level, batch, decision, why), IMPOSSIBLE, FIX)


def check_incumbent(problem: Problem, batch: Batch) -> None:
    """Raise RefusedError, naming the row, where the stated incumbent does not fit the episodes of a batch."""
    fit = IncumbentFit(problem)
    if fit.levels:
        fit.add(batch)
    for message in fit.broken.values():
        raise RefusedError(message, IMPOSSIBLE, FIX)


def _message(level: str, batch: Batch, decision: int, why: str) -> str:
    row = int(batch.first_rows(level)[decision])
    return (
        f"{batch.where(row)}, level '{level}': under the stated incumbent the logged action cannot have the logged probability: "
        f"{why}"
    )
