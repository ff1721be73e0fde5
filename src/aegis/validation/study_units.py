"""Units of a replication and the bounds along them: what AEGIS's own bounds and all others state after every unit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from aegis.certificate import Candidate, Claim, ClaimEvidence, Request, declare_claims, fit_models, next_station, place_grid
from aegis.errors import ModelError, SettingError
from aegis.evidence import Bound, BoundMethod, BoundPath, UnitSample
from aegis.ope import (
    CandidateView,
    ClusterUnits,
    Comparator,
    Measure,
    ParticlePolicy,
    RewardModels,
    plain_gains,
    plain_values,
    reward_measure,
    views_in_pieces,
)
from aegis.policies import TargetColumns, problem_of
from aegis.problem import AnyArray, Array, Batch, Problem, Scope


def wealth_path(item: ClaimEvidence, view: CandidateView, mean: float) -> Array:
    """Return the log wealth `[U]` against `mean` after each unit, in the order in which units count.

    view: all certified episodes of the evidence. Dead bets stay dead. The last entry is the log wealth of `item.blend`, up to
    the rounding of its sums.
    """
    return log_wealth_path(item, unit_evidence(item, [] if item.clusters else [item.compute(view)]), mean)


def unit_evidence(item: ClaimEvidence, pieces: Sequence[Sequence[Array]]) -> list[Array]:
    """Return what each part of the evidence makes of the units, `[U]`, `[U, 1]` or `[U, J]`.

    pieces: what `item.compute` gave for one view of episodes after the other; clusters are put together in the item itself.
    """
    if item.clusters:
        return [clusters.units() for clusters in item.clusters]
    return [np.concatenate(parts) for parts in zip(*pieces, strict=True)]


def log_wealth_path(item: ClaimEvidence, evidence: Sequence[Array], mean: float) -> Array:
    """Return the log wealth `[U]` against `mean` after each unit, from what `unit_evidence` found."""
    paths = [
        _part_path(values, part.kind == "values", grid.bets, grid.log_weights, mean + part.offset)
        for values, part, grid in zip(evidence, item.claim.parts, item.grids, strict=True)
    ]
    if not paths:
        return np.zeros(0)
    return np.asarray(logsumexp(np.stack(paths), axis=0) - math.log(len(paths)))


def crossing(path: Array, delta: float) -> int | None:
    """Return after how many units a path of log wealth first reaches 1/delta; None if it never does."""
    above = path >= math.log(1.0 / delta)
    return int(np.argmax(above)) + 1 if above.any() else None


def _part_path(values: Array, lifted: bool, bets: Array, log_weights: Array, mean: float) -> Array:
    """Return the log wealth `[U]` of one part from values `[U]` or `[U, 1]` (lifted), or from factors `[U, J]`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log1p(values.reshape(-1, 1) * bets) if lifted else np.log(values)
    logs = np.where(np.isnan(logs), -np.inf, logs)
    count = np.arange(1, len(logs) + 1)[:, None]
    return np.asarray(logsumexp(np.cumsum(logs, axis=0) - count * np.log1p(bets * mean) + log_weights, axis=1))


Counts = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class LookTrace:
    """A bound that was computed at some numbers of units: counts `[m]`, values `[m]`."""

    last: Bound
    counts: Counts
    values: Array

    def above(self, mean: float) -> int | None:
        """Return the first number of units looked at where the bound was above `mean`."""
        above = self.values > mean
        return int(self.counts[np.argmax(above)]) if above.any() else None


@dataclass(frozen=True, slots=True)
class WealthTrace:
    """A bound by betting: it is above a mean exactly when the wealth against that mean has reached 1/delta, at every unit."""

    last: Bound
    item: ClaimEvidence
    evidence: Sequence[Array]

    def above(self, mean: float) -> int | None:
        """Return the first unit after which the bound was above `mean`."""
        return crossing(log_wealth_path(self.item, self.evidence, mean), self.last.delta)


