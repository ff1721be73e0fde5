"""What a pilot log tells about one level: contexts, what actions earn, how much rewards vary, and what to take off for optimism.

The log is cut in two halves of units. A candidate that was learned on one half is played in the contexts of the other half, in a
world whose rewards follow a model of that other half: who chose the actions does not judge them. Where a doubly robust estimate
of the gain, less half of its standard error, is smaller still, the world's differences between actions are shrunk until they
make that gain: of the two mistakes, too few episodes is the worse one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aegis.certificate import Candidate
from aegis.certificate.candidate import cap_of
from aegis.certificate.claims import Claim
from aegis.certificate.comparator import Comparator, capped_variation
from aegis.certificate.measures import Measure
from aegis.certificate.models import fit_models
from aegis.certificate.parts import Reach, gain_parts
from aegis.certificate.units import Clusters, nested_means
from aegis.certificate.view import Models, View
from aegis.policies import Capped, Logged, cap, path_full
from aegis.problem import AnyArray, Array, Batch, Problem, Scope
from aegis.rng import stream
from aegis.validation.planner.legacy import Behaviour
from aegis.validation.planner.play import Play, Pool

REFERENCE_CAP = 2.0  # of the candidate by which optimism is judged: its weights stay small
MOST_DECISIONS = 4000  # of a level, in each half, that are simulated
CAUTION = 0.5  # standard errors that are taken off the estimated gain
MOST_CELLS = 2**21  # of them times actions


@dataclass(frozen=True, slots=True)
class Half:
    """The decisions `[n]` of a level in one half of the pilot, seen by a candidate that was learned on the other.

    scores `[n, A]`: what the candidate ranks actions by, scaled. fixed `[n, A]`: its distribution if it does not depend on the
    legacy, else None. control, mean `[n, A]`: predictions of the other half and of this one. residual, action, reward `[n]`.
    incumbent `[n, A]`: as the problem states it; None if it states none. rate: of exploration around it, None if not known.
    """

    behaviour: Behaviour
    scores: Array
    fixed: Array | None
    control: Array
    mean: Array
    residual: Array
    action: AnyArray
    reward: Array
    pool: Pool
    incumbent: Array | None = None
    rate: float | None = None

    def comparator(self, explore: float | None) -> Array:
        """Return who the candidate is compared with `[n, A]`: the stated incumbent, else the legacy with this exploration."""
        return self.behaviour.exploring(explore) if self.incumbent is None else self.incumbent

    def largest(self, explore: float | None, limit: float) -> float:
        """Return T_max of a candidate capped at a limit over the logger."""
        if self.incumbent is None:
            return 1.0 - 1.0 / limit
        rate = self.rate if explore is None else explore
        return 1.0 if rate is None or self.fixed is not None else capped_variation(limit, rate)

    def candidate(self, logging: Array, limit: float) -> Array:
        """Return the candidate's distribution `[n, A]` beside a logging policy."""
        return cap(self.scores, logging, limit) if self.fixed is None else self.fixed

    def estimates(self) -> tuple[Array, Array]:
        """Return the gain of each unit `[U]` by this half's model and doubly robust, at the reference cap and as logged."""
        logged, rows = self.behaviour.logged, np.arange(len(self.action))
        moved = self.candidate(logged, REFERENCE_CAP) - self.comparator(None)
        surplus = moved[rows, self.action] / logged[rows, self.action]
        robust = (moved * self.control).sum(axis=1) + surplus * (self.reward - self.control[rows, self.action])
        plug_in = (moved * self.mean).sum(axis=1)
        return self.pool(1.0 + plug_in[:, None])[:, 0] - 1.0, self.pool(1.0 + robust[:, None])[:, 0] - 1.0


@dataclass(frozen=True, slots=True)
class PilotLevel:
    """Both halves of a level; shrink: the share of the modelled differences between actions that is kept.

    plug_in, robust, error: scaled gain of the reference candidate by the model, doubly robust, and the latter's standard error.
    """

    halves: tuple[Half, ...]
    caps: tuple[float, ...] | None
    shrink: float
    plug_in: float
    robust: float
    error: float

    @property
    def shows_gain(self) -> bool:
        """Say whether the gain of the reference candidate stands out of its error."""
        return self.robust > 2 * self.error

    @property
    def stated(self) -> bool:
        """Say whether the problem states the incumbent of the level."""
        return self.halves[0].incumbent is not None

    @property
    def counted(self) -> float:
        """Return the scaled gain that the reference candidate has in the worlds of the plan, as logged."""
        return self.shrink * self.plug_in

    def plays(self, explore: float | None, limit: float) -> tuple[Play, ...]:
        """Return the studies at an exploration rate and a cap, one for each half."""
        return tuple(self._play(half, explore, limit) for half in self.halves)

    def cost(self, explore: float) -> float:
        """Return what exploring at a rate costs, scaled: rate times the legacy's own reward minus that of a uniform choice."""
        lost = []
        for half in self.halves:
            uniform = half.behaviour.uniform
            own = half.behaviour.own() if half.incumbent is None else half.incumbent
            lost.append(half.pool(1.0 + ((own - uniform) * half.mean).sum(axis=1)[:, None])[:, 0] - 1.0)
        return explore * float(np.concatenate(lost).mean())

    def _play(self, half: Half, explore: float | None, limit: float) -> Play:
        logging = half.behaviour.exploring(explore)
        candidate, comparator = half.candidate(logging, limit), half.comparator(explore)
        largest = half.largest(explore, limit)
        world = self._world(half)
        return Play(logging, candidate, half.control, world, half.residual, largest, half.pool, comparator)

    def _world(self, half: Half) -> Array:
        middle = (half.behaviour.logged * half.mean).sum(axis=1, keepdims=True)
        return np.asarray(middle + self.shrink * (half.mean - middle))


