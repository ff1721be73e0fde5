"""Bounds of a candidate: those of its certificate, and those of the table BOUNDS, each with how it came about.

The largest weight that a classic bound needs comes from what was declared beforehand, never from the weights that were seen.
Weights that were seen, and the candidate's own caps, can contradict a declaration; a bound that relies on it then is no
certificate. The values of units do not show it: the mean of an episode may stay below the limit while its weights do not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from aegis.certificate import Candidate, LevelResult
from aegis.comparison.comparison import LowerBound, MissingMethod
from aegis.comparison.unit_series import UnitSeries
from aegis.errors import ModelError, SettingError
from aegis.evidence import (
    BETTING,
    BOUNDS,
    REWEIGHED,
    SHARP,
    Bound,
    BoundMethod,
    BoundOrigin,
    BoundPath,
    PacBayesBound,
    PublishedBound,
    PublishedSample,
    Quantity,
    UnitSample,
    matching_bet,
)
from aegis.ope import Measure, reward_level
from aegis.problem import Array, Level, Problem, Scope
from aegis.rng import stream

LIMIT_ROUNDING = 1.0 + 1e-9  # weights are quotients


@dataclass(frozen=True, slots=True)
class WeightLimit:
    """A bound on the weight of every reward, infinite if nothing was promised; words say who promised it.

    broken: what contradicts it, in words; a bound that relies on the limit does not meet its conditions then.
    """

    weight: float
    words: str
    broken: tuple[str, ...] = ()

    @property
    def known(self) -> bool:
        """Say whether there is one."""
        return math.isfinite(self.weight)

    def against(self, observed: float) -> WeightLimit:
        """Return the limit held against the largest weight that was observed."""
        return self._unless(observed, f"a weight of {observed:.4g} was observed")

    def _unless(self, largest: float, words: str) -> WeightLimit:
        if largest <= self.weight * LIMIT_ROUNDING:
            return self
        contradiction = f"{words}, above the largest that was declared, {self.weight:.4g}"
        return replace(self, broken=(*self.broken, contradiction))


def declared_weight_limit(problem: Problem, candidate: Candidate, scope: Scope, declared: float | None = None) -> WeightLimit:
    """Return the product over the levels in scope of the smaller of the candidate's cap and one over the least propensity.

    declared: by the user, which goes before all else, and which the candidate's caps may contradict. Where several decisions of
    one level lead to one reward the product has no end, and nothing is known.
    """
    limits = [_level_limit(candidate, problem.level(name)) for name in problem.names if name in scope]
    product = math.prod(limit.weight for limit in limits)
    if declared is not None:
        limit = WeightLimit(declared, "declared by the user")
        capped = all(math.isfinite(candidate.cap(name)) for name in scope)
        return limit._unless(product, f"the candidate's own caps let its weights reach {product:.4g}") if capped else limit
    per = reward_level(problem)
    if problem.carry_over != "none" or per is None or any(problem.index(per) > problem.index(name) for name in scope):
        words = "several decisions of one level lead to a reward, and the product of their ratios has no known end"
        return WeightLimit(math.inf, words)
    unknown = [limit.words for limit in limits if not limit.known]
    return WeightLimit(product, "; ".join(unknown or [limit.words for limit in limits]))


def _level_limit(candidate: Candidate, level: Level) -> WeightLimit:
    cap, (least, source) = candidate.cap(level.name), _least(level)
    if cap <= least and math.isfinite(cap):
        return WeightLimit(cap, f"'{level.name}': the candidate is capped at {cap:g} times the logged probability")
    if math.isfinite(least):
        return WeightLimit(least, f"'{level.name}': {source}")
    return WeightLimit(math.inf, f"'{level.name}': the candidate has no cap, and the problem file promises no least propensity")


def _least(level: Level) -> tuple[float, str]:
    """Return one over the least probability that the problem file promises every action, and in which words."""
    propensity, count = level.propensity, level.actions.count
    if propensity is None:
        return math.inf, ""
    if propensity.least is not None:
        return 1.0 / propensity.least, f"every action is promised a probability of {propensity.least:g}"
    if propensity.policy == "uniform":
        return float(count), f"the legacy is uniform over at most {count} actions"
    if propensity.shares:
        return 1.0 / min(propensity.shares), f"the legacy takes the rarest action with the fixed share {min(propensity.shares):g}"
    if propensity.epsilon is not None:
        return count / propensity.epsilon, f"the legacy explores {count} actions at rate {propensity.epsilon:g}"
    return math.inf, ""


def unmet_by_estimates(problem: Problem, scope: Scope) -> tuple[str, ...]:
    """Return which condition of every method that takes propensities as exact is not met at a scope; empty if it is."""
    levels = [level for level in problem.levels if level.name in scope and level.propensity is not None]
    estimated = [f"'{level.name}'" for level in levels if level.propensity is not None and level.propensity.estimated]
    return (f"the propensities at {', '.join(estimated)} are estimated, and taken as exact here",) if estimated else ()


CLAIM_WORDS = {"value": "the value of the candidate", "gain": "the gain of the candidate over its comparator"}


def lower_bound(
    bound: Bound, method: str, what: Quantity, measure: Measure, claim: str = "", provenance: Mapping[str, Any] | None = None
) -> LowerBound:
    """Return a bound of scaled rewards in the user's units; whether it is a certificate is what the bound itself says."""
    return LowerBound(
        method=method,
        what=what,
        value=measure.gain(bound.value) if what == "gain" else measure.value(bound.value),
        delta=bound.delta,
        units=bound.units,
        validity=bound.validity,
        certificate=bound.certificate,
        label=bound.label,
        claim=claim or CLAIM_WORDS[what],
        met=bound.met,
        unmet=bound.unmet,
        provenance=provenance or {},
    )


