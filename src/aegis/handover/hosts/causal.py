"""Hosts that learn the mechanisms of the plant and plan with what they believe, one level at a time.

`CausalHost` plans by a rule. `PacBayesHost` weighs posterior draws by the sharp PAC-Bayes certificate they give (the paper's
AEGIS-PB, on the sharp form): draws come from the earlier episodes, weights from the later half of the phase.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aegis.errors import SettingError, check_choice, whole_number
from aegis.evidence import PacBayesBound, Particles, best_posterior, value_grid
from aegis.handover.hosts.base import Proposal, check_proposals, logged_propensities
from aegis.handover.hosts.beliefs import WarmStart, learn_belief
from aegis.handover.run_history import History
from aegis.mechanisms import Belief, Draw, ModelSettings, RegressionDraw, Theta
from aegis.ope import LOGGER_COMPARATOR, CandidateView, Comparator, RewardModels, fit_reward_models, reward_measure
from aegis.planning import (
    COARSE,
    Greedy,
    GreedyChoice,
    Integration,
    LikelihoodRanks,
    PessimisticValues,
    Planned,
    PlannedValues,
    Rule,
    SpreadChoice,
    Thompson,
    ThompsonChoice,
    Ucb,
    best_actions,
    mask_closed,
    plan_policy,
)
from aegis.policies import Capped, Mixture, capped_probabilities, check_cap, open_actions, path_full, path_taken
from aegis.problem import Array, Batch, Policy, Problem, RewardModel, nested_means
from aegis.rng import stream

OPTIMISTIC = Ucb(draws=8)  # explores as the paper's AEGIS-UCB


@dataclass(frozen=True, slots=True)
class CausalHost:
    """A belief about the plant's mechanisms and a rule that plans with it, one level at a time.

    models: candidates for every mechanism, of which the likeliest is kept. reading: how a plan by the rule becomes scores, a
    name of READINGS. integration: of plans with several draws, which cost as many times what the posterior mean costs; None
    means the usual one, which the posterior mean has: capped steps below a lever need its nodes. warm: where the belief starts,
    if not at the prior of the models. exploring: the rule of `explore`.
    """

    name: str
    rule: Rule
    models: Mapping[str, ModelSettings]
    reading: str = "mean"
    integration: Integration | None = COARSE
    warm: WarmStart | None = None
    exploring: Rule = OPTIMISTIC

    def __post_init__(self) -> None:
        check_choice(self.reading, READINGS, "reading of a plan")

    def propose(self, history: History, levels: Sequence[str], seed: int) -> Mapping[str, Proposal]:
        """Return proposals by the recursion: at each level the values of its actions, the policies in control acting elsewhere.

        The prediction is that of the posterior mean. Above a level where the policy in control is known in the states that were
        met only, what an action earns is read off the episodes of the present phase, which have its continuation built in. Raises
        PolicyError, naming host and level, if scores are not finite.
        """
        problem = history.problem
        refuse_carry_over(problem, self.name)
        belief, episode = self._belief(history)
        proposals = {}
        for level in levels:
            if not history.everywhere and level != problem.innermost.name:
                model = fit_reward_models(problem, history.phase(), (level,))
                if model is not None:
                    proposals[level] = Proposal(model, model)
                continue
            mean = plan_mean_values(belief, level, history)
            if isinstance(self.rule, Greedy):
                proposals[level] = Proposal(mean, mean)
                continue
            rng = stream(seed, "host", self.name, level, history.episodes)
            drawn = plan_policy(belief, self.rule, rng, [level], history.acting, integration=self.integration, episode=episode)
            proposals[level] = READINGS[self.reading](problem, drawn, mean)
        check_proposals(self.name, proposals, history, levels)
        return proposals

    def explore(self, history: History, levels: Sequence[str], seed: int) -> Policy:
        """Return the policy that acts at these levels by the exploring rule.

        By default that takes upper confidence bounds of the planned value, as the paper's AEGIS-UCB. One plan for all levels; the
        policies in control act elsewhere. It holds one set of posterior draws and is frozen, so that its probabilities are exact.
        """
        refuse_carry_over(history.problem, self.name)
        belief, episode = self._belief(history)
        rng = stream(seed, "host", self.name, "explore", history.episodes)
        return plan_policy(belief, self.exploring, rng, levels, history.acting, integration=self.integration, episode=episode)

    def _belief(self, history: History) -> tuple[Belief, int]:
        """Return the belief after all that was seen, and over how many episodes it has moved away from its prior."""
        everything = history.everything()
        if self.warm is None:
            return learn_belief(history.problem, everything, self.models), history.episodes
        return self.warm.belief(history.problem, everything, self.models)


def read_by_choice(problem: Problem, drawn: Planned, prediction: RewardModel) -> Proposal:
    """Return the proposal by what the rule has settled for: values where it acts on values, else how likely its actions are."""
    return READINGS[CHOICE_READINGS.get(type(drawn.choice), "likeliest")](problem, drawn, prediction)


CHOICE_READINGS: Mapping[type, str] = {GreedyChoice: "mean", ThompsonChoice: "mean", SpreadChoice: "pessimistic"}

# How a plan by a rule and the prediction of the posterior mean become a proposal. Scores are the mean of an action's values over
# the draws; that minus kappa standard deviations (plus, where the rule is an upper bound); or how likely the rule takes the
# action, then the prediction. `rule` takes the one of them that goes with the rule at that level.
READINGS: Mapping[str, Callable[[Problem, Planned, RewardModel], Proposal]] = {
    "mean": lambda problem, drawn, prediction: Proposal(PlannedValues(problem, drawn), prediction),
    "pessimistic": lambda problem, drawn, prediction: Proposal(PessimisticValues(problem, drawn), prediction),
    "likeliest": lambda problem, drawn, prediction: Proposal(LikelihoodRanks(problem, drawn, prediction), prediction),
    "rule": read_by_choice,
}


def plan_mean_values(belief: Belief, level: str, history: History) -> PlannedValues:
    """Return the values of a level's actions under the posterior mean, the policies in control acting elsewhere."""
    nothing_random = stream(0, "posterior mean")
    return PlannedValues(history.problem, plan_policy(belief, Greedy(), nothing_random, [level], history.acting))


