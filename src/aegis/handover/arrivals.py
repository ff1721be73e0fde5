"""What a plant sends back is looked at before anything is believed: whole episodes, in order, with probabilities that can be.

Whether they are the probabilities of whoever was asked to act is looked at, too: a plant that goes on with another version of a
policy logs something else, and nothing that follows would be about the policies that are tested.
"""

from __future__ import annotations

import numpy as np

from aegis.errors import PolicyError, RefusedError
from aegis.policies import path_full
from aegis.problem import Array, Batch, Policy, Problem

SUM_TOLERANCE = 1e-6
SAME = 1e-6  # by how much a logged probability may differ from that of whoever was asked to act


def check_batch(problem: Problem, batch: Batch, first: int, count: int) -> None:
    """Raise PolicyError or RefusedError unless a batch holds the episodes asked for, from `first`, with sound probabilities."""
    if len(batch) != count:
        raise PolicyError(f"the plant was asked for {count} episodes after the first {first} and sent {len(batch)}")
    if np.issubdtype(batch.episode.dtype, np.integer) and not np.array_equal(batch.episode, np.arange(first, first + count)):
        place = int(np.argmax(batch.episode != np.arange(first, first + count)))
        raise PolicyError(
            f"the plant was asked for episode {first + place} and sent {batch.episode[place]}: episodes are counted in the order "
            "in which they start"
        )
    for name in problem.names:
        _check_chances(batch, name)


def _check_chances(batch: Batch, level: str) -> None:
    table = batch.levels[level]
    wrong = ~((table.mu_taken > 0) & (table.mu_taken <= 1.0 + SUM_TOLERANCE))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise RefusedError(
            f"level '{level}', row {row}: the action taken has the logged probability {table.mu_taken[row]}, which cannot be"
        )
    full = table.mu_full
    if full is None:
        raise RefusedError(f"level '{level}': the gate needs the probabilities of all actions, and the plant logs none")
    sums = np.abs(full.sum(axis=1) - 1.0) <= SUM_TOLERANCE
    sound = np.isfinite(full).all(axis=1) & (full >= 0).all(axis=1) & sums
    if not sound.all():
        row = int(np.argmin(sound))
        raise RefusedError(f"level '{level}', row {row}: the logged probabilities {full[row].tolist()} are not a distribution")


def acted_otherwise(policy: Policy, batch: Batch) -> str | None:
    """Return how logged probabilities differ from those of whoever was asked to act; None if they do not.

    Mixtures are left out: their probabilities depend on the form in which they are logged.
    """
    if policy.weights.size > 1:
        return None
    for level, table in batch.levels.items():
        if table.mu_full is None:
            continue
        asked: Array = path_full(policy, level, batch)
        off = np.abs(asked - table.mu_full).max(axis=1) > SAME
        if off.any():
            row = int(np.argmax(off))
            return (
                f"level '{level}', row {row}: the plant logs the probabilities {np.round(table.mu_full[row], 6).tolist()}, "
                f"whoever is in control has {np.round(asked[row], 6).tolist()}: another version of the policy acts"
            )
    return None