@dataclass(slots=True)
class BoundCollection:
    """Bounds found so far, and what could not be computed."""

    bounds: list[LowerBound] = field(default_factory=list)
    missing: list[MissingMethod] = field(default_factory=list)

    def lacks(self, method: str, reason: str) -> None:
        """Note that a method has no number, once."""
        if all(item.method != method for item in self.missing):
            self.missing.append(MissingMethod(method, reason))


CERTIFICATE_METHOD = "AEGIS certificate"

CERTIFIED_QUANTITIES: tuple[Quantity, ...] = ("value", "gain")

CERTIFICATE_CONDITIONS = (
    "candidate, bets and models were fixed without the certified units",
    "the assumptions that the certificate lists",
)


def certified_bounds(result: LevelResult, measure: Measure, collection: BoundCollection) -> None:
    """Add value and gain of a certificate at one scope; what is refused has no number, which is noted."""
    for what in CERTIFIED_QUANTITIES:
        test = next((item for item in result.tests if item.what == what), None)
        if test is None or test.lower_scaled is None:
            collection.lacks(CERTIFICATE_METHOD, f"no {what}: {result.reason}")
            continue
        bound = Bound(
            method=CERTIFICATE_METHOD,
            value=test.lower_scaled,
            delta=test.delta,
            units=test.units,
            validity="anytime",
            met=CERTIFICATE_CONDITIONS,
            unmet=(),
        )
        origin = {"evidence": list(test.method), "centres": list(test.centres), "verdict": result.verdict}
        collection.bounds.append(lower_bound(bound, CERTIFICATE_METHOD, what, measure, provenance=origin))


PATH_STATIONS = 40  # points of a path that are kept

NO_RATIO = (
    "it needs the largest ratio of incumbent to logger: declare 'max_ratio' or 'epsilon', and log the probabilities of all "
    "actions, which alone can show that it holds"
)

SMOOTHING = "logarithmic smoothing"

LARGEST_OBSERVED = "the largest weight observed in the certified units"

SAME_PRIOR = "Q = p0: the candidate, as it was fixed before the certified units"


