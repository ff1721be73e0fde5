"""Information-directed sampling: trade the regret of an action against what it tells about which action is best."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.mechanisms import Belief, Theta
from aegis.planning.rules import Mask, OneParticle, Values, best, check_count, closed_off
from aegis.planning.states import States
from aegis.policies.support import one_hot
from aegis.problem import Array

BLOCK = 2**20  # numbers per array that are held at once


@dataclass(frozen=True, slots=True)
class IdsChoice(OneParticle):
    """The distribution with the smallest information ratio over the draws in theta; it mixes at most two actions."""

    theta: Theta

    def probabilities(self, level: str, states: States, values: Values, allowed: Mask) -> Array:
        """Return distributions `[1, n, A]`."""
        drawn = values()
        draws, count, actions = drawn.shape
        rows = max(1, BLOCK // (actions * max(actions, draws)))
        found = np.zeros((1, count, actions))
        for start in range(0, count, rows):
            part = slice(start, start + rows)
            found[0, part] = least_ratio(*regret_and_information(drawn[:, part], allowed[part]), allowed[part])
        return found


@dataclass(frozen=True, slots=True)
class Ids:
    """Minimise (expected regret)^2 / information gain over distributions on the actions of a decision: variance-based
    information-directed sampling (Russo and Van Roy 2014, 2018; the paper's host AEGIS-IDS).

    Over `draws` posterior draws of the planned values v, with A* the best action under a draw: the regret of an action is
    `E[v_A*] - E[v_a]`, its information gain the variance of `E[v_a | A*]`, which bounds what observing v_a tells about A* from
    below. Both are of the decision at hand: values of later decisions enter through the recursion, information for later ones
    does not. A minimiser mixes at most two actions; its probabilities are exact given the draws and get logged.
    """

    draws: int = 64

    def __post_init__(self) -> None:
        check_count(self.draws, "ids: 'draws'")

    @property
    def particles(self) -> int:
        """Return 0: draws are averaged over, not played."""
        return 0

    def prepare(
        self,
        belief: Belief,
        rng: np.random.Generator,
        episode: int,
        scope: Iterable[str] | None = None,
        theta: Theta | None = None,
    ) -> IdsChoice:
        """Return the choice over draws of its own."""
        return IdsChoice(belief.draw(rng, self.draws))


def regret_and_information(values: Array, allowed: Mask) -> tuple[Array, Array]:
    """Return expected regret and information gain `[n, A]` of every action from values `[S, n, A]` of equally likely draws."""
    drawn = np.asarray(values, dtype=np.float64)
    mean = drawn.mean(axis=0)
    wins = best(closed_off(drawn, allowed)).transpose(1, 2, 0)  # [n, A*, S]: which draws each action is best under
    regret = closed_off(drawn, allowed).max(axis=-1).mean(axis=0)[:, None] - mean
    chance = wins.mean(axis=-1)
    share = np.where(chance > 0, chance, 1.0)[..., None]
    apart = (wins @ (drawn - mean).transpose(1, 0, 2)) / len(drawn) / share  # [n, A*, A]: E[v_a | A*] - E[v_a]
    # Of an allowed action the regret is a mean of numbers from 0: only rounding can make it negative.
    return np.maximum(regret, 0.0), np.sum(chance[..., None] * np.square(apart), axis=1)


def least_ratio(regret: Array, gain: Array, allowed: Mask) -> Array:
    """Return the distributions `[n, A]` on allowed actions that minimise (expected regret)^2 / expected gain.

    On two actions with probability p of the first, the ratio `(r2 + p (r1 - r2))^2 / (g2 + p (g1 - g2))` is convex in p and
    stationary at `p = r2 / (r1 - r2) - 2 g2 / (g1 - g2)`; outside (0, 1) a pure action is best. No regret counts as ratio 0,
    whatever the gain. On ties pure actions come before mixtures, and first ones before later ones.
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
