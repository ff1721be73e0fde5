"""PRISM on the units of a log in all its variants: every number says how lam, B, prior and KL came about.

B is declared (from caps and promised propensities) or, as in the published experiments, the largest weight observed. lam is the
closed form lam* on the certified units, 1/sqrt(K), or the closed form on prior units, which the theorem allows. Only the
conditions of the theorem decide what is called a certificate (theory section 2).

The posterior is learned from the log as the paper does: p0 from the prior side, Q after all of it. Three divergences matter, each
restricted to the mechanisms of the scope: of p0 from the hyper-prior, which a bound with a data-free prior pays for; of Q from
p0, which the data-split protocol pays for; of Q from the hyper-prior, without a split.

Logs of several behaviour policies: if versions of the policy outside the scope changed while the log was written, their ratios
do not cancel. The hybrid of candidate and incumbent, the policy that will act outside the scope, is then weighted at every
level (the published corollary on adaptive data, with the full product of ratios).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from aegis.agents import CandidateSettings, fit_mechanisms, make_candidate
from aegis.certificate import Candidate
from aegis.comparison.bounds import BoundCase, BoundCollection, ScaledBound, WeightLimit, declared_weight_limit, with_unmet
from aegis.comparison.comparison import ComparisonSettings
from aegis.comparison.unit_series import CertifiedLog, gather_series, largest_weight, particle_series
from aegis.evidence import (
    BoundOrigin,
    PublishedBound,
    Temperature,
    closed_form_lam,
    largest_observed,
    matching_bet,
    published_bound,
    published_estimate,
    published_gain,
    sharp_bound,
)
from aegis.logs import Source, Split
from aegis.mechanisms import MODELS, Belief
from aegis.ope import Measure, RewardModels, plain_values, views_in_pieces
from aegis.policies import Hybrid
from aegis.problem import Array, Policy, Scope

SHARP_ONE = "sharp PAC-Bayes, lam and B of PRISM"

LARGEST_OBSERVED = "the largest weight observed in the certified units"

SAME_PRIOR = "Q = p0: the candidate, as it was fixed before the certified units"


@dataclass(frozen=True, slots=True)
class PublishedPosterior:
    """What a published bound speaks of: values `[K, N]` by unit and particle, weights Q `[N]`, and where Q and p0 come from.

    prior_values: those of prior units, to choose lam on; None if there are none. peak: the largest weight observed. limit: B as
    it was declared. words: what Q and p0 are. kl_by_mechanism: in nats, of the mechanisms of the scope. reading, unmet: which
    conditions of the theorem these values meet, and which further ones they do not.
    """

    name: str
    values: Array
    weights: Array
    prior_values: Array | None
    peak: float
    limit: WeightLimit
    words: str = SAME_PRIOR
    reading: BoundOrigin = field(default_factory=BoundOrigin)
    kl_by_mechanism: Mapping[str, float] = field(default_factory=dict)
    claim: str = ""
    unmet: tuple[str, ...] = ()

    @property
    def kl(self) -> float:
        """Return the scope-restricted divergence."""
        return float(sum(self.kl_by_mechanism.values()))


def candidate_posterior(case: BoundCase) -> PublishedPosterior:
    """Return Q = p0 = the candidate, whose divergence is 0."""
    units = case.units
    prior = case.prior_series("particles")
    return PublishedPosterior("PRISM", units["particles"], case.weights, prior, units.peaks["weight"], case.limit)


def value_bounds(case: BoundCase, posterior: PublishedPosterior, found: BoundCollection) -> None:
    """Add the four variants of the bound on the value: lam* or prior lam or 1/sqrt(K), B declared or observed."""
    variants: list[tuple[str, Callable[[], ScaledBound]]] = [
        ("lam*, B observed", partial(_observed, case, posterior, published_bound)),
        ("lam*, B declared", partial(_declared, case, posterior, "closed form")),
        ("1/sqrt(K), B declared", partial(_declared, case, posterior, "root")),
        ("prior lam, B declared", partial(_declared, case, posterior, None)),
    ]
    for words, compute in variants:
        method = f"{posterior.name}: {words}"
        if "declared" in words and not posterior.limit.known:
            found.lacks(method, f"B is not declared: {posterior.limit.words}")
        elif "observed" in words and not posterior.peak > 0:
            found.lacks(method, "all weights are 0: there is no largest one to take for B")
        else:
            found.take(method, compute)


def matched_bound(case: BoundCase, posterior: PublishedPosterior, found: BoundCollection) -> None:
    """Add the sharp bound at the bet that goes with PRISM's lam and B: the same conditions, never below PRISM."""
    if not posterior.limit.known:
        found.lacks(SHARP_ONE, f"B is not declared: {posterior.limit.words}")
        return
    lam, how = prior_lam(case, posterior)
    largest = posterior.limit.weight
    bet = matching_bet(lam, largest)
    draws = posterior.reading.particles == "draws"
    bound = sharp_bound(posterior.values, bet, case.delta, posterior.kl, posterior.weights, posterior.reading.prior_fixed, draws)
    bound = replace(bound, unmet=(*bound.unmet, *posterior.unmet, *posterior.limit.broken))
    told = {"bet": bet, "lam": lam, "lam_from": how, "B": largest, "B_from": posterior.limit.words, **_origin(case, posterior)}
    found.bounds.append(ScaledBound(SHARP_ONE, "value", bound, 0.0, told, posterior.claim))