@dataclass(frozen=True, slots=True)
class PublishedPosterior:
    """What a published bound speaks of: values `[K, N]` by unit and particle, weights Q `[N]`, and where Q and p0 come from.

    prior_values: those of prior units, to choose lam on; None without any. peak: the largest weight observed. limit: B as it
    was declared. words: what Q and p0 are. kl_by_mechanism: in nats, of the mechanisms of the scope. reading, unmet: which
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


@dataclass(frozen=True, slots=True)
class BoundCase:
    """What every bound is made from: certified and prior units, the particle weights `[N]` of the candidate, B, and the risk.

    split: in words, which units are prior ones. seed: of resamples. ratio: the largest mu / nu of the comparator, 1 if it is the
    logger, None if it is not known. unmet: conditions that no bound of these units meets.
    """

    units: UnitSeries
    prior: UnitSeries | None
    weights: Array
    limit: WeightLimit
    delta: float
    split: str
    seed: int
    measure: Measure
    ratio: float | None = 1.0
    unmet: tuple[str, ...] = ()

    def prior_series(self, name: str) -> Array | None:
        """Return a series of the prior units, if there are any."""
        return None if self.prior is None or not self.prior.count else self.prior[name]

    @property
    def posterior(self) -> PublishedPosterior:
        """Return Q = p0 = the candidate, whose divergence is 0."""
        return PublishedPosterior(
            name="PRISM",
            values=self.units["particles"],
            weights=self.weights,
            prior_values=self.prior_series("particles"),
            peak=self.units.peaks["weight"],
            limit=self.limit,
        )

    def sample(self, what: Quantity, posterior: PublishedPosterior, method: str) -> UnitSample:
        """Return the units of the value or the gain as the bounds take them; method: names the stream of resamples."""
        gain = what == "gain"
        series, shift = ("lifted gain", 1.0) if gain else ("value", 0.0)
        most = max(self.limit.weight, self.ratio or 1.0) if gain else self.limit.weight
        return UnitSample(
            what=what,
            values=self.units[series],
            particles=self.units["particle gains" if gain else "particles"],
            shares=self.weights,
            delta=self.delta,
            rng=stream(self.seed, "compare", method, what),
            published=PublishedSample(
                earned=posterior.values,
                legacy=self.units["compared best"],
                peaks=np.full(self.units.count, posterior.peak),
                largest=posterior.limit.weight,
                weights=posterior.weights,
                prior=posterior.prior_values,
                kl=posterior.kl,
                origin=posterior.reading,
            ),
            shift=shift,
            prior=self.prior_series(series),
            range=(0.0 - shift, max(most - shift, 0.0)) if self.limit.known else None,
            paired=self.units["gain"] if gain else None,
        )

    def lacking(self, method: BoundMethod, what: Quantity, posterior: PublishedPosterior) -> str | None:
        """Return what a method needs and does not have here; None if it has everything."""
        if method.needs == "range" and what == "gain" and self.ratio is None:
            return NO_RATIO
        if method.needs == "range" and not self.limit.known:
            return f"it needs a declared largest weight: {self.limit.words}"
        if method.needs == "largest" and not posterior.limit.known:
            return f"B is not declared: {posterior.limit.words}"
        return None


VALUE_VARIANTS = (
    "PRISM: lam*, B observed",
    "PRISM: lam*, B declared",
    "PRISM: 1/sqrt(K), B declared",
    "PRISM: prior lam, B declared",
)


def evidence_bounds(case: BoundCase, collection: BoundCollection) -> None:
    """Add the bounds of the table that are not built on PRISM, of value and gain.

    Those with bets of the prior units come first, then those with a declared range.
    """
    names = [name for name, method in BOUNDS.items() if "compare" in method.commands and not method.published]
    names.sort(key=lambda name: (name not in (BETTING, SHARP, REWEIGHED), BOUNDS[name].needs != "range"))
    for what in CERTIFIED_QUANTITIES:
        for name in names:
            if what in BOUNDS[name].claims:
                add_bound(name, what, case, case.posterior, collection)


def value_bounds(case: BoundCase, posterior: PublishedPosterior, collection: BoundCollection) -> None:
    """Add the variants of PRISM on the value of a posterior: lam* or prior lam or 1/sqrt(K), B declared or observed."""
    for name in VALUE_VARIANTS:
        add_bound(name, "value", case, posterior, collection, name.replace("PRISM", posterior.name, 1))


def add_bound(
    name: str,
    what: Quantity,
    case: BoundCase,
    posterior: PublishedPosterior,
    collection: BoundCollection,
    shown: str | None = None,
) -> None:
    """Add a bound of the table under its own name or as `shown`, or the reason why it has no number.

    What data refute (RefusedError) ends the comparison.
    """
    method, title = BOUNDS[name], shown or name
    reason = case.lacking(method, what, posterior)
    if reason is not None:
        collection.lacks(title, reason)
        return
    sample = case.sample(what, posterior, name)
    try:
        bound = method.at(sample, case.units.count)
    except (SettingError, ModelError) as error:
        collection.lacks(title, str(error))
        return
    unmet = posterior.unmet if method.published else ()
    if method.needs in ("range", "largest"):
        unmet += (posterior if method.published else case).limit.broken
    claim = posterior.claim if method.published else ""
    if isinstance(bound, PublishedBound):
        claim = claim or bound.claim
    elif name == REWEIGHED:
        claim = f"the {what} of the candidate with its particles weighed as Q, not as it is"
    origin = provenance(name, bound, case, sample, posterior)
    bound = replace(bound, unmet=(*bound.unmet, *unmet, *case.unmet))
    collection.bounds.append(lower_bound(bound, title, what, case.measure, claim, origin))


def provenance(name: str, bound: Bound, case: BoundCase, sample: UnitSample, posterior: PublishedPosterior) -> dict[str, Any]:
    """Return how the range, the bets, or lam, B, Q and p0 of a bound came about."""
    if BOUNDS[name].published:
        return _published_provenance(bound, case, sample, posterior)
    if BOUNDS[name].needs == "range":
        return {"range": list(sample.declared_range), "range_from": case.limit.words}
    bets = "a wide grid around 1"
    if sample.prior is not None:
        bets = f"a grid around 2^{sample.centre}, placed on {sample.prior.size} prior units ({case.split})"
    if isinstance(bound, BoundPath):
        stations = np.unique(np.geomspace(1, bound.path.size, PATH_STATIONS).astype(np.int64))
        return {"bets": bets, "path_scaled": [[int(unit), float(bound.path[unit - 1])] for unit in stations]}
    if name == REWEIGHED and isinstance(bound, PacBayesBound):
        origin = "p0 = the candidate; Q chosen on the certified units"
        return {"bets": bets, "kl": bound.kl, "prior": origin, "weights": bound.weights.tolist()}
    if isinstance(bound, PacBayesBound):
        return {"bets": bets, "kl": bound.kl, "prior": f"p0 = Q = the candidate, {case.weights.size} particles"}
    if name == SMOOTHING:
        return {"lam": float(bound.units) ** -0.5, "lam_from": "1/sqrt(K)"}
    return {}


def _published_provenance(bound: Bound, case: BoundCase, sample: UnitSample, posterior: PublishedPosterior) -> dict[str, Any]:
    prior, first = posterior.prior_values, {}
    lam_from, largest_from = "half of 1/B, without looking at data", posterior.limit.words
    if prior is not None and len(prior):
        lam_from = f"closed form on {len(prior)} prior units ({case.split})"
    if isinstance(bound, PublishedBound):
        lam, largest, first = bound.lam, bound.largest, {"estimate_scaled": bound.estimate}
        if bound.lam_from.startswith("closed form"):
            lam_from = f"{bound.lam_from} on the certified units"
        elif bound.lam_from == "root":
            lam_from = "1/sqrt(K)"
        if bound.largest_from == "observed":
            largest_from = LARGEST_OBSERVED
    else:  # the sharp bound at the same lam and B
        lam, largest = sample.published.prior_lam(case.delta), posterior.limit.weight
        first = {"bet": matching_bet(lam, largest)}
    origin = {
        "kl": posterior.kl,
        "kl_by_mechanism": dict(posterior.kl_by_mechanism),
        "prior": posterior.words,
        "split": case.split,
    }
    return {**first, "lam": lam, "lam_from": lam_from, "B": largest, "B_from": largest_from, **origin}