Trace = LookTrace | WealthTrace


def trace_bound(method: BoundMethod, sample: UnitSample, counts: Counts) -> LookTrace | None:
    """Return a bound of the table at these numbers of units; None if it is not defined at the last of them."""
    if method.sequence:
        bound = _bound_at(method, sample, int(counts[-1]))
        return LookTrace(bound, np.arange(1, bound.path.size + 1), bound.path) if isinstance(bound, BoundPath) else None
    looks = [(int(count), _bound_at(method, sample, int(count))) for count in counts]
    last = looks[-1][1]
    if last is None:
        return None
    known = [(count, bound.value) for count, bound in looks if bound is not None]
    return LookTrace(last, np.array([count for count, _ in known]), np.array([value for _, value in known], dtype=np.float64))


def _bound_at(method: BoundMethod, sample: UnitSample, count: int) -> Bound | None:
    try:
        return method.at(sample, count)
    except (SettingError, ModelError):  # too few units, or units that do not differ
        return None


def look_counts(units: int, only_end: bool = False) -> Counts:
    """Return the numbers of units that are looked at: 10, 13, 17, ... and all."""
    counts: list[int] = []
    count = 0 if not only_end else units
    while (count := next_station(count)) < units:
        counts.append(count)
    return np.array([*counts, units], dtype=np.int64)


OURS = {"water-filled": "auto", "doubly robust": "robust", "plain": "plain"}  # by the name shown, the method of `certify`


@dataclass(slots=True)
class CertifiedUnits:
    """A candidate on the units it is certified on and on those set apart before them; what it is asked is asked once.

    claims: by our bounds' names, each at risk delta; those that do not apply are left out. Candidates are compared with whom the
    problem states.
    """

    problem: Problem
    candidate: Candidate
    scope: Scope
    prior: Batch
    rest: Batch
    claims: Sequence[tuple[str, Claim]]
    comparator: Comparator = field(init=False)
    _models: RewardModels = field(init=False)
    _views: dict[str, list[CandidateView]] = field(init=False)

    def __post_init__(self) -> None:
        self.comparator = Comparator.of(self.problem)
        self._models = fit_models(self.problem, self.candidate, [claim for _, claim in self.claims], self.prior)
        self._views = {"prior": self._seen(self.prior), "rest": self._seen(self.rest)}

    @property
    def measure(self) -> Measure:
        """Return the reward as it is scaled."""
        return reward_measure(self.problem)

    def traces(self) -> Iterator[tuple[str, Claim, WealthTrace]]:
        """Yield our bounds with the claims they bound."""
        prior = CandidateView(self.problem, self.prior, self.candidate.policy, self._models, self.comparator)
        units = len(np.unique(self.rest.episode if self.rest.cluster is None else self.rest.cluster))
        for name, claim in self.claims:
            item = ClaimEvidence.start(claim, tuple(place_grid(part, claim, prior, units) for part in claim.parts), self.problem)
            yield name, claim, _trace(name, item, self._views["rest"])

    @property
    def ratio(self) -> float | None:
        """Return the largest mu / nu of comparator and logger along a path: plain gains are at least minus that."""
        return self.comparator.ratio(self.scope)

    def plain(self, what: str, side: str = "rest", particle: int | None = None) -> Array:
        """Return the plain values `[U]` of the units of a side: w r, or (w - u) r. particle: of this one alone."""
        compute, base = (plain_values, 0.0) if what == "value" else (plain_gains, self.ratio or 1.0)
        views = self._views[side]
        if particle is not None:
            views = [
                CandidateView(self.problem, view.batch, ParticlePolicy(view, particle), RewardModels(), self.comparator)
                for view in views
            ]
        episodes = np.concatenate([compute(view, self.scope, self.measure) for view in views]) + base
        return _unit_values(self.problem, episodes, (self.prior if side == "prior" else self.rest).cluster, base) - base

    def weights(self) -> Array:
        """Return the largest weight in each certified unit, `[U]`."""
        parts: list[Array] = []
        for view in self._views["rest"]:
            largest = np.zeros(len(view.batch))
            owner = np.arange(len(view.batch)) if view.level is None else view.batch.episode_of(view.level)
            np.maximum.at(largest, owner, view.node_weights(self.scope))
            parts.append(largest)
        episodes = np.concatenate(parts)
        if self.rest.cluster is None:
            return episodes
        ids, place = np.unique(self.rest.cluster, return_inverse=True)  # the order in which `ClusterUnits` gives units
        largest = np.zeros(ids.size)
        np.maximum.at(largest, place, episodes)
        return largest

    def _seen(self, batch: Batch) -> list[CandidateView]:
        return list(views_in_pieces(self.problem, self.candidate.policy, self._models, [batch], self.comparator))