def gain_bounds(case: BoundCase, posterior: PublishedPosterior, found: BoundCollection) -> None:
    """Add the published gain over the comparator, which never is a certificate."""
    if posterior.peak > 0:
        found.take(f"{posterior.name}: gain, lam*, B observed", partial(_observed, case, posterior, published_gain))
    if posterior.limit.known:
        found.take(f"{posterior.name}: gain, prior lam, B declared", partial(_declared, case, posterior, None, published_gain))
    else:
        found.lacks(f"{posterior.name}: gain, prior lam, B declared", f"B is not declared: {posterior.limit.words}")


def estimate_of_algorithm_2(case: BoundCase, posterior: PublishedPosterior, found: BoundCollection) -> None:
    """Add the number that the gate of Algorithm 2 looks at: the estimate with nothing subtracted."""
    if posterior.peak > 0:
        found.take(f"{posterior.name}: estimate of Algorithm 2", partial(_observed, case, posterior, published_estimate))


def on_policy_bound(case: BoundCase, kl_by_mechanism: Mapping[str, float], words: str, found: BoundCollection) -> None:
    """Add the biased on-policy variant: rewards as they were earned stand for the candidate, weights left out, B = 1."""
    values, limit = case.units["legacy"][:, None], WeightLimit(1.0, "rewards are scaled to [0, 1] and weights are left out")
    own = PublishedPosterior(
        "PRISM on-policy", values, np.ones(1), None, 1.0, limit, words, BoundOrigin(logging="own"), kl_by_mechanism
    )  # fmt: skip
    found.take("PRISM on-policy: lam*", partial(_declared, case, own, "closed form"))


def prior_lam(case: BoundCase, posterior: PublishedPosterior) -> tuple[float, str]:
    """Return lam fixed before the certified units: the closed form on prior units, half of its limit if there are none."""
    largest, values = posterior.limit.weight, posterior.prior_values
    if values is None or not len(values):
        return 0.5 / largest, "half of 1/B, without looking at data"
    # K S^2 of the certified units is foreseen as K times the S^2 of the prior ones.
    cost = (posterior.kl + math.log(1.0 / case.delta)) * len(values) / case.units.count
    lam = closed_form_lam(values, largest, cost, posterior.weights)
    return lam, f"closed form on {len(values)} prior units ({case.split})"


def _declared(
    case: BoundCase, posterior: PublishedPosterior, lam: Temperature | None, bound: Any = published_bound
) -> ScaledBound:
    used, how = prior_lam(case, posterior) if lam is None else (lam, None)
    limit = posterior.limit
    found = _published(case, posterior, bound, used, limit.weight, posterior.reading, limit.words, how)
    return replace(found, bound=with_unmet(found.bound, limit.broken))


def _observed(case: BoundCase, posterior: PublishedPosterior, bound: Any) -> ScaledBound:
    told = posterior.reading
    reading = BoundOrigin("observed", told.particles, told.logging, told.prior_fixed)
    largest = largest_observed(np.array([posterior.peak]))
    return _published(case, posterior, bound, "closed form", largest, reading, LARGEST_OBSERVED, None)


def _published(
    case: BoundCase,
    posterior: PublishedPosterior,
    bound: Any,
    lam: Temperature,
    largest: float,
    reading: BoundOrigin,
    largest_from: str,
    lam_from: str | None,
) -> ScaledBound:
    shared = (case.delta, lam, largest, posterior.kl, posterior.weights, reading)
    gain = bound is published_gain
    values = (posterior.values, case.units["compared best"]) if gain else (posterior.values,)
    made: PublishedBound = bound(*values, *shared)
    made = replace(made, unmet=(*made.unmet, *posterior.unmet))
    how = f"{made.lam_from} on the certified units" if made.lam_from.startswith("closed form") else made.lam_from
    told = {
        "estimate_scaled": made.estimate,
        "lam": made.lam,
        "lam_from": lam_from or ("1/sqrt(K)" if how == "root" else how),
        "B": made.largest,
        "B_from": largest_from,
        **_origin(case, posterior),
    }
    return ScaledBound(made.method, "gain" if gain else "value", made, 0.0, told, posterior.claim or made.claim)


def _origin(case: BoundCase, posterior: PublishedPosterior) -> dict[str, Any]:
    return {
        "kl": posterior.kl,
        "kl_by_mechanism": dict(posterior.kl_by_mechanism),
        "prior": posterior.words,
        "split": case.split,
    }


