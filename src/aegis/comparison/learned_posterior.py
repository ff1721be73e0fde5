"""The posterior of the published bounds, learned from the log as the paper does: p0 from the prior side, Q after all of it.

Three divergences matter, each restricted to the mechanisms of the scope: of p0 from the hyper-prior, which a bound with a
data-free prior pays for; of Q from p0, which the data-split protocol pays for; of Q from the hyper-prior, without a split.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from aegis.agents.candidates import CandidateSettings, make_candidate
from aegis.agents.fitting import fit
from aegis.certificate.candidate import Candidate
from aegis.certificate.measures import Measure
from aegis.certificate.view import Models
from aegis.comparison.evidence_bounds import Case
from aegis.comparison.limits import declared_limit
from aegis.comparison.published_bounds import Posterior
from aegis.comparison.series import gather, largest_weight, particle_series, views_of
from aegis.comparison.settings import ComparisonSettings
from aegis.comparison.setup import CertifiedLog
from aegis.evidence import Reading
from aegis.logs import Split
from aegis.mechanisms import MODELS, Belief
from aegis.problem import Policy, Scope

DRAWN = "Q stands for itself by draws that know the certified units, and a divergence pays for Q, not for its draws"


@dataclass(frozen=True, slots=True)
class LearnedPosterior:
    """Divergences by mechanism of the scope in nats, and the policy that plans with draws of Q, one drawn per episode."""

    prior_from_hyper: dict[str, float]
    posterior_from_prior: dict[str, float]
    posterior_from_hyper: dict[str, float]
    policy: Policy


def learn_posterior(log: CertifiedLog, split: Split, scope: Scope, settings: ComparisonSettings) -> LearnedPosterior:
    """Fit the mechanisms of a scope to the prior side, then update them with the certified units."""
    problem = log.problem
    fitted = fit(log.source, split, scope, MODELS)
    start, posterior = replace(fitted.belief, prior=fitted.belief.states), fitted.belief
    for batch in log.batches():
        posterior = posterior.update(batch)
    after = replace(start, states=posterior.states)
    kind = CandidateSettings("planned", particles=settings.particles, seed=settings.seed)
    policy = make_candidate(problem, replace(fitted, belief=posterior), scope, kind)
    return LearnedPosterior(
        _restricted(fitted.belief, scope), _restricted(after, scope), _restricted(posterior, scope), policy
    )  # fmt: skip


def hyper_prior(case: Case, candidate: Posterior, learned: LearnedPosterior) -> Posterior:
    """Return the candidate as Q against a data-free prior: it pays for all that the prior side taught.

    The candidate is fixed without the certified units, so that this is a certificate if the other conditions hold; only a
    needlessly low one.
    """
    words = "p0 = the hyper-prior, data-free; Q = the belief after the prior side, whose divergence is subtracted"
    return replace(candidate, name="PRISM, data-free p0", words=words, kl_by_mechanism=learned.prior_from_hyper)


def split_posterior(
    case: Case, log: CertifiedLog, scope: Scope, measure: Measure, learned: LearnedPosterior, settings: ComparisonSettings
) -> Posterior:
    """Return Q = the posterior after the certified units, p0 = the belief after the prior side, values of frozen draws of Q."""
    problem, policy = log.problem, learned.policy
    series = {"particles": particle_series(scope, measure)["particles"]}
    peaks = {"weight": lambda view: largest_weight(view, scope)}
    units = gather(problem, views_of(problem, policy, Models(), log.batches()), series, peaks)
    limit = declared_limit(problem, Candidate(policy), scope, settings.largest_weight).against(units.peaks["weight"])
    return Posterior(
        "PRISM, posterior Q",
        units["particles"],
        policy.weights,
        None,  # draws of Q know the certified units; lam on prior units would not make it a certificate
        units.peaks["weight"],
        limit,
        f"p0 = the belief after the prior side, Q = the posterior after all units, {np.size(policy.weights)} frozen draws",
        Reading(particles="draws"),
        learned.posterior_from_prior,
        "the value of planning with the posterior Q, which is not the candidate",
        (DRAWN,),
    )


def _restricted(belief: Belief, scope: Scope) -> dict[str, float]:
    divergences = belief.kl_by_mechanism()
    return {name: divergences[name] for name in belief.problem.mechanisms(scope) if name in divergences}
