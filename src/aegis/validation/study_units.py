"""Units of a replication: the evidence of AEGIS's own bounds, and the plain values that all other bounds use."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.certificate import Candidate, Claim, ClaimEvidence, Request, declare_claims, fit_models, place_grid
from aegis.evidence import Bound
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
)
from aegis.policies import TargetColumns, problem_of
from aegis.problem import AnyArray, Array, Batch, Problem, Scope
from aegis.validation.bound_traces import WealthTrace, unit_evidence

OURS = {"water-filled": "auto", "doubly robust": "robust", "plain": "plain"}  # by the name shown, the method of `certify`
AT_ONCE = 2**15  # innermost decisions looked at together, so that memory stays small


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
        return _unit_values(self.problem, episodes, self._batch(side).cluster, base) - base

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
        ids, place = np.unique(self.rest.cluster, return_inverse=True)  # the order in which `Clusters` gives units
        largest = np.zeros(ids.size)
        np.maximum.at(largest, place, episodes)
        return largest

    def _batch(self, side: str) -> Batch:
        return self.prior if side == "prior" else self.rest

    def _seen(self, batch: Batch) -> list[CandidateView]:
        policy = self.candidate.policy
        rows = max(len(table) for table in batch.levels.values())
        pieces = min(len(batch), math.ceil(rows * policy.weights.size / AT_ONCE))
        parts = [batch] if pieces == 1 else [batch.take_episodes(p) for p in np.array_split(np.arange(len(batch)), pieces)]
        return [CandidateView(self.problem, part, policy, self._models, self.comparator) for part in parts]


def our_claims(
    problem: Problem, candidate: Candidate, scope: Scope, sample: Batch, delta: float, names: Sequence[str], whats: Sequence[str]
) -> list[tuple[str, Claim]]:
    """Return the claims of our bounds of these names, each at risk delta; sample: a few episodes, as in `declare`."""
    return [
        (name, replace(claim, delta=delta))
        for name in names
        for claim in declare_claims(Request.of(problem, candidate, [scope], delta, OURS[name]), sample)
        if claim.what in whats and _is_method(name, claim)
    ]


def _is_method(name: str, claim: Claim) -> bool:
    """Say whether a claim is made by the method named: where one does not apply, `certify` takes the next."""
    parts = [part.name for part in claim.parts]
    expected = {"water-filled": "water-filled", "doubly robust": "robust", "plain": "plain"}[name]
    return bool(parts) and parts[-1].startswith(expected)


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
