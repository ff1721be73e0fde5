"""The order of decisions in an episode: depth first, an outer decision before its subtree, siblings in row order."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from aegis.problem import AnyArray, Array, Batch


def positions(batch: Batch) -> dict[str, AnyArray]:
    """Return for each level the depth-first position `[n]` of its decisions among all decisions of the batch."""
    above = {name: batch.ancestors(name) for name in batch.levels}
    found: dict[str, AnyArray] = {}
    for name, table in batch.levels.items():
        rows = np.arange(len(table))
        place = rows.copy()
        for other in batch.levels:
            if other == name:
                continue
            if other in above[name]:  # an outer level: its decisions up to and including the one above
                place += above[name][other] + 1
            else:  # an inner level: its decisions below earlier siblings
                place += np.searchsorted(above[other][name], rows, side="left")
        found[name] = place
    return found


def sums_before(batch: Batch, values: Mapping[str, Array]) -> dict[str, Array]:
    """Return for every decision the sum `[S, n]` of `values` `[S, n]` over the earlier decisions of its episode, by level.

    Each episode is added up on its own, so that the result does not depend on which other episodes are in the batch.
    -inf is allowed and absorbs what comes later in the episode.
    """
    places = positions(batch)
    particles = next(iter(values.values())).shape[0]
    episodes = np.arange(len(batch))
    starts = np.zeros(len(batch), dtype=np.int64)
    lengths = np.zeros(len(batch), dtype=np.int64)
    for name in batch.levels:
        owner = batch.episode_of(name)
        starts += np.searchsorted(owner, episodes, side="left")
        lengths += np.bincount(owner, minlength=len(batch))
    total = int(lengths.sum())
    flat = np.zeros((particles, total))
    for name, place in places.items():
        flat[:, place] = values[name]
    before = np.zeros((particles, total))
    # Episodes of similar length are padded to one width (a power of two), which costs at most twice the memory.
    widths = 2 ** np.frexp(lengths - 1.0)[1]
    for width in np.unique(widths[lengths > 1]):
        chosen = (widths == width) & (lengths > 1)
        steps = np.arange(width)
        index = starts[chosen, None] + steps
        inside = steps < lengths[chosen, None]
        padded = np.where(inside, flat[:, np.minimum(index, total - 1)], 0.0)
        running = np.cumsum(padded, axis=2)
        later = inside[:, 1:]
        before[:, index[:, 1:][later]] = running[:, :, :-1][:, later]
    return {name: before[:, place] for name, place in places.items()}
