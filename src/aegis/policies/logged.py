"""The behaviour policy as the log recorded it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError
from aegis.policies.smoothed import refuse_undecided
from aegis.policies.state import State
from aegis.policies.support import table_of
from aegis.problem import Array, Batch, Problem


@dataclass(frozen=True, slots=True)
class Logged:
    """The propensities in the batch; one particle. A propensity missing from the log stays nan.

    It cannot act: on a batch under construction nothing has been recorded, and PolicyError says so.
    """

    kind: ClassVar[str] = "logged"
    problem: Problem

    @property
    def weights(self) -> Array:
        """Return `[1]`."""
        return np.ones(1)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        table = table_of(batch, level)
        refuse_undecided(level, table)
        return table.mu_taken[None]

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`; PolicyError if only the taken action's propensity was recorded."""
        recorded = table_of(batch, level).mu_full
        if recorded is None:
            raise PolicyError(
                f"level '{level}': the batch does not hold the probabilities of all actions; log one column per action "
                "(propensity: columns), or describe the controller as a known policy"
            )
        return recorded[None]

    def state(self) -> State:
        """Return the kind alone: everything else is in the batch."""
        return State(self.kind)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Logged:
        """Build the policy from its state."""
        return cls(problem)