DRAWS_UNPAID = "Q stands for itself by draws that know the certified units, and a divergence pays for Q, not for its draws"


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
    fitted = fit_mechanisms(log.source, split, scope, MODELS)
    start, posterior = replace(fitted.belief, prior=fitted.belief.states), fitted.belief
    for batch in log.batches():
        posterior = posterior.update(batch)
    after = replace(start, states=posterior.states)
    kind = CandidateSettings("planned", particles=settings.particles, seed=settings.seed)
    policy = make_candidate(problem, replace(fitted, belief=posterior), scope, kind)
    return LearnedPosterior(
        _restricted(fitted.belief, scope), _restricted(after, scope), _restricted(posterior, scope), policy
    )  # fmt: skip


def hyper_prior(case: BoundCase, candidate: PublishedPosterior, learned: LearnedPosterior) -> PublishedPosterior:
    """Return the candidate as Q against a data-free prior: it pays for all that the prior side taught.

    The candidate is fixed without the certified units, so that this is a certificate if the other conditions hold; only a
    needlessly low one.
    """
    words = "p0 = the hyper-prior, data-free; Q = the belief after the prior side, whose divergence is subtracted"
    return replace(candidate, name="PRISM, data-free p0", words=words, kl_by_mechanism=learned.prior_from_hyper)


def split_posterior(
    case: BoundCase, log: CertifiedLog, scope: Scope, measure: Measure, learned: LearnedPosterior, settings: ComparisonSettings
) -> PublishedPosterior:
    """Return Q = the posterior after the certified units, p0 = the belief after the prior side, values of frozen draws of Q."""
    problem, policy = log.problem, learned.policy
    series = {"particles": particle_series(scope, measure)["particles"]}
    peaks = {"weight": lambda view: largest_weight(view, scope)}
    units = gather_series(problem, views_in_pieces(problem, policy, RewardModels(), log.batches()), series, peaks)
    limit = declared_weight_limit(problem, Candidate(policy), scope, settings.largest_weight).against(units.peaks["weight"])
    return PublishedPosterior(
        "PRISM, posterior Q",
        units["particles"],
        policy.weights,
        None,  # draws of Q know the certified units; lam on prior units would not make it a certificate
        units.peaks["weight"],
        limit,
        f"p0 = the belief after the prior side, Q = the posterior after all units, {np.size(policy.weights)} frozen draws",
        BoundOrigin(particles="draws"),
        learned.posterior_from_prior,
        "the value of planning with the posterior Q, which is not the candidate",
        (DRAWS_UNPAID,),
    )


def _restricted(belief: Belief, scope: Scope) -> dict[str, float]:
    divergences = belief.kl_by_mechanism()
    return {name: divergences[name] for name in belief.problem.mechanisms(scope) if name in divergences}


LEARNED_IN_BETWEEN = "the candidate was learned on units between the certified ones, while the policy that logged them changed"


def adaptive_posterior(
    source: Source,
    candidate: Candidate,
    incumbent: Candidate,
    scope: Scope,
    measure: Measure,
    settings: ComparisonSettings,
    fresh: bool,
    moving: int | None = None,
) -> PublishedPosterior:
    """Return Q = p0 = the candidate within the incumbent, on units that neither of them was learned from."""
    problem = source.problem
    log = CertifiedLog.of(source, [candidate, incumbent], fresh, moving)
    hybrid = Candidate(Hybrid(problem, scope, candidate.policy, incumbent.policy))
    everywhere = Scope(problem.names)
    series = {"value": lambda view: plain_values(view, everywhere, measure)}
    peaks = {"weight": lambda view: largest_weight(view, everywhere)}
    units = gather_series(problem, views_in_pieces(problem, hybrid.policy, RewardModels(), log.batches()), series, peaks)
    # Units told apart by a hash lie before and after each other: under a policy that changed, what was learned from or fitted on
    # some of them is not independent of the others. Only a split in time keeps the past apart.
    timed = not isinstance(log.split, Split) or log.split.kind == "time"
    prior = None
    if log.prior is not None and timed:
        prior = gather_series(problem, views_in_pieces(problem, hybrid.policy, RewardModels(), [log.prior]), series, {})["value"][
            :, None
        ]
    return PublishedPosterior(
        "PRISM, adaptive",
        units["value"][:, None],
        np.ones(1),
        prior,
        units.peaks["weight"],
        declared_weight_limit(problem, hybrid, everywhere, settings.largest_weight).against(units.peaks["weight"]),
        "Q = p0: the candidate in scope, the incumbent elsewhere, weighted at every level",
        BoundOrigin(logging="adaptive"),
        claim="the value of the candidate in scope with the incumbent elsewhere",
        unmet=() if timed or not (candidate.record or incumbent.record) or fresh else (LEARNED_IN_BETWEEN,),
    )