def our_claims(
    problem: Problem, candidate: Candidate, scope: Scope, sample: Batch, delta: float, names: Sequence[str], whats: Sequence[str]
) -> list[tuple[str, Claim]]:
    """Return the claims of our bounds of these names, each at risk delta; sample: a few episodes, as in `declare`."""
    return [
        (name, replace(claim, delta=delta))
        for name in names
        for claim in declare_claims(Request.of(problem, candidate, [scope], delta, OURS[name]), sample)
        # Where a method does not apply, `certify` takes the next: then the last part has another name.
        if claim.what in whats and claim.parts and claim.parts[-1].name.startswith(name.removeprefix("doubly "))
    ]


def _trace(name: str, item: ClaimEvidence, views: Sequence[CandidateView]) -> WealthTrace:
    """Return the bound at the end and the units behind it."""
    (low, high), delta = item.claim.bracket, item.claim.delta
    evidence = [item.compute(view) for view in views]
    for values, view in zip(evidence, views, strict=True):
        item.add(values, view.batch.cluster)
    item.close()
    blend = item.blend
    value, count = (low, 0) if blend is None else (blend.lower(delta, low, high), blend.count)
    met = ("propensities are those of the log", "bets and models were fixed on prior units")
    return WealthTrace(
        Bound(method=name, value=value, delta=delta, units=count, validity="anytime", met=met, unmet=()),
        item,
        unit_evidence(item, evidence),
    )


def _unit_values(problem: Problem, episodes: Array, cluster: AnyArray | None, base: float) -> Array:
    """Return the values `[U]` of units from those of episodes, as `certify` puts clusters together."""
    if problem.cluster is None or cluster is None:
        return episodes
    clusters = ClusterUnits(np.full(1, base), problem.cluster_most, problem.cluster_name)
    clusters.add(cluster, episodes[:, None])
    return clusters.units()[:, 0]


def declared_largest(candidate: Candidate, scope: Sequence[str], prior: Batch) -> float:
    """Return B, a limit of the weights, fixed without the certified units.

    By level the candidate's cap, or one over the smallest probability the legacy gave to anything in the prior log if that is
    less; the product over the levels of the scope. It is a limit for certain where caps decide, and where exploration puts a
    floor under the legacy's probabilities that the prior log has met. Where actions are an interval, a smoothed candidate has a
    density of at most one over the bandwidth, the length of the shortest window.
    """
    limits = []
    for name in scope:
        table = prior.levels[name]
        chances = table.mu_taken if table.mu_full is None else table.mu_full
        most = 1.0 if table.value is None else _largest_density(candidate, name)
        limits.append(min(candidate.cap(name), most * (1.0 + 1e-9) / float(chances[chances > 0].min())))
    return math.prod(limits)


def _largest_density(candidate: Candidate, level: str) -> float:
    """Return the largest density of a smoothed candidate at a level; infinite if it is known by columns."""
    if isinstance(candidate.policy, TargetColumns):
        return math.inf
    return 1.0 / float(problem_of(candidate.policy).level(level).actions.bandwidth or 0.0)
