"""PRISM on the units of a log in all its variants: every number says how lam, B, prior and KL came about.

B is declared (from caps and promised propensities) or, as in the published experiments, the largest weight observed. lam is the
closed form lam* on the certified units, 1/sqrt(K), or the closed form on prior units, which the theorem allows. Only the
conditions of the theorem decide what is called a certificate (theory section 6).

The posterior is learned from the log as the paper does: p0 from the prior side, Q after all of it. Three divergences matter, each
restricted to the mechanisms of the scope: of p0 from the hyper-prior, which a bound with a data-free prior pays for; of Q from
p0, which the data-split protocol pays for; of Q from the hyper-prior, without a split.

Logs of several behaviour policies: if versions of the policy outside the scope changed while the log was written, their ratios
do not cancel. The hybrid of candidate and incumbent, the policy that will act outside the scope, is then weighted at every
level (the published corollary on adaptive data, with the full product of ratios).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from aegis.agents import CandidateSettings, fit_mechanisms, make_candidate
from aegis.certificate import Candidate
from aegis.comparison.bounds import (
    VALUE_VARIANTS,
    BoundCase,
    BoundCollection,
    PublishedPosterior,
    WeightLimit,
    add_bound,
    declared_weight_limit,
    value_bounds,
)
from aegis.comparison.comparison import ComparisonSettings
from aegis.comparison.unit_series import CertifiedLog, ComparedCandidate, gather_series, largest_weight, particle_series
from aegis.evidence import BOUNDS, BoundOrigin
from aegis.logs import Split
from aegis.mechanisms import MODELS, Belief
from aegis.ope import RewardModels, plain_values, reward_measure, views_in_pieces
from aegis.policies import Hybrid
from aegis.problem import Policy, Scope


def add_published_bounds(
    case: BoundCase, compared: ComparedCandidate, outside: Candidate | None, collection: BoundCollection
) -> None:
    """Add PRISM of the candidate in all its variants, of learned posteriors, and for logs of several policies.

    outside: the policy that acts outside the scope. The candidate against a data-free prior pays for all that the prior side
    taught; it is a certificate if the other conditions hold, only a needlessly low one.
    """
    value_bounds(case, case.posterior, collection)
    for name, method in BOUNDS.items():
        if "compare" in method.commands and method.published and name not in VALUE_VARIANTS:
            for what in method.claims:
                add_bound(name, what, case, case.posterior, collection)
    split = compared.log.split
    if compared.settings.posterior and isinstance(split, Split):
        learned = learn_posterior(compared.log, split, compared.scope, compared.settings)
        data_free = replace(case.posterior, name="PRISM, data-free p0", words=DATA_FREE, kl_by_mechanism=learned.prior_from_hyper)
        value_bounds(case, data_free, collection)
        value_bounds(case, split_posterior(compared.log, compared.scope, compared.settings, learned), collection)
        words = "p0 = the hyper-prior, Q = the posterior after all units"
        on_policy_bound(case, learned.posterior_from_hyper, words, collection)
    else:
        reason = "propensities move, so that its beliefs are learned from the earliest units: name a 'time' column"
        if not compared.settings.posterior:
            on_policy_bound(case, {}, "Q = p0, no divergence", collection)
            reason = "its divergence needs beliefs that are learned from the log: add --posterior"
        for method_name in ("PRISM, data-free p0", "PRISM, posterior Q"):
            collection.lacks(method_name, reason)
    if outside is not None:
        value_bounds(case, adaptive_posterior(compared, outside), collection)
    elif compared.scope != Scope(compared.problem.names):
        collection.lacks("PRISM, adaptive", "it needs the policy that will act outside the scope (--acting)")


def on_policy_bound(case: BoundCase, kl_by_mechanism: Mapping[str, float], words: str, collection: BoundCollection) -> None:
    """Add the biased on-policy variant: rewards as they were earned stand for the candidate, weights left out, B = 1."""
    own = PublishedPosterior(
        name="PRISM on-policy",
        values=case.units["legacy"][:, None],
        weights=np.ones(1),
        prior_values=None,
        peak=1.0,
        limit=WeightLimit(1.0, "rewards are scaled to [0, 1] and weights are left out"),
        words=words,
        reading=BoundOrigin(logging="own"),
        kl_by_mechanism=kl_by_mechanism,
    )
    add_bound("PRISM: lam*, B declared", "value", case, own, collection, "PRISM on-policy: lam*")


DATA_FREE = "p0 = the hyper-prior, data-free; Q = the belief after the prior side, whose divergence is subtracted"

DRAWS_UNPAID = "Q stands for itself by draws that know the certified units, and a divergence pays for Q, not for its draws"


@dataclass(frozen=True, slots=True)
class LearnedPosterior:
    """Divergences by mechanism of the scope in nats, and the policy that plans with draws of Q, one drawn per episode."""

    prior_from_hyper: dict[str, float]
    posterior_from_prior: dict[str, float]
    posterior_from_hyper: dict[str, float]
    policy: Policy


def learn_posterior(log: CertifiedLog, split: Split, scope: Scope, settings: ComparisonSettings) -> LearnedPosterior:
    """Fit the mechanisms of a scope to the prior side, then update them with the certified units.

    A split that learns nothing leaves p0 the hyper-prior: everything that Q knows is then paid for.
    """
    fitted = fit_mechanisms(log.source, split, scope, MODELS)
    start, posterior, rewards = replace(fitted.belief, prior=fitted.belief.states), fitted.belief, fitted.rewards
    for batch in log.batches():
        posterior = posterior.update(batch)
        rewards = rewards.update(batch)
    after = replace(start, states=posterior.states)
    kind = CandidateSettings("planned", particles=settings.particles, seed=settings.seed)
    policy = make_candidate(log.problem, replace(fitted, belief=posterior, rewards=rewards), scope, kind)
    return LearnedPosterior(
        prior_from_hyper=_restricted(fitted.belief, scope),
        posterior_from_prior=_restricted(after, scope),
        posterior_from_hyper=_restricted(posterior, scope),
        policy=policy,
    )


def split_posterior(
    log: CertifiedLog, scope: Scope, settings: ComparisonSettings, learned: LearnedPosterior
) -> PublishedPosterior:
    """Return Q = the posterior after the certified units, p0 = the belief after the prior side, values of frozen draws of Q."""
    problem, policy = log.problem, learned.policy
    series = {"particles": particle_series(scope, reward_measure(problem))["particles"]}
    peaks = {"weight": lambda view: largest_weight(view, scope)}
    units = gather_series(problem, views_in_pieces(problem, policy, RewardModels(), log.batches()), series, peaks)
    limit = declared_weight_limit(problem, Candidate(policy), scope, settings.largest_weight)
    return PublishedPosterior(
        name="PRISM, posterior Q",
        values=units["particles"],
        weights=policy.weights,
        prior_values=None,  # draws of Q know the certified units; lam on prior units would not make it a certificate
        peak=units.peaks["weight"],
        limit=limit.against(units.peaks["weight"]),
        words=f"p0 = the belief after the prior side, Q = the posterior after all units, {np.size(policy.weights)} frozen draws",
        reading=BoundOrigin(particles="draws"),
        kl_by_mechanism=learned.posterior_from_prior,
        claim="the value of planning with the posterior Q, which is not the candidate",
        unmet=(DRAWS_UNPAID,),
    )


def _restricted(belief: Belief, scope: Scope) -> dict[str, float]:
    divergences = belief.kl_by_mechanism()
    return {name: divergences[name] for name in belief.problem.mechanisms(scope) if name in divergences}


LEARNED_IN_BETWEEN = "the candidate was learned on units between the certified ones, while the policy that logged them changed"


def adaptive_posterior(compared: ComparedCandidate, incumbent: Candidate) -> PublishedPosterior:
    """Return Q = p0 = the candidate within the incumbent, on units that neither of them was learned from."""
    problem, candidate, scope, measure = compared.problem, compared.candidate, compared.scope, compared.measure
    log = CertifiedLog.of(compared.log.source, [candidate, incumbent], compared.fresh, compared.moving)
    hybrid = Candidate(Hybrid(problem, scope, candidate.policy, incumbent.policy))
    everywhere = Scope(problem.names)
    series = {"value": lambda view: plain_values(view, everywhere, measure)}
    peaks = {"weight": lambda view: largest_weight(view, everywhere)}
    units = gather_series(problem, views_in_pieces(problem, hybrid.policy, RewardModels(), log.batches()), series, peaks)
    # Units split by a hash lie before and after each other: under a policy that changed, what was learned from or fitted on
    # some of them is not independent of the others. Only a split in time keeps the past apart.
    timed = not isinstance(log.split, Split) or log.split.kind == "time"
    prior = None
    if log.prior is not None and timed:
        views = views_in_pieces(problem, hybrid.policy, RewardModels(), [log.prior])
        prior = gather_series(problem, views, series, {})["value"][:, None]
    limit = declared_weight_limit(problem, hybrid, everywhere, compared.settings.largest_weight)
    independent = timed or compared.fresh or not (candidate.record or incumbent.record)
    return PublishedPosterior(
        name="PRISM, adaptive",
        values=units["value"][:, None],
        weights=np.ones(1),
        prior_values=prior,
        peak=units.peaks["weight"],
        limit=limit.against(units.peaks["weight"]),
        words="Q = p0: the candidate in scope, the incumbent elsewhere, weighted at every level",
        reading=BoundOrigin(logging="adaptive"),
        claim="the value of the candidate in scope with the incumbent elsewhere",
        unmet=() if independent else (LEARNED_IN_BETWEEN,),
    )
