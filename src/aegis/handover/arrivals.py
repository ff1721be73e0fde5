"""What a plant sends back is looked at before anything is believed: whole episodes, in order, with probabilities that can be.

Whether they are the probabilities of whoever was asked to act is looked at, too: a plant that goes on with another version of a
policy logs something else, and nothing that follows would be about the policies that are tested.
"""

from __future__ import annotations

import numpy as np

from aegis.errors import PolicyError, RefusedError
from aegis.handover.hosts.proposal import check_chances
from aegis.handover.particle_units import logged_chances
from aegis.policies import path_full
from aegis.problem import Array, Batch, Policy, Problem

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
    logged_chances(level, batch)
    full = batch.levels[level].mu_full
    if full is None:
        raise RefusedError(f"level '{level}': the gate needs the probabilities of all actions, and the plant logs none")
    check_chances(full, f"level '{level}', as the plant logs it")


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
