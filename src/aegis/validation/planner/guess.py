"""A stylised level made from a guess: what a study looks like before there is any data.

Actions earn evenly spaced rewards. The legacy has an action of its own, somewhere in that order, and explores uniformly; the
candidate is the best one that its cap allows. How far the rewards lie apart, and where the legacy's own action is, follow from
the guess: how much better the best action is than the legacy's own, and how much worse a random one.
"""

from __future__ import annotations

import numpy as np

from aegis.policies import cap
from aegis.problem import AnyArray, Array
from aegis.validation.planner.play import Play

ROWS = 4000
CELLS = 2**20  # rows x actions
MOST_CONTEXTS = 101  # places of the legacy's own action in the order of rewards


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

    gain: of the best action over the legacy's own, on average. loss: of a random action against it. typical: what the legacy's
    own action earns; it is moved where rewards would leave the range. decisions: of the level in one unit; they share the
    legacy's own action, so that they tell less than as many units would.
    """
    apart = spacing(gain, loss)
    scores = np.linspace(-0.5, 0.5, actions)
    own = _own(actions, loss / apart)
    logging = np.full((own.size, actions), explore / actions)
    logging[np.arange(own.size), own] += 1.0 - explore
    candidate = cap(np.tile(scores, (own.size, 1)), logging, limit)
    units = max(own.size, -(-min(ROWS, CELLS // actions) // decisions))
    context = np.repeat(np.arange(units) % own.size, decisions)
    middle = min(max(typical - loss, apart / 2), 1 - apart / 2)
    mean = np.tile(middle + apart * scores, (context.size, 1))
    residual = spread * rng.standard_normal(context.size)

    def pool(values: Array) -> Array:
        return np.asarray(values.reshape(units, decisions, -1).mean(axis=1))

    return Play(logging[context], candidate[context], mean, mean, residual, 1.0 - 1.0 / limit, pool)


def _own(actions: int, place: float) -> AnyArray:
    """Return the actions that may be the legacy's own, with equal chances: those evenly around a place in [-0.5, 0.5]."""
    around = 0.5 - abs(place)
    first, last = (place - around + 0.5) * (actions - 1), (place + around + 0.5) * (actions - 1)
    return np.unique(np.linspace(first, last, min(actions, MOST_CONTEXTS)).round().astype(np.int64))
