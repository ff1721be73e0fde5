"""A stylised level made from a guess: what a study looks like before there is any data.

Actions earn evenly spaced rewards. The legacy has an action of its own, somewhere in that order, and explores uniformly; the
candidate is the best one that its cap allows, and is compared with the legacy's own action. How far the rewards lie apart, and
where the legacy's own action is, follow from the guess: how much better the best action is than the legacy's own, and how much
worse a random one.
"""

from __future__ import annotations

import numpy as np

from aegis.certificate.comparator import capped_variation
from aegis.policies import cap
from aegis.problem import Array
from aegis.validation.planner.play import Play

ROWS = 4000
CELLS = 2**20  # rows x actions
LEAST_UNITS = 200
STEEPEST = 1e4  # beyond it the legacy's own action is the best one, or the worst
HALVINGS = 60


def spacing(gain: float, loss: float) -> float:
    """Return how far apart the best and the worst action are: a random one lies half of that below the best."""
    return 2.0 * (gain + loss)


def guessed_play(
    actions: int,
    explore: float,
    limit: float,
    gain: float,
    loss: float,
    spread: float,
    typical: float,
    decisions: int,
    rng: np.random.Generator,
) -> Play:
    """Return the study of a guess; everything is scaled to rewards in [0, 1], and spacing(gain, loss) is at most 1.

    gain: of the best action over the legacy's own, on average. loss: of a random action against it, below 0 if that earns more.
    typical: what the legacy's own action earns; it is moved where rewards would leave the range. decisions: of the level in one
    unit; they share the legacy's own action, so that they tell less than as many units would.
    """
    apart = spacing(gain, loss)
    scores = np.linspace(-0.5, 0.5, actions)
    units = max(LEAST_UNITS, -(-min(ROWS, CELLS // actions) // decisions))
    places = np.searchsorted(np.cumsum(own_chances(scores, loss / apart)), (np.arange(units) + 0.5) / units)
    own = np.repeat(np.minimum(places, actions - 1), decisions)
    logging = np.full((own.size, actions), explore / actions)
    logging[np.arange(own.size), own] += 1.0 - explore
    candidate = cap(np.tile(scores, (own.size, 1)), logging, limit)
    middle = min(max(typical - loss, apart / 2), 1 - apart / 2)
    mean = np.tile(middle + apart * scores, (own.size, 1))
    residual = spread * rng.standard_normal(own.size)

    def pool(values: Array) -> Array:
        return np.asarray(values.reshape(units, decisions, -1).mean(axis=1))

    incumbent = (np.arange(actions) == own[:, None]).astype(np.float64)
    return Play(logging, candidate, mean, mean, residual, capped_variation(limit, explore), pool, incumbent)


def own_chances(scores: Array, place: float) -> Array:
    """Return with which chances `[A]` each action is the legacy's own: any of them, tilted until their mean score is `place`."""
    low, high = -STEEPEST, STEEPEST
    for _ in range(HALVINGS):
        tilt = 0.5 * (low + high)
        if _tilted(scores, tilt) @ scores < place:
            low = tilt
        else:
            high = tilt
    return _tilted(scores, low)


def _tilted(scores: Array, tilt: float) -> Array:
    powers = tilt * scores
    weights = np.exp(powers - powers.max())
    return np.asarray(weights / weights.sum())
