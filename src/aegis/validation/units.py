"""From a log and a candidate to units: the evidence of our own bounds, and the plain values that all others are computed from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.certificate import Candidate
from aegis.certificate.claims import Claim
from aegis.certificate.collecting import Evidence, place_grid
from aegis.certificate.comparator import Comparator
from aegis.certificate.declaring import declare
from aegis.certificate.measures import Measure, reward_measure
from aegis.certificate.models import fit_models
from aegis.certificate.plain import plain_gains, plain_values
from aegis.certificate.request import Request
from aegis.certificate.units import Clusters
from aegis.certificate.view import Models, View
from aegis.evidence import Bound
from aegis.problem import AnyArray, Array, Batch, Policy, Problem, Scope
from aegis.validation.paths import unit_evidence
from aegis.validation.traces import Wealth

OURS = {"water-filled": "auto", "doubly robust": "robust", "plain": "plain"}  # by the name shown, the method of `certify`
AT_ONCE = 2**15  # innermost decisions looked at together, so that memory stays small


@dataclass(slots=True)
class Certified:
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
    _models: Models = field(init=False)
    _views: dict[str, list[View]] = field(init=False)

    def __post_init__(self) -> None:
        self.comparator = Comparator.of(self.problem)
        self._models = fit_models(self.problem, self.candidate, [claim for _, claim in self.claims], self.prior)
        self._views = {"prior": self._seen(self.prior), "rest": self._seen(self.rest)}

    @property
    def measure(self) -> Measure:
        """Return the reward as it is scaled."""
        return reward_measure(self.problem)

    def traces(self) -> Iterator[tuple[str, Claim, Wealth]]:
        """Yield our bounds with the claims they bound."""
        prior = View(self.problem, self.prior, self.candidate.policy, self._models, self.comparator)
        units = len(np.unique(self.rest.episode if self.rest.cluster is None else self.rest.cluster))
        for name, claim in self.claims:
            item = Evidence.start(claim, tuple(place_grid(part, claim, prior, units) for part in claim.parts), self.problem)
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
            views = [View(self.problem, view.batch, Particle(view, particle), Models(), self.comparator) for view in views]
        episodes = np.concatenate([compute(view, self.scope, self.measure) for view in views]) + base
        return _united(self.problem, episodes, self._batch(side).cluster, base) - base

    def weights(self) -> Array:
        """Return the largest weight in each certified unit, `[U]`."""
        found: list[Array] = []
        for view in self._views["rest"]:
            largest = np.zeros(len(view.batch))
            owner = np.arange(len(view.batch)) if view.level is None else view.batch.episode_of(view.level)
            np.maximum.at(largest, owner, view.node_weights(self.scope))
            found.append(largest)
        episodes = np.concatenate(found)
        if self.rest.cluster is None:
            return episodes
        ids, place = np.unique(self.rest.cluster, return_inverse=True)  # the order in which `Clusters` gives units
        largest = np.zeros(ids.size)
        np.maximum.at(largest, place, episodes)
        return largest

    def _batch(self, side: str) -> Batch:
        return self.prior if side == "prior" else self.rest

    def _seen(self, batch: Batch) -> list[View]:
        policy = self.candidate.policy
        rows = max(len(table) for table in batch.levels.values())
        pieces = min(len(batch), math.ceil(rows * policy.weights.size / AT_ONCE))
        parts = [batch] if pieces == 1 else [batch.take_episodes(p) for p in np.array_split(np.arange(len(batch)), pieces)]
        return [View(self.problem, part, policy, self._models, self.comparator) for part in parts]


@dataclass(frozen=True, slots=True)
class Particle:
    """One particle of a policy as a policy of its own."""

    policy: Policy
    number: int

    @property
    def weights(self) -> Array:
        """Return `[1]`."""
        return np.ones(1)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        return self.policy.taken(level, batch)[self.number : self.number + 1]

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`."""
        return self.policy.full(level, batch)[self.number : self.number + 1]


def our_claims(
    problem: Problem, candidate: Candidate, scope: Scope, sample: Batch, delta: float, names: Sequence[str], whats: Sequence[str]
) -> list[tuple[str, Claim]]:
    """Return the claims of our bounds of these names, each at risk delta; sample: a few episodes, as in `declare`."""
    return [
        (name, replace(claim, delta=delta))
        for name in names
        for claim in declare(Request.of(problem, candidate, [scope], delta, OURS[name]), sample)
        if claim.what in whats and _is(name, claim)
    ]


def _is(name: str, claim: Claim) -> bool:
    """Say whether a claim is made by the method named: where one does not apply, `certify` takes the next."""
    parts = [part.name for part in claim.parts]
    expected = {"water-filled": "water-filled", "doubly robust": "robust", "plain": "plain"}[name]
    return bool(parts) and parts[-1].startswith(expected)


def _trace(name: str, item: Evidence, views: Sequence[View]) -> Wealth:
    """Return the bound at the end and the units behind it."""
    (low, high), delta = item.claim.bracket, item.claim.delta
    found = [item.compute(view) for view in views]
    for values, view in zip(found, views, strict=True):
        item.add(values, view.batch.cluster)
    item.close()
    blend = item.blend
    value, count = (low, 0) if blend is None else (blend.lower(delta, low, high), blend.count)
    met = ("propensities are those of the log", "bets and models were fixed on prior units")
    return Wealth(Bound(name, value, delta, count, "anytime", met, ()), item, unit_evidence(item, found))


def _united(problem: Problem, episodes: Array, cluster: AnyArray | None, base: float) -> Array:
    """Return the values `[U]` of units from those of episodes, as `certify` puts clusters together."""
    if problem.cluster is None or cluster is None:
        return episodes
    clusters = Clusters(np.full(1, base), problem.cluster_most, problem.cluster_name)
    clusters.add(cluster, episodes[:, None])
    return clusters.units()[:, 0]
