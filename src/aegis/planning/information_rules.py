"""Rules that act on information: D-optimal design, Thompson sampling in a shortlist, information-directed sampling.

The information of an action is the gain in log-determinant of the posterior precisions of the mechanisms below it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.random import Generator

from aegis.errors import ModelError, PolicyError, finite_number, whole_number
from aegis.mechanisms import Belief, Theta
from aegis.planning.base import EachDraw, OneParticle, Values, best_actions, check_known, mask_closed
from aegis.planning.integration import Integration
from aegis.planning.states import States, flatten_particles
from aegis.policies import one_hot
from aegis.problem import Array, Bools, Level

# The logarithm is smooth in the parents it is averaged over, so that a short rule does.
INFORMATION_INTEGRATION = Integration(nodes=16, samples=128)

INFORMATION_BLOCK = 2**16  # hypothetical samples whose features are held at once

TIES = 9  # digits to which scores are compared


@dataclass(frozen=True, slots=True)
class Information:
    """How much each action tells, under a belief.

    point: the posterior mean, which predicts parents that are not yet known. samples: how many samples of the contexts directly
    below follow one decision; with a tempered likelihood, times its power.
    """

    belief: Belief
    point: Theta
    samples: float = 1.0

    def score(self, level: str, states: States) -> Array:
        """Return `[1 or S, n, A]`: sum over mechanisms and target coordinates of `E log(1 + I phi' P^-1 phi)`.

        Above the innermost level the mechanisms are those of the contexts directly below, averaged over contexts of that level
        that are parents of others, and I is `samples`. At the innermost level they are outcome and reward, the reward at the
        predicted outcome (averaged over a categorical one), and I is 1: a decision there has one result. Raises PolicyError if
        there is nothing to learn directly below, or if a context is missing.
        """
        problem = self.belief.problem
        actions, child = problem.level(level).actions.count, problem.child(level)
        ahead = Theta({}, 1) if child is None else self._ahead(child)
        nodes = 1 if child is None else INFORMATION_INTEGRATION.points(problem, ahead, child.name, _method(child, ahead))
        rows = max(1, INFORMATION_BLOCK // (actions * nodes))
        parts = []
        for start in range(0, max(1, states.count), rows):
            wide = states.part(start, start + rows).each_action(problem, level)
            gains = self._results(wide) if child is None else self._contexts(level, child, wide, ahead)
            parts.append(gains.reshape(len(gains), -1, actions))
        return check_known(np.concatenate(parts, axis=1), level, "what an action would tell")

    def _ahead(self, child: Level) -> Theta:
        """Return the predictors of those contexts of `child` that are parents of others there: what is averaged over."""
        own = {variable.name for variable in child.context}
        parents = {parent for name in own & set(self.belief.mechanisms) for parent in self.belief.mechanisms[name].parents}
        return Theta({name: function for name, function in self.point.functions.items() if name in own & parents}, 1)

    def _contexts(self, level: str, child: Level, states: States, ahead: Theta) -> Array:
        learned = [variable.name for variable in child.context if variable.name in self.belief.mechanisms]
        if not learned:
            raise PolicyError(
                f"level '{level}': there is no mechanism of a context of '{child.name}' to learn about, so that no action tells "
                "more than another; use another rule at this level, or a model with such mechanisms"
            )
        deeper, weights = INFORMATION_INTEGRATION.extend(self.belief.problem, ahead, child.name, states, _method(child, ahead))
        total = np.zeros((1, deeper.count))
        for name in learned:
            total = total + self._gain(name, deeper, self.samples)
        return np.sum(weights * total.reshape(len(total), states.count, weights.shape[-1]), axis=-1)

    def _results(self, states: States) -> Array:
        outcome, reward = self.belief.problem.outcome, self.belief.problem.reward.column
        if outcome is None or outcome.name not in self.belief.mechanisms:
            return self._gain(reward, states, 1.0)
        total = self._gain(outcome.name, states, 1.0)
        if outcome.name not in self.belief.mechanisms[reward].parents:
            return total + self._gain(reward, states, 1.0)
        predicted = self.point.functions[outcome.name].mean(states.rows, states.count)
        if outcome.kind == "categorical":
            for code in range(outcome.width):
                fixed = states.with_variable(outcome.name, np.full((1, states.count), code))
                total = total + predicted[..., code] * self._gain(reward, fixed, 1.0)
            return total
        value = predicted if outcome.kind == "vector" else predicted[..., 0]
        return total + self._gain(reward, states.with_variable(outcome.name, value), 1.0)

    def _gain(self, name: str, states: States, samples: float) -> Array:
        """Return `[1 or S, n]`: the log-determinant gained by one mechanism, all coordinates of its target together."""
        rows = states.only(self.belief.mechanisms[name].parents).rows
        particles = max((values.shape[0] for values in rows.values()), default=1)
        flat = {key: flatten_particles(values, particles) for key, values in rows.items()}
        mean, of_mean, of_value = self.belief.predict(name, flat, particles * states.count)
        if np.isinf(of_value).any():
            raise ModelError(
                f"the predictive variance of '{name}' is infinite: a prior shape of at most 1 has too few data yet; use a prior "
                "shape above 1"
            )
        leverage = of_mean[:, 0] / (of_value - of_mean)[:, 0]  # the same for all coordinates, which share their precision
        return (mean.shape[-1] * np.log1p(samples * leverage)).reshape(particles, states.count)


def relative_scores(scores: Array, allowed: Bools) -> Array:
    """Return scores `[..., n, A]`, at least 0, as shares of the best allowed one, rounded; -inf where not allowed.

    Actions that tell the same by symmetry differ by rounding alone; it must not decide between them.
    """
    top = np.where(allowed, scores, 0.0).max(axis=-1, keepdims=True)
    return np.where(allowed, np.round(scores / np.where(top > 0, top, 1.0), TIES), -np.inf)


def _method(child: Level, ahead: Theta) -> Literal["quadrature", "monte_carlo"]:
    numbers = sum(v.width for v in child.context if v.kind != "categorical" and v.name in ahead.functions)
    return "quadrature" if numbers <= 1 else "monte_carlo"


@dataclass(frozen=True, slots=True)
class DOptimalChoice(OneParticle):
    """The most informative action; theta, the posterior mean, is what values would be planned with."""

    theta: Theta
    information: Information

    def probabilities(self, level: str, states: States, values: Values, allowed: Bools) -> Array:
        """Return one-hot distributions `[1, n, A]`."""
        scores = self.information.score(level, states).mean(axis=0, keepdims=True)
        return best_actions(relative_scores(scores, allowed))


@dataclass(frozen=True, slots=True)
class DOptimal:
    """D-optimal design: take the action that tells most about the mechanisms below, regardless of its reward.

    Maximise the information gained about the mechanisms directly below (Chaloner and Verdinelli 1995; the paper's D-optimal
    alternative, Option B).

    At a level above the innermost: the log-determinant gained by the posterior precisions of the contexts directly below,
    `sum over mechanisms of q log(1 + I phi' P^-1 phi)` with q the width of the target and I = `samples`, averaged over contexts
    that are parents of others and not yet known. At the innermost level: the same for outcome and reward with I = 1, at the
    predicted outcome. With known noise this is twice the mutual information between the new samples and the parameters. Rewards
    do not enter; deterministic.
    """

    particles: ClassVar[int] = 0  # no draws are played
    samples: float = 1.0

    def __post_init__(self) -> None:
        finite_number("d_optimal: 'samples'", self.samples, above=0.0)

    def prepare(
        self, belief: Belief, rng: Generator, episode: int, scope: Iterable[str] | None = None, theta: Theta | None = None
    ) -> DOptimalChoice:
        """Return the choice under the current posterior, independent of the draws that other levels play."""
        point = belief.point()
        return DOptimalChoice(point, Information(belief, point, float(self.samples)))


@dataclass(frozen=True, slots=True)
class TopKChoice(EachDraw):
    """Each particle takes, of the k most informative actions, the best one under its own draw."""

    theta: Theta
    information: Information
    k: int

    def probabilities(self, level: str, states: States, values: Values, allowed: Bools) -> Array:
        """Return one-hot distributions `[S, n, A]`."""
        listed = shortlist(relative_scores(self.information.score(level, states), allowed), self.k) & allowed
        return best_actions(mask_closed(values(), listed))


@dataclass(frozen=True, slots=True)
class TopK:
    """The hybrid: Thompson sampling among the most informative actions.

    Maximise the planned value under one draw among the k actions that DOptimal ranks highest (the paper's top-k hybrid with
    Thompson as the tie-break).

    The shortlist is made per decision among the available actions; with fewer than k of them all are on it. Informative
    actions tied for the last place: the first ones. `particles` as in Thompson, `samples` as in DOptimal.
    """

    k: int = 3
    particles: int = 8
    samples: float = 1.0

    def __post_init__(self) -> None:
        whole_number("top_k: 'k'", self.k)
        whole_number("top_k: 'particles'", self.particles)
        finite_number("top_k: 'samples'", self.samples, above=0.0)

    def prepare(
        self, belief: Belief, rng: Generator, episode: int, scope: Iterable[str] | None = None, theta: Theta | None = None
    ) -> TopKChoice:
        """Return the choice among `particles` posterior draws, or among those given."""
        drawn = belief.draw(rng, self.particles) if theta is None else theta
        return TopKChoice(drawn, Information(belief, belief.point(), float(self.samples)), int(self.k))


def shortlist(scores: Array, k: int) -> Bools:
    """Return which actions are among the k with the largest scores `[..., A]`, first ones first on ties."""
    order = np.argsort(-scores, axis=-1, kind="stable")
    return np.argsort(order, axis=-1, kind="stable") < k


IDS_BLOCK = 2**20  # numbers per array that are held at once


@dataclass(frozen=True, slots=True)
class IdsChoice(OneParticle):
    """The distribution with the smallest information ratio over the draws in theta; it mixes at most two actions."""

    theta: Theta

    def probabilities(self, level: str, states: States, values: Values, allowed: Bools) -> Array:
        """Return distributions `[1, n, A]`."""
        drawn = values()
        draws, count, actions = drawn.shape
        rows = max(1, IDS_BLOCK // (actions * max(actions, draws)))
        chances = np.zeros((1, count, actions))
        for start in range(0, count, rows):
            part = slice(start, start + rows)
            chances[0, part] = least_ratio(*regret_and_information(drawn[:, part], allowed[part]), allowed[part])
        return chances


@dataclass(frozen=True, slots=True)
class Ids:
    """Information-directed sampling: trade the regret of an action against what it tells about which action is best.

    Minimise (expected regret)^2 / information gain over distributions on the actions of a decision: variance-based
    information-directed sampling (Russo and Van Roy 2014, 2018; the paper's host AEGIS-IDS).

    Over `draws` posterior draws of the planned values v, with A* the best action under a draw: the regret of an action is
    `E[v_A*] - E[v_a]`, its information gain the variance of `E[v_a | A*]`, which bounds what observing v_a tells about A* from
    below. Both are of the decision at hand: values of later decisions enter through the recursion, information for later ones
    does not. A minimiser mixes at most two actions; its probabilities are exact given the draws and get logged.
    """

    particles: ClassVar[int] = 0  # draws are averaged over, not played
    draws: int = 64

    def __post_init__(self) -> None:
        whole_number("ids: 'draws'", self.draws)

    def prepare(
        self, belief: Belief, rng: Generator, episode: int, scope: Iterable[str] | None = None, theta: Theta | None = None
    ) -> IdsChoice:
        """Return the choice over draws of its own."""
        return IdsChoice(belief.draw(rng, self.draws))


def regret_and_information(values: Array, allowed: Bools) -> tuple[Array, Array]:
    """Return expected regret and information gain `[n, A]` of every action from values `[S, n, A]` of equally likely draws."""
    drawn = np.asarray(values, dtype=np.float64)
    mean = drawn.mean(axis=0)
    wins = best_actions(mask_closed(drawn, allowed)).transpose(1, 2, 0)  # [n, A*, S]: which draws each action is best under
    regret = mask_closed(drawn, allowed).max(axis=-1).mean(axis=0)[:, None] - mean
    chance = wins.mean(axis=-1)
    share = np.where(chance > 0, chance, 1.0)[..., None]
    apart = (wins @ (drawn - mean).transpose(1, 0, 2)) / len(drawn) / share  # [n, A*, A]: E[v_a | A*] - E[v_a]
    # Of an allowed action the regret is a mean of numbers from 0: only rounding can make it negative.
    return np.maximum(regret, 0.0), np.sum(chance[..., None] * np.square(apart), axis=1)


def least_ratio(regret: Array, gain: Array, allowed: Bools) -> Array:
    """Return the distributions `[n, A]` on allowed actions that minimise (expected regret)^2 / expected gain.

    On two actions with probability p of the first, the ratio `(r2 + p (r1 - r2))^2 / (g2 + p (g1 - g2))` is convex in p and
    stationary at `p = r2 / (r1 - r2) - 2 g2 / (g1 - g2)`; outside (0, 1) a pure action is best. No regret counts as ratio 0,
    for any gain. On ties pure actions come before mixtures, and first ones before later ones.
    """
    count, actions = regret.shape
    rows = np.arange(count)
    pure = np.where(allowed, _ratio(regret, gain), np.inf)
    first = np.argmin(pure, axis=1)
    hopeless = np.isinf(pure[rows, first])  # nothing tells anything, though rounding left some regret everywhere
    first = np.where(hopeless, np.argmin(np.where(allowed, regret, np.inf), axis=1), first)
    r2, g2 = regret[:, None, :], gain[:, None, :]
    more_regret, more_gain = regret[:, :, None] - r2, gain[:, :, None] - g2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # equal regrets or gains: a pure action is best
        chance = r2 / more_regret - 2.0 * g2 / more_gain
    inside = (chance > 0.0) & (chance < 1.0) & allowed[:, :, None] & allowed[:, None, :]
    chance = np.where(inside, chance, 0.0)
    mixed = np.where(inside, _ratio(r2 + chance * more_regret, g2 + chance * more_gain), np.inf).reshape(count, -1)
    pair = np.argmin(mixed, axis=1)
    better = mixed[rows, pair] < pure[rows, first]
    share = np.where(better, chance.reshape(count, -1)[rows, pair], 1.0)[:, None]
    one, other = np.where(better, pair // actions, first), np.where(better, pair % actions, first)
    return share * one_hot(one, actions) + (1.0 - share) * one_hot(other, actions)


def _ratio(regret: Array, gain: Array) -> Array:
    """Return regret^2 / gain: 0 without regret, infinite for regret without gain."""
    useful = gain > 0.0
    with np.errstate(over="ignore"):  # a gain near the smallest float: infinite is what is meant
        ratio = np.where(useful, np.square(regret) / np.where(useful, gain, 1.0), np.inf)
    return np.where(regret == 0.0, 0.0, ratio)
