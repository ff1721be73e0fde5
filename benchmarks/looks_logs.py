"""Simulated logs for the comparison of looks: contexts that matter, four actions, a random legacy whose chances are known.

Everything about a world is in small tables, one row per kind of context, so that the true value of a policy is a sum over the
table: the oracle never sees a log or a weight.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.policies import capped_probabilities
from aegis.rng import stream

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
ROWS, LOOKS, SEED = 2000, 50, 1
STOPS: Ints = np.linspace(ROWS // LOOKS, ROWS, LOOKS).astype(np.int64)
ACTIONS = 4
CAP = 1.6
HARM, RARE = -0.01, 0.003


@dataclass(frozen=True, slots=True)
class World:
    """A decision problem by kinds of context.

    features `[C, 2]`: what a context looks like. chance `[C]`: how often it comes. legacy `[C, A]`. stake `[C]` and success
    `[C, A]`: the reward is the stake with this probability, else 0. candidates: `[C, A]` by name. scores: by the name of a
    candidate, of what ranks it is a mixture with which share, `[C, A]` each, if it is capped; cap: W, None if there is none.
    """

    name: str
    features: Array
    chance: Array
    legacy: Array
    stake: Array
    success: Array
    candidates: Mapping[str, Array]
    scores: Mapping[str, tuple[tuple[float, Array], ...]]
    cap: float | None

    def value(self, policy: Array) -> float:
        """Return the true mean reward of a policy `[C, A]`."""
        return float(np.einsum("c,ca,c,ca->", self.chance, policy, self.stake, self.success))

    def gain(self, candidate: str) -> float:
        """Return the true gain of a candidate over the legacy."""
        return self.value(self.candidates[candidate]) - self.value(self.legacy)

    def movement(self, candidate: str) -> float:
        """Return E|w - 1|, how far the weights are from 1."""
        return float(np.einsum("c,ca->", self.chance, np.abs(self.candidates[candidate] - self.legacy)))

    def largest(self, candidate: str) -> float:
        """Return the largest weight."""
        return float((self.candidates[candidate] / self.legacy).max())


@dataclass(frozen=True, slots=True)
class Log:
    """What was logged, in order: kind of context, action and reward, each `[n]`."""

    kind: Ints
    action: Ints
    reward: Array


def draw(world: World, run: int) -> Log:
    """Return one log of a world."""
    rng = stream(SEED, "looks", world.name, run)
    kind = rng.choice(world.chance.size, size=ROWS, p=world.chance)
    action = (rng.random(ROWS)[:, None] > np.cumsum(world.legacy, axis=1)[kind]).sum(axis=1).clip(max=ACTIONS - 1)
    reward = world.stake[kind] * (rng.random(ROWS) < world.success[kind, action])
    return Log(kind, action, reward)


def ordinary() -> World:
    """Return a world in which all methods are at home: weights to 1.6, rewards 0 or 1, a legacy that is a softmax of contexts.

    'good' is the capped policy of the true success rates. The null is a policy that takes the better actions where the second
    feature is above 0 and the worse ones elsewhere, mixed with the good one just so that it gains nothing; 'harmful' likewise,
    with a gain of -0.01.
    """
    first, second = (part.ravel() for part in np.meshgrid(np.linspace(-1, 1, 5), np.linspace(-1, 1, 4), indexing="ij"))
    features = np.stack([first, second], axis=1)
    chance = np.full(first.size, 1.0 / first.size)
    legacy = _softmax(features @ np.array([[0.15, -0.15, 0.05, -0.05], [0.05, 0.05, -0.1, 0.0]]))
    slopes = np.array([[0.2, -0.2, 0.05, -0.05], [-0.05, 0.05, 0.05, -0.05]])
    success = 0.5 + 0.15 * second[:, None] + (1.0 - 0.3 * second[:, None]) * (features @ slopes)
    twisted = np.where(second[:, None] > 0, success, -success)
    good, against = capped_probabilities(success, legacy, CAP), capped_probabilities(twisted, legacy, CAP)
    world = World("ordinary", features, chance, legacy, np.ones(first.size), success, {"good": good, "against": against}, {}, CAP)
    candidates, scores = {"good": good}, {"good": ((1.0, success),)}
    for name, gain in (("null", 0.0), ("harmful", HARM)):
        share = (gain - world.gain("against")) / (world.gain("good") - world.gain("against"))
        candidates[name] = share * good + (1 - share) * against
        scores[name] = ((share, success), (1.0 - share, twisted))
    return World(world.name, features, chance, legacy, world.stake, success, candidates, scores, CAP)


def hard() -> World:
    """Return a world that is hard for normal approximations: small gains nearly always, a large loss in rare contexts.

    Weights go to 7. In three contexts of a thousand the legacy's favourite earns 1, and the candidate does without it;
    elsewhere the candidate earns a little more. The stake there makes the true gain 0.
    """
    first, rare = (part.ravel() for part in np.meshgrid(np.linspace(-1, 1, 5), [0.0, 1.0], indexing="ij"))
    chance = np.where(rare > 0, RARE, 1.0 - RARE) / 5
    favourite = np.array([0.7, 0.1, 0.1, 0.1])
    legacy = np.tile(favourite, (first.size, 1))
    usual = np.clip(np.array([0.5, 0.9, 0.6, 0.4]) + 0.1 * first[:, None] * np.array([1, -1, 1, -1]), 0, 1)
    success = np.where(rare[:, None] > 0, np.array([0.9, 0.1, 0.1, 0.1]), usual)
    candidate = np.where(rare[:, None] > 0, np.array([0.0, 0.4, 0.3, 0.3]), np.array([0.1, 0.7, 0.1, 0.1]))
    moved = np.einsum("ca,ca->c", candidate - legacy, success) * chance
    stake = np.where(rare > 0, 1.0, -moved[rare > 0].sum() / moved[rare == 0].sum())
    return World("hard", np.stack([first, rare], axis=1), chance, legacy, stake, success, {"null": candidate}, {}, None)


def worlds() -> dict[str, World]:
    """Return the worlds by name."""
    return {world.name: world for world in (ordinary(), hard())}


def _softmax(logits: Array) -> Array:
    raised = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))
