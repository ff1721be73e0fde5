"""A stylised level made from a guess: what a study looks like before there is any data.

Actions earn evenly spaced rewards. The legacy has an action of its own, which may be anywhere in that order, and explores
uniformly; the candidate is the best one that its cap allows. The spacing is what it takes to make the gain that was guessed.
"""

from __future__ import annotations

import numpy as np

from aegis.errors import SettingError
from aegis.policies import cap
from aegis.problem import Array
from aegis.validation.planner.play import Play

ROWS = 4000
CELLS = 2**20  # rows x actions
MOST_CONTEXTS = 101  # places of the legacy's own action in the order of rewards


def guessed_play(
    actions: int,
    explore: float,
    limit: float,
    gain: float,
    spread: float,
    typical: float,
    decisions: int,
    rng: np.random.Generator,
) -> Play | None:
    """Return the study of a guess, scaled; None if no rewards in [0, 1] make that gain at this exploration rate and cap.

    gain, spread, typical: scaled. typical: what the legacy earns; it is moved inwards where the range would be left. decisions:
    of the level in one unit; they share the legacy's own action, so that they tell less than as many units would.
    """
    if actions < 2:
        raise SettingError(f"a level has two actions or more, found {actions}")
    scores = np.linspace(-0.5, 0.5, actions)
    own = np.unique(np.linspace(0, actions - 1, min(actions, MOST_CONTEXTS)).round().astype(np.int64))
    logging = np.full((own.size, actions), explore / actions)
    logging[np.arange(own.size), own] += 1.0 - explore
    candidate = cap(np.tile(scores, (own.size, 1)), logging, limit)
    spacing = gain / float(((candidate - logging) @ scores).mean())
    if spacing > 1.0:
        return None
    units = max(own.size, -(-min(ROWS, CELLS // actions) // decisions))
    context = np.repeat(np.arange(units) % own.size, decisions)
    mean = np.tile(min(max(typical, spacing / 2), 1 - spacing / 2) + spacing * scores, (context.size, 1))
    residual = spread * rng.standard_normal(context.size)

    def pool(values: Array) -> Array:
        return np.asarray(values.reshape(units, decisions, -1).mean(axis=1))

    return Play(logging[context], candidate[context], mean, mean, residual, 1.0 - 1.0 / limit, pool)
