"""From outcomes of replications to rates with a binomial test against the promised risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import beta, binomtest

from aegis.validation.coverage import Outcome

CONFIDENT = 0.95


@dataclass(frozen=True, slots=True)
class Rate:
    """How often one claim was violated.

    p_value: of a one-sided binomial test that the rate is at most delta; small means the promise is broken. bound, truth:
    medians over the runs, scaled. moved: mean of |w - 1|.
    """

    method: str
    scope: tuple[str, ...]
    what: str
    runs: int
    violations: int
    p_value: float
    bound: float
    truth: float
    units: float
    moved: float

    @property
    def share(self) -> float:
        """Return the share of runs in which the bound ever exceeded the truth."""
        return self.violations / self.runs

    def plain(self) -> dict[str, Any]:
        """Return plain data, rounded."""
        return {
            "method": self.method,
            "scope": list(self.scope),
            "what": self.what,
            "runs": self.runs,
            "violations": self.violations,
            "p_value": round(self.p_value, 4),
            "median_bound": round(self.bound, 4),
            "median_truth": round(self.truth, 4),
            "units": round(self.units, 1),
            "moved": round(self.moved, 3),
        }


def rates(outcomes: Sequence[Outcome], delta: float) -> list[Rate]:
    """Return the rate of each claim at risk delta on its own, in the order in which claims first appear."""
    groups: dict[tuple[str, tuple[str, ...], str], list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault((outcome.method, outcome.scope, outcome.what), []).append(outcome)
    found = []
    for (method, scope, what), members in groups.items():
        violations = sum(member.alone for member in members)
        bound, truth, units, moved = np.array([[m.bound, m.truth, m.units, m.moved] for m in members]).T
        found.append(
            Rate(
                method,
                scope,
                what,
                len(members),
                violations,
                excess(violations, len(members), delta),
                float(np.median(bound)),
                float(np.median(truth)),
                float(units.mean()),
                float(moved.mean()),
            )
        )
    return found


def together(outcomes: Sequence[Outcome]) -> dict[str, tuple[int, int]]:
    """Return by method in how many runs any claim was violated at its share of delta, and the number of runs."""
    found: dict[str, dict[int, bool]] = {}
    for outcome in outcomes:
        runs = found.setdefault(outcome.method, {})
        runs[outcome.run] = runs.get(outcome.run, False) or outcome.shared
    return {method: (sum(runs.values()), len(runs)) for method, runs in found.items()}


def rate_limit(violations: int, runs: int) -> float:
    """Return the upper 95 % limit of the rate of violations (Clopper and Pearson): no larger one is compatible with so few."""
    return 1.0 if violations >= runs else float(beta.ppf(CONFIDENT, violations + 1, runs - violations))


def excess(violations: int, runs: int, delta: float) -> float:
    """Return the p-value of the hypothesis that violations happen with probability at most delta."""
    return float(binomtest(violations, runs, delta, alternative="greater").pvalue)
