"""Do the incumbent's ratios mu/nu average one, where only the probability of the action taken is logged?

They do if the log takes every action that the incumbent takes. Mass that the log never reaches does not show in any single row,
but it is missing from the mean: `E[mu/nu] = sum over nu > 0 of mu`. A problem that promises a largest ratio C promises that
nothing is missing. Then `C - mu/nu` is at least 0 and has mean `C - 1`, so that a bet can refute the promise. Without a promise
nothing is refuted; a mean clearly below one is worth a warning (theory section 12, actions taken only).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from aegis.audit.finding import Finding, finding
from aegis.certificate.claims import Claim
from aegis.certificate.collecting import Evidence, Moments
from aegis.certificate.measures import Measure
from aegis.certificate.parts import SLACK, Part
from aegis.certificate.request import Request
from aegis.certificate.units import Clusters
from aegis.certificate.view import View
from aegis.errors import counted
from aegis.evidence import value_grid
from aegis.policies import path_taken
from aegis.problem import AnyArray, Array, Problem, Scope

ALPHA = 0.001  # a promise that is kept is refused with at most this probability
SCORE = 4.0  # standard errors by which a mean is clearly below one
FEW = 100  # units, below which a mean says nothing
SERIES = "ratio"
UNREACHED = "incumbent-unreached"


@dataclass(slots=True)
class IncumbentRatios:
    """Ratios of the incumbent at one level over the certified units; bets: against a promised largest one, if there is any."""

    level: str
    moments: Moments
    bets: Evidence | None

    @classmethod
    def start(cls, problem: Problem, level: str, measure: Measure, most: float | None) -> IncumbentRatios:
        """Return no ratios yet; most: the largest one that is promised."""
        clusters = None if problem.cluster is None else Clusters(np.zeros(1), problem.cluster_most, problem.cluster_name)
        found = cls(level, Moments((SERIES,), clusters), None)
        if most is not None:
            part = Part("shortfall", "values", most * (1 + SLACK) - 1.0, partial(_missing, level, most * (1 + SLACK)))
            claim = Claim(0, Scope(level), "weights", measure, 0.0, ALPHA, (part,))
            found.bets = Evidence.start(claim, (value_grid(0),), problem)
        return found

    def add(self, view: View, certified: AnyArray | None) -> None:
        """Add the certified episodes of a view; all of them if None."""
        self.moments.add(_unit_ratios(view, self.level)[:, None], view.batch.cluster, certified)
        if self.bets is not None:
            self.bets.add(self.bets.compute(view), view.batch.cluster, certified)

    def merge(self, other: IncumbentRatios) -> None:
        """Add the units of another."""
        self.moments.merge(other.moments)
        if self.bets is not None and other.bets is not None:
            self.bets.merge(other.bets)

    def close(self) -> None:
        """Turn clusters into units."""
        self.moments.close()
        if self.bets is not None:
            self.bets.close()

    @property
    def missing(self) -> float:
        """Return the share of the incumbent's probability that seems to be missing; 0 unless it is clearly above that."""
        mean, error = self.moments.mean(SERIES), self.moments.error(SERIES)
        clear = self.moments.count >= FEW and mean + SCORE * error < 1.0
        return 1.0 - mean if clear or self.refuted else 0.0

    @property
    def refuted(self) -> bool:
        """Say whether a bet refutes the promise."""
        blend = None if self.bets is None else self.bets.blend
        return blend is not None and blend.count > 0 and blend.certifies(0.0, ALPHA)

    def finding(self) -> Finding | None:
        """Return what was found; None if nothing is missing as far as the log shows."""
        share = self.missing
        if not share > 0:
            return None
        units = counted(self.moments.count, "clusters" if self.moments.clusters is not None else "episodes")
        mean = (
            f"at '{self.level}' the ratios of incumbent to logged probability average {1 - share:.3g} over {units}, not 1: about "
            f"{100 * share:.2g} % of the incumbent's probability lies on actions that the log never takes, or too rarely to show"
        )
        if self.refuted:
            return finding(
                UNREACHED,
                "refused",
                f"{mean}. That refutes the promise ('max_ratio' or 'epsilon' of the incumbent, or 'least' of the propensity) "
                "that the log takes every action of the incumbent",
                self.level,
                fix="leave the promise out, so that these actions count as if the incumbent earned the most there; or explore "
                "around the incumbent; or correct 'incumbent' in the problem file",
                share=share,
            )
        return finding(
            UNREACHED,
            "warning",
            f"{mean}. They count as if the incumbent earned the most there, so that gains come out smaller than they are",
            self.level,
            share=share,
        )


def start_ratios(request: Request, measure: Measure) -> dict[str, IncumbentRatios]:
    """Return no ratios yet, by level at which an incumbent is stated and only the probability of the action taken is logged."""
    problem, comparator = request.problem, request.comparator
    asked = {name for scope in request.scopes for name in comparator.compared(scope)} & comparator.levels
    found = {}
    for name in sorted(asked):
        given = problem.level(name).propensity
        if given is not None and not given.full and name not in problem.wrong_by():
            found[name] = IncumbentRatios.start(problem, name, measure, comparator.promised.get(name))
    return found


def _missing(level: str, most: float, view: View, bets: Array, widened: float) -> Array:
    return np.maximum(most - _unit_ratios(view, level), 0.0)  # rows were checked up to the rounding of probabilities


def _unit_ratios(view: View, level: str) -> Array:
    """Return the nested mean `[E]` of mu/nu at the decisions of a level."""
    found = view.against(Scope(level))
    if found is None:
        return np.ones(len(view.batch))
    ratio = path_taken(found, level, found.batch) / view.batch.levels[level].mu_taken
    return view.series(("ratios", level), lambda: ratio, level)
