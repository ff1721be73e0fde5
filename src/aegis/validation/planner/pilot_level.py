"""One level of a pilot log: contexts, what actions earn, how rewards vary, what the legacy did, correction for optimism.

The log is cut in two halves of units. A candidate learned on one half is played in the contexts of the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.certificate import Candidate, Claim, Reach, cap_of, fit_models, gain_parts
from aegis.ope import CandidateView, ClusterUnits, Comparator, Measure, RewardModels, capped_variation
from aegis.policies import Capped, Logged, capped_probabilities, path_full
from aegis.problem import AnyArray, Array, Batch, LevelTable, Problem, Scope, nested_means
from aegis.rng import stream
from aegis.validation.planner.forecast import HypotheticalStudy, Pool

CERTAIN = 1.0 - 1e-9


@dataclass(frozen=True, slots=True)
class LegacyBehaviour:
    """The legacy's distribution at the decisions of a level, and a uniform choice among the available actions, both `[n, A]`."""

    logged: Array
    uniform: Array

    @classmethod
    def of(cls, table: LevelTable, actions: int) -> LegacyBehaviour | None:
        """Return the behaviour; None if only the probability of the action taken is known, or if some are missing."""
        logged = table.mu_full
        if logged is None and table.value is None and bool((table.mu_taken >= CERTAIN).all()):
            logged = np.zeros((len(table), actions))
            logged[np.arange(len(table)), table.action] = 1.0
        if logged is None or not np.isfinite(logged).all():
            return None
        mask: npt.NDArray[np.bool_] = np.ones(logged.shape, dtype=bool) if table.available is None else table.available
        return cls(logged, mask / mask.sum(axis=1, keepdims=True))

    @property
    def deterministic(self) -> bool:
        """Say whether nothing was left to chance where there was a choice."""
        free = (self.uniform > 0).sum(axis=1) > 1
        return bool((self.logged.max(axis=1) >= CERTAIN)[free].all())

    @property
    def rate(self) -> Array:
        """Return the rate of exploration that is in the logged distributions, `[n]`: the share of a uniform choice in them."""
        open_action = self.uniform > 0
        ratio = np.where(open_action, self.logged / np.where(open_action, self.uniform, 1.0), np.inf)
        return np.asarray(np.minimum(ratio.min(axis=1), 1.0))

    @property
    def uniform_already(self) -> bool:
        """Say whether every decision was a uniform choice, so that what the legacy itself would do is not known."""
        return bool((self.rate >= CERTAIN).all())

    def own(self) -> Array:
        """Return what the legacy does when it does not explore, `[n, A]`; where all is exploration, that."""
        rate = self.rate[:, None]
        some = rate < CERTAIN
        return np.where(some, (self.logged - rate * self.uniform) / np.where(some, 1.0 - rate, 1.0), self.uniform)

    def exploring(self, rate: float | None) -> Array:
        """Return the distribution `[n, A]` with another rate of exploration; None is as logged."""
        if rate is None:
            return self.logged
        return np.maximum((1.0 - rate) * self.own() + rate * self.uniform, 0.0)


REFERENCE_CAP = 2.0  # of the candidate by which optimism is judged: its weights stay small

MOST_DECISIONS = 4000  # of a level, in each half, that are simulated

CAUTION = 0.5  # standard errors that are taken off the estimated gain

MOST_CELLS = 2**21  # of them times actions


@dataclass(frozen=True, slots=True)
class PilotHalf:
    """The decisions `[n]` of a level in one half of the pilot, seen by a candidate that was learned on the other.

    scores `[n, A]`: what the candidate ranks actions by, scaled. fixed `[n, A]`: its distribution if it does not depend on the
    legacy, else None. control, mean `[n, A]`: predictions of the other half and of this one. residual, action, reward `[n]`.
    incumbent `[n, A]`: as the problem states it; None if it states none. rate: of exploration around it, None if not known.
    """

    behaviour: LegacyBehaviour
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
        return capped_probabilities(self.scores, logging, limit) if self.fixed is None else self.fixed

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

    halves: tuple[PilotHalf, ...]
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

    def plays(self, explore: float | None, limit: float) -> tuple[HypotheticalStudy, ...]:
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

    def _play(self, half: PilotHalf, explore: float | None, limit: float) -> HypotheticalStudy:
        logging = half.behaviour.exploring(explore)
        middle = (half.behaviour.logged * half.mean).sum(axis=1, keepdims=True)
        return HypotheticalStudy(
            logging=logging,
            candidate=half.candidate(logging, limit),
            control=half.control,
            mean=middle + self.shrink * (half.mean - middle),
            residual=half.residual,
            largest=half.largest(explore, limit),
            pool=half.pool,
            comparator=half.comparator(explore),
        )


