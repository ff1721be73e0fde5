"""Logs of several behaviour policies: the published corollary on adaptive data, with the full product of ratios.

If versions of the policy outside the scope changed while the log was written, their ratios do not cancel. The hybrid of candidate
and incumbent, the policy that will act outside the scope, is then weighted at every level.
"""

from __future__ import annotations

import numpy as np

from aegis.certificate.candidate import Candidate
from aegis.certificate.measures import Measure
from aegis.certificate.plain import plain_values
from aegis.certificate.view import Models
from aegis.comparison.limits import declared_limit
from aegis.comparison.published_bounds import Posterior
from aegis.comparison.series import gather, largest_weight, views_of
from aegis.comparison.settings import ComparisonSettings
from aegis.comparison.setup import CertifiedLog
from aegis.evidence import Reading
from aegis.logs import Source, Split
from aegis.policies import Hybrid
from aegis.problem import Scope

MIXED = "the candidate was learned on units between the certified ones, while the policy that logged them changed"


def adaptive_posterior(
    source: Source,
    candidate: Candidate,
    incumbent: Candidate,
    scope: Scope,
    measure: Measure,
    settings: ComparisonSettings,
    fresh: bool,
    moving: int | None = None,
) -> Posterior:
    """Return Q = p0 = the candidate within the incumbent, on units that neither of them was learned from."""
    problem = source.problem
    log = CertifiedLog.of(source, [candidate, incumbent], fresh, moving)
    hybrid = Candidate(Hybrid(problem, scope, candidate.policy, incumbent.policy))
    everywhere = Scope(problem.names)
    series = {"value": lambda view: plain_values(view, everywhere, measure)}
    peaks = {"weight": lambda view: largest_weight(view, everywhere)}
    units = gather(problem, views_of(problem, hybrid.policy, Models(), log.batches()), series, peaks)
    # Units told apart by a hash lie before and after each other: under a policy that changed, what was learned from or fitted on
    # some of them is not independent of the others. Only a split in time keeps the past apart.
    timed = not isinstance(log.split, Split) or log.split.kind == "time"
    prior = None
    if log.prior is not None and timed:
        prior = gather(problem, views_of(problem, hybrid.policy, Models(), [log.prior]), series, {})["value"][:, None]
    return Posterior(
        "PRISM, adaptive",
        units["value"][:, None],
        np.ones(1),
        prior,
        units.peaks["weight"],
        declared_limit(problem, hybrid, everywhere, settings.largest_weight).against(units.peaks["weight"]),
        "Q = p0: the candidate in scope, the incumbent elsewhere, weighted at every level",
        Reading(logging="adaptive"),
        claim="the value of the candidate in scope with the incumbent elsewhere",
        unmet=() if timed or not (candidate.record or incumbent.record) or fresh else (MIXED,),
    )