def refuse_carry_over(problem: Problem, host: str) -> None:
    """Raise SettingError where planning is not what it seems: a decision affects more than its own subtree."""
    if problem.carry_over == "within":
        raise SettingError(
            f"host '{host}' plans as if a decision affected only its own subtree; this problem says 'carry_over: within'. Use "
            "the host 'external' with a policy of your own"
        )


LIFT = 1.0  # a paired gain is at least -1


def particle_ratios(policy: Policy, level: str, batch: Batch, particles: int) -> Array:
    """Return candidate over logged probability of the action taken, `[n, N]`.

    A plan's particles are paired with those of the policies elsewhere, these varying fastest; at its own level all pairs with
    one draw agree.
    """
    probabilities = policy.taken(level, batch)
    return np.ascontiguousarray((probabilities[:: len(probabilities) // particles] / logged_propensities(level, batch)).T)


def particle_gains(
    problem: Problem, policy: Policy, level: str, batch: Batch, particles: int, comparator: Comparator = LOGGER_COMPARATOR
) -> Array:
    """Return `[E, N]`: the lifted gain of each episode under each particle of a policy."""
    return lifted_particle_gains(problem, level, batch, particle_ratios(policy, level, batch, particles), comparator)


def lifted_particle_gains(
    problem: Problem, level: str, batch: Batch, ratios: Array, comparator: Comparator = LOGGER_COMPARATOR
) -> Array:
    """Return `[E, N]`: the nested mean of `w r + u (1 - r)` of each episode, for ratios w `[n, N]`: one plus the gain, at
    least 0.

    u is mu/nu of the incumbent at the action taken, 1 where the legacy that writes the log is the incumbent. r is the scaled
    mean reward below each decision of the level; one that is missing counts as what hurts. An episode without a decision there
    says nothing: its gain is 0.
    """
    check_single_level(problem, level)
    view = CandidateView(problem, batch, None, RewardModels())  # type: ignore[arg-type]  # no policy is asked
    rewards = view.subtree(reward_measure(problem), level)
    own = incumbent_ratios(comparator, level, batch)[:, None]
    worst = np.where(ratios >= own, rewards.low[:, None], rewards.high[:, None])
    return np.nan_to_num(nested_means(batch, level, ratios * worst + own * (1.0 - worst)), nan=LIFT)


def incumbent_ratios(comparator: Comparator, level: str, batch: Batch) -> Array:
    """Return the incumbent's over the logged probability of every action taken `[n]`; 1 where the incumbent is not stated."""
    if comparator.policy is None or level not in comparator.levels:
        return np.ones(len(batch.levels[level]))
    return path_taken(comparator.policy, level, batch) / logged_propensities(level, batch)


def check_single_level(problem: Problem, level: str) -> None:
    """Raise SettingError where the ratio of one level's own decision is not the weight of what it earns."""
    per = problem.reward.per
    below = per == "decision" or (per != "episode" and problem.index(per) <= problem.index(level))
    if problem.carry_over == "within" or not below:
        raise SettingError(
            f"level '{level}': bounds by particles need a reward that belongs to decisions at or below the level and no "
            f"carry-over; this problem says 'per: {per}' and 'carry_over: {problem.carry_over}'. Use the gate 'challenger'"
        )


HIGH = 2.0 * LIFT  # a lifted gain is a mean of at most this, since gains are at most 1

MOST = 4  # particles of the policy, the heaviest: each costs as much as a whole plan

GAIN_GRID = value_grid(-4)  # bets around 1/16: a lifted gain is near 1, and gains worth handing over for are some hundredths


@dataclass(frozen=True, slots=True)
class WeighedParticles:
    """Particles of one level, weighed.

    plan: has the draws. caps: of the steps; the particles are all draws as they are, then all draws with the first cap, and so
    on. best: the largest bound of the lifted gain, with its weights Q. posterior: the bound of Q = p_k, equal weights
    over the draws as they are, which pays for no choice.
    """

    plan: Planned
    legacy: Policy
    level: str
    caps: tuple[float, ...]
    best: PacBayesBound
    posterior: PacBayesBound

    @property
    def policy(self) -> Policy:
        """Return the Q-mixture: one policy for each of the heaviest particles, drawn once per episode with its weight."""
        heaviest = np.sort(np.argsort(-self.best.weights, kind="stable")[:MOST])
        heaviest = heaviest[self.best.weights[heaviest] > 0]
        weights = self.best.weights[heaviest]
        members = [self.particle(int(place)) for place in heaviest]
        return members[0] if len(members) == 1 else Mixture(members, (weights / weights.sum()).tolist())

    def particle(self, place: int) -> Policy:
        """Return one of the particles as a policy."""
        step, draw = divmod(place, self.plan.theta.count)
        alone = _alone(self.plan, draw)
        if step == 0:
            return alone
        values = PlannedValues(self.plan.problem, alone)
        return Capped(self.plan.problem, values, self.legacy, self.caps[step - 1], [self.level])


@dataclass(frozen=True, slots=True)
class PacBayesHost:
    """Weighs posterior draws, and capped steps towards them, by the certificate they give.

    models: as of `CausalHost`. draws: how many. caps: W of the steps. delta: of the certificate that is maximised.
    """

    models: Mapping[str, ModelSettings]
    draws: int = 8
    caps: tuple[float, ...] = (1.5, 2.0, 3.0)
    delta: float = 0.05
    integration: Integration | None = COARSE
    name: str = "pb"

    def __post_init__(self) -> None:
        whole_number("pb: 'draws'", self.draws)
        object.__setattr__(self, "caps", tuple(check_cap(limit) for limit in self.caps))
        if not 0.0 < self.delta < 1.0:
            raise SettingError(f"pb: 'delta' lies between 0 and 1, found {self.delta!r}")

    def propose(self, history: History, levels: Sequence[str], seed: int) -> Mapping[str, Proposal]:
        """Return the Q-mixture of each level, and steps towards it."""
        problem = history.problem
        refuse_carry_over(problem, self.name)
        mean = learn_belief(problem, history.everything(), self.models)
        proposals = {}
        for level, weighed in self.weigh(history, levels, seed).items():
            policy, prediction = weighed.policy, plan_mean_values(mean, level, history)
            proposals[level] = Proposal(LikelihoodRanks(problem, policy, prediction), prediction, policy)
        check_proposals(self.name, proposals, history, levels)
        return proposals

    def weigh(self, history: History, levels: Sequence[str], seed: int) -> dict[str, WeighedParticles]:
        """Return the particles of each level with the weights that give the largest bound on the later half of the phase."""
        problem, whole = history.problem, history.everything()
        own = np.array([place for place in range(history.start, history.episodes) if history.arms[place] == "agent"])
        later = own[own.size // 2 :]
        if not later.size or later[0] == 0:
            raise SettingError(
                f"host '{self.name}' draws particles from earlier episodes than those it weighs them on: it needs two of the "
                f"present phase, found {own.size}"
            )
        belief = learn_belief(problem, whole.take_episodes(np.arange(later[0])), self.models)
        units, particles = whole.take_episodes(later), {}
        for level in levels:
            rng = stream(seed, "host", self.name, level, history.episodes)
            drawn = plan_policy(belief, Thompson(self.draws), rng, [level], history.acting, integration=self.integration)
            ratios = self._ratios(drawn, history.legacy, level, units)
            gains = lifted_particle_gains(problem, level, units, ratios, history.comparator)
            every = Particles.empty(GAIN_GRID, gains.shape[1]).add(gains)
            single = Particles.empty(GAIN_GRID, self.draws).add(gains[:, : self.draws])
            largest, equal = best_posterior(every, self.delta, HIGH), single.lower(single.prior, self.delta, HIGH)
            particles[level] = WeighedParticles(drawn, history.legacy, level, self.caps, largest, equal)
        return particles

    def _ratios(self, drawn: Planned, legacy: Policy, level: str, batch: Batch) -> Array:
        """Return candidate over logged probability of the action taken, `[n, N]`, of all draws and their steps."""
        table, values = batch.levels[level], drawn.values(level, batch)
        count, actions = values.shape[1:]
        allowed = open_actions(table.available, count, actions, f"level '{level}'")
        mu = np.tile(path_full(legacy, level, batch), (self.draws, 1))
        taken = np.tile(table.action.astype(np.int64), self.draws)[:, None]
        steps = [best_actions(mask_closed(values, allowed)).reshape(-1, actions)]  # what the plan itself does
        steps += [capped_probabilities(values.reshape(-1, actions), mu, limit) for limit in self.caps]
        own = [np.take_along_axis(chances, taken, axis=1).reshape(self.draws, count).T for chances in steps]
        return np.concatenate(own, axis=1) / logged_propensities(level, batch)[:, None]


def _alone(drawn: Planned, place: int) -> Planned:
    """Return the plan under one of its draws."""
    functions = {name: _one(function, place) for name, function in drawn.theta.functions.items()}
    choice = ThompsonChoice(Theta(functions, 1))
    return Planned(drawn.problem, choice, drawn.scope, drawn.legacy, drawn.commit, drawn.integration, drawn.affine)


def _one(function: object, place: int) -> RegressionDraw:
    if not isinstance(function, RegressionDraw):
        raise SettingError(f"host 'pb' weighs draws of regressions, found a {type(function).__name__}; use models of features")
    weights: Array = function.drawn.weights[place : place + 1]
    return RegressionDraw(function.spec, Draw(weights, function.drawn.sd[place : place + 1]))
