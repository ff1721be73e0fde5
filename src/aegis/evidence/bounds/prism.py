"""PRISM, the lower bound of the paper, exactly as published, with its gain form and the gate of Algorithm 2: for reproduction.

`V_Q >= B + 1/(lam K) sum_k E_Q log(1 - lam (B - L_k)) - (KL(Q || p0) + log(1/delta)) / (lam K)`, for lam < 1/B.

Symbols as in the paper: L_k is the value of unit k, B the largest value possible, lam the temperature, Q the posterior over
particles, C = KL(Q || p0) + log(1/delta).

It holds for all K and all Q at once if B, lam and p0 were fixed without the certified units. Much of what is computed from
the formula in practice does not meet these conditions (theory section 6). Every result says which it meets, and is called a
certificate only if it meets them all. The gain over a legacy and the gate of Algorithm 2 never are. The sharp form of
`aegis.evidence.bounds.pac_bayes` is never below it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from aegis.errors import RefusedError, SettingError
from aegis.evidence.bounds.base import Bound, particle_values, sort_conditions, unit_values
from aegis.evidence.bounds.pac_bayes import check_kl, check_lam, particle_weights
from aegis.evidence.grid import Array
from aegis.evidence.sketch import check_delta

# The inverse temperature lam: a number, or how to choose it.
Temperature = float | Literal["closed form", "root"]

LAM_MARGIN = 0.05  # eta unless another is set: how far below 1/B the closed form is kept


def ls_estimate(values: Array, lam: float, largest: float, weights: Array | None = None) -> float:
    """Return `B + 1/(lam K) sum_k E_Q log(1 - lam (B - L_k))`, the pessimistic estimate of a value.

    values `[K]` or `[K, N]`, units by particles; weights: Q `[N]`, equal if None; largest: B.
    """
    units = particle_values(values)
    q = particle_weights(weights, units.shape[1])
    inside = 1.0 - check_lam(lam, largest) * (largest - units)
    if not (inside > 0).all():
        unit = int(np.argmin(inside.min(axis=1)))
        raise RefusedError(
            f"unit {unit}: the estimate needs 1 - lam (B - value) > 0, found {inside[unit].min()}; values are from 0"
        )
    return largest + float((np.log(inside) @ q).sum()) / (lam * len(units))


def closed_form_lam(
    values: Array, largest: float, cost: float, weights: Array | None = None, *, eta: float = LAM_MARGIN
) -> float:
    """Return `min((1 - eta)/B, sqrt(2 C / (K S^2)))` with `S^2 = 1/K sum_k E_Q (B - L_k)^2`; C is `cost`, eta the margin.

    It minimises the bound to leading order *on the data the bound is evaluated on*, which the theorem does not allow.
    """
    units = particle_values(values)
    if not 0.0 < eta < 1.0:
        raise SettingError(f"eta, how far below 1/B the closed form is kept, lies between 0 and 1, found {eta!r}")
    if not (cost > 0 and largest > 0):
        raise SettingError(f"the closed form needs C > 0 and B > 0, found {cost} and {largest}")
    total = float((np.square(largest - units) @ particle_weights(weights, units.shape[1])).sum())  # K S^2
    limit = (1.0 - eta) / largest
    return limit if total == 0 else min(limit, math.sqrt(2.0 * cost / total))


def root_lam(units: int, largest: float) -> float:
    """Return `1/sqrt(K)`; SettingError unless it lies below 1/B, that is K > B^2."""
    if not units > largest * largest:
        raise SettingError(f"lam = 1/sqrt(K) lies below 1/B only for more than B^2 = {largest * largest:g} units, found {units}")
    return 1.0 / math.sqrt(units)


def largest_observed(weights: Array) -> float:
    """Return B as the published experiments take it, for rewards up to 1: the largest observed importance weight."""
    checked = np.asarray(weights, dtype=np.float64)
    if not (checked.size and np.isfinite(checked).all() and (checked >= 0).all() and checked.max() > 0):
        raise SettingError("the largest observed weight needs finite weights from 0, one of them above 0")
    return float(checked.max())


Logging = Literal["fixed", "adaptive", "own"]

CLAIMS: dict[Logging, str] = {
    "fixed": "the value of the policy drawn from Q once per episode",
    "adaptive": "the average over the logged episodes of that value, other levels acting as they did in each episode",
    "own": "the value of the last policy, from rewards of the policies before it",
}


@dataclass(frozen=True, slots=True)
class BoundOrigin:
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


PRICE = "KL and log(1/delta)"
NO_LEGACY_BOUND = "the legacy's value is replaced by its empirical mean, without an upper bound"


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

    def estimate_alone(self) -> PublishedBound:
        """Return the estimate with nothing subtracted: never a certificate. delta and kl only enter the closed form of lam."""
        unmet = (*self.unmet, f"{PRICE} are not subtracted")
        return replace(self, method="published estimate", value=self.estimate, met=self.met[:-1], unmet=unmet)

    def gain_over(self, legacy_values: Array) -> PublishedBound:
        """Return `LS estimate - mean(legacy) - (KL + log(2/delta)) / (lam K)`, the published gain form.

        legacy_values `[M]`: unit means of the legacy's rewards. Nothing is subtracted for their error: not a certificate.
        """
        legacy = float(unit_values(legacy_values).mean())
        value = self.estimate - legacy - (self.kl + math.log(2.0 / self.delta)) / (self.lam * self.units)
        claim = f"the gain over the comparator in {self.claim}"
        return replace(self, method="published gain", value=value, unmet=(*self.unmet, NO_LEGACY_BOUND), claim=claim)

    def algorithm_2(self, legacy_values: Array) -> PublishedBound:
        """Return `LS estimate - mean(legacy)`, nothing subtracted: Algorithm 2 hands over where it reaches the margin."""
        alone, legacy = self.estimate_alone(), float(unit_values(legacy_values).mean())
        return replace(alone, value=alone.value - legacy, unmet=(*alone.unmet, NO_LEGACY_BOUND))


def published_bound(
    values: Array,
    delta: float,
    lam: Temperature,
    largest: float,
    kl: float = 0.0,
    weights: Array | None = None,
    reading: BoundOrigin | None = None,
    *,
    eta: float = LAM_MARGIN,
) -> PublishedBound:
    """Return the theorem's bound from unit values `[K]` or `[K, N]`, units by particles.

    lam: a number fixed beforehand, 'root' for 1/sqrt(K), or 'closed form'. largest: B. kl: sum of KL(Q_X || p0_X) over the
    mechanisms of the scope, 0 if Q = p0. weights: Q over the particles `[N]`. eta: the margin of the closed form.
    """
    cost = check_kl(kl) + math.log(1.0 / check_delta(delta))
    origin, units = reading or BoundOrigin(), particle_values(values)
    used, lam_from = choose_lam(lam, units, cost, largest, weights, eta)
    estimate = ls_estimate(units, used, largest, weights)
    met, unmet = sort_conditions(_conditions(units, largest, origin, lam_from))
    return PublishedBound(
        method="published",
        value=estimate - cost / (used * len(units)),
        delta=delta,
        units=len(units),
        validity="fixed time" if lam_from == "root" else "anytime",
        met=met,
        unmet=unmet,
        estimate=estimate,
        lam=used,
        largest=largest,
        kl=kl,
        lam_from=lam_from,
        largest_from=origin.largest_from,
        claim=CLAIMS[origin.logging],
    )


def choose_lam(
    lam: Temperature, values: Array, cost: float, largest: float, weights: Array | None, eta: float = LAM_MARGIN
) -> tuple[float, str]:
    """Return lam and how it was chosen; cost: KL and log(1/delta) together. eta: the margin of the closed form."""
    if lam == "root":
        return root_lam(len(values), largest), "root"
    if lam == "closed form":
        used = closed_form_lam(values, largest, cost, weights, eta=eta)
        return used, "closed form" if used < (1.0 - eta) / largest else "closed form, at its limit (1 - eta)/B"
    return check_lam(lam, largest), "given"


def _conditions(values: Array, largest: float, reading: BoundOrigin, chosen: str) -> list[tuple[bool, str, str]]:
    """Return the conditions of the theorem as (met?, words if met, words if not); the price is the last one."""
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
        (True, f"{PRICE} are subtracted", ""),
    ]