def cut_in_halves(batch: Batch, seed: int) -> tuple[Batch, Batch]:
    """Return two halves of the units of a batch, at random; episodes of one cluster stay together."""
    units, unit = np.unique(batch.episode if batch.cluster is None else batch.cluster, return_inverse=True)
    first = stream(seed, "plan", "halves").permutation(len(units)) < len(units) // 2
    return batch.take_episodes(first[unit]), batch.take_episodes(~first[unit])


def first_decisions(batch: Batch, level: str, most: int) -> Batch:
    """Return the first episodes of a batch, two or more, that have at most so many decisions at a level."""
    episode = batch.episode_of(level)
    return batch if episode.size <= most else batch.take_episodes(np.arange(max(2, int(episode[most]))))


def fit_half(problem: Problem, measure: Measure, level: str, half: Batch) -> RewardModels:
    """Return the reward models of one half, for all levels, as a certificate fits them."""
    scope = Scope(level)
    parts = gain_parts(problem, scope, measure, Reach.capped(REFERENCE_CAP), "auto")
    claim = Claim(0, scope, "gain", measure, 0.0, 0.05, parts)
    return fit_models(problem, Candidate(Logged(problem)), [claim], half)


def make_pilot_level(
    problem: Problem,
    measure: Measure,
    batches: tuple[Batch, Batch],
    models: tuple[RewardModels, RewardModels],
    level: str,
    candidate: Candidate | None,
) -> PilotLevel | None:
    """Return what the pilot tells about a level; None if the log does not hold the legacy's whole distribution there.

    candidate: the user's own; None stands for capped ones, learned on the other half.
    """
    halves = []
    for place, batch in enumerate(batches):
        some = first_decisions(batch, level, min(MOST_DECISIONS, MOST_CELLS // problem.level(level).actions.count))
        half = _make_half(problem, measure, some, models[1 - place], models[place], level, candidate)
        if half is None:
            return None
        halves.append(half)
    plug_in, robust = (np.concatenate(values) for values in zip(*[half.estimates() for half in halves], strict=True))
    modelled, estimated = float(plug_in.mean()), float(robust.mean())
    error = float(robust.std(ddof=1)) / math.sqrt(robust.size)
    shrink = 0.0 if modelled <= 0 else min(max((estimated - CAUTION * error) / modelled, 0.0), 1.0)
    caps = None
    if halves[0].fixed is not None and candidate is not None:
        caps = (cap_of(candidate.policy, level),)
    return PilotLevel(halves=tuple(halves), caps=caps, shrink=shrink, plug_in=modelled, robust=estimated, error=error)


def _make_half(
    problem: Problem,
    measure: Measure,
    batch: Batch,
    learned: RewardModels,
    judging: RewardModels,
    level: str,
    candidate: Candidate | None,
) -> PilotHalf | None:
    table = batch.levels[level]
    behaviour = LegacyBehaviour.of(table, problem.level(level).actions.count)
    if behaviour is None:
        return None
    if candidate is not None and candidate.rewards is not None:
        learned = RewardModels({measure.column: candidate.rewards}, learned.guess)
    view = CandidateView(problem, batch, Logged(problem), learned)
    control = view.predicted(measure, level)
    mean = CandidateView(problem, batch, Logged(problem), judging).predicted(measure, level)
    rewards = view.subtree(measure, level)
    reward = (rewards.low + rewards.high) / 2  # missing rewards: the middle of what they may be
    scores, fixed = control, None
    if candidate is not None and isinstance(candidate.policy, Capped):
        scores = measure.scaled(candidate.policy.model.predict(level, batch))
    elif candidate is not None:
        fixed = path_full(candidate.policy, level, batch, Scope(level))
    comparator = Comparator.of(problem)
    stated = comparator.policy if level in comparator.levels else None
    return PilotHalf(
        behaviour=behaviour,
        scores=scores,
        fixed=fixed,
        control=control,
        mean=mean,
        residual=reward - control[np.arange(len(table)), table.action],
        action=table.action,
        reward=reward,
        pool=_pool(problem, batch, level),
        incumbent=None if stated is None else path_full(stated, level, batch),
        rate=comparator.rates.get(level),
    )


def _pool(problem: Problem, batch: Batch, level: str) -> Pool:
    def pool(values: Array) -> Array:
        episodes = nested_means(batch, level, values)
        if batch.cluster is None or problem.cluster is None:
            return episodes
        clusters = ClusterUnits(np.ones(values.shape[1]), problem.cluster_most, problem.cluster_name)
        clusters.add(batch.cluster, episodes)
        return clusters.units()

    return pool
