"""PRISM on the units of a log in all its variants: every number says how lam, B, prior and KL came about.

B is declared (from caps and promised propensities) or, as in the published experiments, the largest weight observed. lam is the
closed form lam* on the certified units, 1/sqrt(K), or the closed form on prior units, which the theorem allows. Only the
conditions of the theorem decide what is called a certificate (theory section 2).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from aegis.comparison.evidence_bounds import Case
from aegis.comparison.found import Findings, Found, lacking
from aegis.comparison.limits import Limit
from aegis.evidence import (
    PublishedBound,
    Reading,
    closed_form_lam,
    largest_observed,
    matching_bet,
    published_bound,
    published_estimate,
    published_gain,
    sharp_bound,
)
from aegis.evidence.smoothed import Temperature
from aegis.problem import Array

SHARP_ONE = "sharp PAC-Bayes, lam and B of PRISM"
OBSERVED = "the largest weight observed in the certified units"
SAME_PRIOR = "Q = p0: the candidate, as it was fixed before the certified units"


@dataclass(frozen=True, slots=True)
class Posterior:
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
    limit: Limit
    words: str = SAME_PRIOR
    reading: Reading = field(default_factory=Reading)
    kl_by_mechanism: Mapping[str, float] = field(default_factory=dict)
    claim: str = ""
    unmet: tuple[str, ...] = ()

    @property
    def kl(self) -> float:
        """Return the scope-restricted divergence."""
        return float(sum(self.kl_by_mechanism.values()))


def candidate_posterior(case: Case) -> Posterior:
    """Return Q = p0 = the candidate, whose divergence is 0."""
    units = case.units
    prior = case.prior_series("particles")
    return Posterior("PRISM", units["particles"], case.weights, prior, units.peaks["weight"], case.limit)


def value_bounds(case: Case, posterior: Posterior, found: Findings) -> None:
    """Add the four variants of the bound on the value: lam* or prior lam or 1/sqrt(K), B declared or observed."""
    variants: list[tuple[str, Callable[[], Found]]] = [
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


def matched_bound(case: Case, posterior: Posterior, found: Findings) -> None:
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
    found.bounds.append(Found(SHARP_ONE, "value", bound, 0.0, told, posterior.claim))


def gain_bounds(case: Case, posterior: Posterior, found: Findings) -> None:
    """Add the published gain over the comparator, which never is a certificate."""
    if posterior.peak > 0:
        found.take(f"{posterior.name}: gain, lam*, B observed", partial(_observed, case, posterior, published_gain))
    if posterior.limit.known:
        found.take(f"{posterior.name}: gain, prior lam, B declared", partial(_declared, case, posterior, None, published_gain))
    else:
        found.lacks(f"{posterior.name}: gain, prior lam, B declared", f"B is not declared: {posterior.limit.words}")


def estimate_of_algorithm_2(case: Case, posterior: Posterior, found: Findings) -> None:
    """Add the number that the gate of Algorithm 2 looks at: the estimate with nothing subtracted."""
    if posterior.peak > 0:
        found.take(f"{posterior.name}: estimate of Algorithm 2", partial(_observed, case, posterior, published_estimate))


def on_policy_bound(case: Case, kl_by_mechanism: Mapping[str, float], words: str, found: Findings) -> None:
    """Add the biased on-policy variant: rewards as they were earned stand for the candidate, weights left out, B = 1."""
    values, limit = case.units["legacy"][:, None], Limit(1.0, "rewards are scaled to [0, 1] and weights are left out")
    own = Posterior(
        "PRISM on-policy", values, np.ones(1), None, 1.0, limit, words, Reading(logging="own"), kl_by_mechanism
    )  # fmt: skip
    found.take("PRISM on-policy: lam*", partial(_declared, case, own, "closed form"))


def prior_lam(case: Case, posterior: Posterior) -> tuple[float, str]:
    """Return lam fixed before the certified units: the closed form on prior units, half of its limit if there are none."""
    largest, values = posterior.limit.weight, posterior.prior_values
    if values is None or not len(values):
        return 0.5 / largest, "half of 1/B, without looking at data"
    # K S^2 of the certified units is foreseen as K times the S^2 of the prior ones.
    cost = (posterior.kl + math.log(1.0 / case.delta)) * len(values) / case.units.count
    lam = closed_form_lam(values, largest, cost, posterior.weights)
    return lam, f"closed form on {len(values)} prior units ({case.split})"


def _declared(case: Case, posterior: Posterior, lam: Temperature | None, bound: Any = published_bound) -> Found:
    used, how = prior_lam(case, posterior) if lam is None else (lam, None)
    limit = posterior.limit
    found = _computed(case, posterior, bound, used, limit.weight, posterior.reading, limit.words, how)
    return replace(found, bound=lacking(found.bound, limit.broken))


def _observed(case: Case, posterior: Posterior, bound: Any) -> Found:
    told = posterior.reading
    reading = Reading("observed", told.particles, told.logging, told.prior_fixed)
    largest = largest_observed(np.array([posterior.peak]))
    return _computed(case, posterior, bound, "closed form", largest, reading, OBSERVED, None)


def _computed(
    case: Case,
    posterior: Posterior,
    bound: Any,
    lam: Temperature,
    largest: float,
    reading: Reading,
    largest_from: str,
    lam_from: str | None,
) -> Found:
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
    return Found(made.method, "gain" if gain else "value", made, 0.0, told, posterior.claim or made.claim)


def _origin(case: Case, posterior: Posterior) -> dict[str, Any]:
    return {
        "kl": posterior.kl,
        "kl_by_mechanism": dict(posterior.kl_by_mechanism),
        "prior": posterior.words,
        "split": case.split,
    }