def cut_in_halves(batch: Batch, seed: int) -> tuple[Batch, Batch]:
    """Return two halves of the units of a batch, at random; episodes of one cluster stay together."""
    units, unit = np.unique(batch.episode if batch.cluster is None else batch.cluster, return_inverse=True)
    first = stream(seed, "plan", "halves").permutation(len(units)) < len(units) // 2
    return batch.take_episodes(first[unit]), batch.take_episodes(~first[unit])


def first_decisions(batch: Batch, level: str, most: int) -> Batch:
    """Return the first episodes of a batch, two or more, that have at most so many decisions at a level."""
    episode = batch.episode_of(level)
    return batch if episode.size <= most else batch.take_episodes(np.arange(max(2, int(episode[most]))))


def fit_half(problem: Problem, measure: Measure, level: str, half: Batch) -> Models:
    """Return the reward models of one half, for all levels, as a certificate fits them."""
    scope = Scope(level)
    parts = gain_parts(problem, scope, measure, Reach.capped(REFERENCE_CAP), "auto")
    claim = Claim(0, scope, "gain", measure, 0.0, 0.05, parts)
    return fit_models(problem, Candidate(Logged(problem)), [claim], half)


def pilot_level(
    problem: Problem,
    measure: Measure,
    batches: tuple[Batch, Batch],
    models: tuple[Models, Models],
    level: str,
    given: Candidate | None,
) -> PilotLevel | None:
    """Return what the pilot tells about a level; None if the log does not hold the legacy's whole distribution there.

    given: the user's own candidate; None stands for capped ones, learned on the other half.
    """
    halves = []
    for place, batch in enumerate(batches):
        some = first_decisions(batch, level, min(MOST_DECISIONS, MOST_CELLS // problem.level(level).actions.count))
        found = _half(problem, measure, some, models[1 - place], models[place], level, given)
        if found is None:
            return None
        halves.append(found)
    plug_in, robust = (np.concatenate(values) for values in zip(*[half.estimates() for half in halves], strict=True))
    modelled, estimated = float(plug_in.mean()), float(robust.mean())
    error = float(robust.std(ddof=1)) / math.sqrt(robust.size)
    shrink = 0.0 if modelled <= 0 else min(max((estimated - CAUTION * error) / modelled, 0.0), 1.0)
    caps = None
    if halves[0].fixed is not None and given is not None:
        caps = (cap_of(given.policy, level),)
    return PilotLevel(tuple(halves), caps, shrink, modelled, estimated, error)


def _half(
    problem: Problem, measure: Measure, batch: Batch, learned: Models, judging: Models, level: str, given: Candidate | None
) -> Half | None:
    table = batch.levels[level]
    behaviour = Behaviour.of(table, problem.level(level).actions.count)
    if behaviour is None:
        return None
    if given is not None and given.rewards is not None:
        learned = Models({measure.column: given.rewards}, learned.guess)
    view = View(problem, batch, Logged(problem), learned)
    control = view.predicted(measure, level)
    mean = View(problem, batch, Logged(problem), judging).predicted(measure, level)
    seen = view.subtree(measure, level)
    reward = (seen.low + seen.high) / 2  # missing rewards: the middle of what they may be
    scores, fixed = control, None
    if given is not None:
        if isinstance(given.policy, Capped):
            scores = measure.scaled(given.policy.model.predict(level, batch))
        else:
            fixed = path_full(given.policy, level, batch, Scope(level))
    residual = reward - control[np.arange(len(table)), table.action]
    comparator = Comparator.of(problem)
    incumbent = None
    if comparator.policy is not None and level in comparator.levels:
        incumbent = path_full(comparator.policy, level, batch)
    pool, rate = _pool(problem, batch, level), comparator.rates.get(level)
    return Half(behaviour, scores, fixed, control, mean, residual, table.action, reward, pool, incumbent, rate)


def _pool(problem: Problem, batch: Batch, level: str) -> Pool:
    def pool(values: Array) -> Array:
        episodes = nested_means(batch, level, values)
        if batch.cluster is None or problem.cluster is None:
            return episodes
        clusters = Clusters(np.ones(values.shape[1]), problem.cluster_most, problem.cluster_name)
        clusters.add(batch.cluster, episodes)
        return clusters.units()

    return pool
