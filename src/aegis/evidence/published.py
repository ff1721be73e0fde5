"""PRISM, the lower bound of the paper, exactly as published: kept for reproduction and comparison.

`V_Q >= B + 1/(lam K) sum_k E_Q log(1 - lam (B - L_k)) - (KL(Q || p0) + log(1/delta)) / (lam K)`, for lam < 1/B.

It holds for all K and all Q at once if B, lam and p0 were fixed without the certified units. Much of what is computed from the
formula in practice does not meet these conditions (theory section 2). Every result says which it meets, and is called a
certificate only if it meets them all. The sharp form of `aegis.evidence.pacbayes` is never below it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from aegis.errors import choose
from aegis.evidence.bound import Bound, Validity, particle_values, sort_conditions
from aegis.evidence.grid import Array
from aegis.evidence.posterior import check_kl
from aegis.evidence.sketch import check_delta
from aegis.evidence.smoothed import MARGIN, Temperature, check_lam, closed_form_lam, ls_estimate, root_lam

Logging = Literal["fixed", "adaptive", "own"]
CLAIMS: dict[Logging, str] = {
    "fixed": "the value of the policy drawn from Q once per episode",
    "adaptive": "the average over the logged episodes of that value, other levels acting as they did in each episode",
    "own": "the value of the last policy, from rewards of the policies before it",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """How the numbers of a published bound came about: what decides whether it is a certificate.

    largest_from: B was 'declared' beforehand or is the largest 'observed' weight. particles: they are the 'policy' itself, one
    drawn per episode, or 'draws' that stand for a continuous Q. logging: the units come from one 'fixed' behaviour policy, from
    an 'adaptive' sequence of them (the values then hold the full product of ratios; Corollary on adaptive data), or from the
    learner's 'own' earlier policies with weights left out (the biased on-policy variant). prior_fixed: p0 did not see the
    certified units.
    """

    largest_from: Literal["declared", "observed"] = "declared"
    particles: Literal["policy", "draws"] = "policy"
    logging: Logging = "fixed"
    prior_fixed: bool = True

    def __post_init__(self) -> None:
        choose(self.largest_from, ("declared", "observed"), "origin of B")
        choose(self.particles, ("policy", "draws"), "kind of particles")
        choose(self.logging, CLAIMS, "kind of logging")


@dataclass(frozen=True, slots=True)
class PublishedBound(Bound):
    """A published lower bound. estimate: before anything is subtracted; largest: B; claim: what it speaks of, if it holds.

    lam_from: 'given', 'root' (1/sqrt(K)) or 'closed form', which says whether the limit (1 - eta)/B was reached.
    """

    estimate: float
    lam: float
    largest: float
    kl: float
    lam_from: str
    largest_from: str
    claim: str


def published_bound(
    values: Array,
    delta: float,
    lam: Temperature,
    largest: float,
    kl: float = 0.0,
    weights: Array | None = None,
    reading: Reading | None = None,
    margin: float = MARGIN,
) -> PublishedBound:
    """Return the theorem's bound from unit values `[K]` or `[K, N]`, units by particles.

    lam: a number fixed beforehand, 'root' for 1/sqrt(K), or 'closed form'. largest: B. kl: sum of KL(Q_X || p0_X) over the
    mechanisms of the scope, 0 if Q = p0. weights: Q over the particles `[N]`. margin: eta of the closed form.
    """
    cost = check_kl(kl) + math.log(1.0 / check_delta(delta))
    return _assemble("published", values, delta, lam, largest, kl, weights, reading or Reading(), margin, cost)


def published_estimate(
    values: Array,
    delta: float,
    lam: Temperature,
    largest: float,
    kl: float = 0.0,
    weights: Array | None = None,
    reading: Reading | None = None,
    margin: float = MARGIN,
) -> PublishedBound:
    """Return the estimate alone, with nothing subtracted, as Algorithm 2 uses it: never a certificate.

    delta and kl only enter the closed form of lam.
    """
    check_delta(delta)
    check_kl(kl)
    return _assemble("published estimate", values, delta, lam, largest, kl, weights, reading or Reading(), margin, 0.0)


def choose_lam(
    lam: Temperature, values: Array, delta: float, largest: float, kl: float, weights: Array | None, margin: float
) -> tuple[float, str]:
    """Return lam and how it was chosen."""
    if lam == "root":
        return root_lam(len(values), largest), "root"
    if lam == "closed form":
        found = closed_form_lam(values, largest, kl + math.log(1.0 / delta), weights, margin)
        return found, "closed form" if found < (1.0 - margin) / largest else "closed form, at its limit (1 - eta)/B"
    return check_lam(lam, largest), "given"


def _assemble(
    method: str,
    values: Array,
    delta: float,
    lam: Temperature,
    largest: float,
    kl: float,
    weights: Array | None,
    reading: Reading,
    margin: float,
    cost: float,
) -> PublishedBound:
    found = particle_values(values)
    used, chosen = choose_lam(lam, found, delta, largest, kl, weights, margin)
    estimate = ls_estimate(found, used, largest, weights)
    met, unmet = sort_conditions(_conditions(found, largest, reading, chosen, subtracted=cost > 0))
    validity: Validity = "fixed time" if chosen == "root" else "anytime"
    value = estimate - cost / (used * len(found))
    claim = CLAIMS[reading.logging]
    return PublishedBound(
        method, value, delta, len(found), validity, met, unmet,
        estimate, used, largest, kl, chosen, reading.largest_from, claim,
    )  # fmt: skip


def _conditions(values: Array, largest: float, reading: Reading, chosen: str, subtracted: bool) -> list[tuple[bool, str, str]]:
    low, high = float(values.min()), float(values.max())
    return [
        (low >= 0 and high <= largest, "values lie in [0, B]", f"values lie in [{low:.4g}, {high:.4g}], B is {largest:.4g}"),
        (reading.largest_from == "declared", "B was fixed beforehand", "B is the largest weight observed in the certified units"),
        (
            not chosen.startswith("closed form"),
            "lam depends on nothing but the number of units" if chosen == "root" else "lam was fixed beforehand",
            "lam was chosen on the certified units",
        ),
        (reading.prior_fixed, "the prior p0 did not see the certified units", "the prior p0 saw the certified units"),
        (
            reading.particles == "policy" or values.shape[1] == 1,
            "the expectation over Q is exact",
            "the expectation over Q is a Monte-Carlo average of frozen draws, whose error does not shrink with more units",
        ),
        (
            reading.logging != "own",
            "units are weighted by the policy that logged them",
            "rewards of earlier policies stand for the last one: the on-policy variant is biased",
        ),
        (subtracted, "KL and log(1/delta) are subtracted", "KL and log(1/delta) are not subtracted"),
    ]  # fmt: skip
