"""Planning of many decisions: equal ones once, the others in blocks that fit into memory."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from aegis.mechanisms import StackedDraw, Theta
from aegis.mechanisms.regression import RegressionDraw
from aegis.planning.recursion import Recursion
from aegis.planning.states import States
from aegis.problem import Array

BLOCK = 2**25  # features of hypothetical decisions, times particles, that are held in memory at once
DISTINCT_FROM = 64  # decisions from which equal ones are looked for


def values_in_blocks(recursion: Recursion, level: str, states: States, block: int = BLOCK) -> Array:
    """Return `recursion.values`, `[S, n, A]`, with at most about `block` features in memory."""
    # Innermost decisions unfold into nothing: planning them costs no more than comparing them.
    if states.count >= DISTINCT_FROM and recursion.problem.child(level) is not None:
        some, places = distinct(states)
        if some.count < states.count:
            return values_in_blocks(recursion, level, some, block)[:, places]
    rows = max(1, block // (recursion.size(level) * recursion.theta.count * most_features(recursion.theta)))
    parts = [recursion.values(level, states.part(i, i + rows)) for i in range(0, max(1, states.count), rows)]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)


def distinct(states: States) -> tuple[States, npt.NDArray[np.int64]]:
    """Return the states that differ from each other, in order of first appearance, and which of them each state is, `[n]`.

    States on which particles disagree are taken as they are.
    """
    columns = [*states.rows.values(), *states.index.values()]
    if not columns or any(len(column) > 1 for column in columns):
        return states, np.arange(states.count)
    numbers = [column[0].reshape(states.count, -1).astype(np.float64) for column in columns]
    table = np.concatenate(numbers, axis=1) + 0.0  # makes -0 the same as 0
    _, first, places = np.unique(table, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(order.size)
    kept = first[order]
    rows = {name: values[:, kept] for name, values in states.rows.items()}
    index = {name: values[:, kept] for name, values in states.index.items()}
    return States(rows, index, kept.size), rank[places.reshape(-1)]


def most_features(theta: Theta) -> int:
    """Return the largest number of features of a drawn regression; a table has one."""
    regressions = [drawn for drawn in theta.functions.values() if isinstance(drawn, RegressionDraw | StackedDraw)]
    weights = [drawn.drawn.weights if isinstance(drawn, RegressionDraw) else drawn.weights for drawn in regressions]
    return max((found.shape[1] for found in weights), default=1)
