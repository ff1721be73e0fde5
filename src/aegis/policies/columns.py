"""A target policy known only through columns of the log: the probability it gives to the action taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError, nearest
from aegis.policies.column_values import column_values
from aegis.policies.smoothed import refuse_undecided
from aegis.policies.state import State
from aegis.policies.support import table_of
from aegis.problem import Array, Batch, Problem


@dataclass(frozen=True, slots=True)
class TargetColumns:
    """Target probabilities of the taken actions, one column per level name, found in `Batch.extra`; one particle.

    A level without a column cannot be asked. An outer level's column is repeated on the rows below each decision and must
    agree there.
    """

    kind: ClassVar[str] = "columns"
    problem: Problem
    columns: Mapping[str, str]

    def __post_init__(self) -> None:
        names = self.problem.names
        for name in self.columns:
            if name not in names:
                raise PolicyError(f"target columns: there is no level '{name}'{nearest(name, names)}; levels: {', '.join(names)}")
        if not self.columns:
            raise PolicyError(f"target columns: name a column for at least one level of {', '.join(names)}")
        for role in self.problem.roles:
            if role.kind != "propensity" and role.column in self.columns.values():  # a legacy's own probabilities may be a target
                raise PolicyError(
                    f"target columns: '{role.column}' is {role.words}; a target column holds the probability that the candidate "
                    "gives to the action taken, fixed without looking at rewards: log it under a name of its own"
                )
        object.__setattr__(self, "columns", {name: self.columns[name] for name in names if name in self.columns})

    @property
    def weights(self) -> Array:
        """Return `[1]`."""
        return np.ones(1)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`; PolicyError names column and row of what is missing, outside [0, 1] or contradictory."""
        refuse_undecided(level, table_of(batch, level))
        density = self.problem.level(level).actions.continuous
        return column_values(self.problem, level, self._column(level), batch, density)[None]

    def full(self, level: str, batch: Batch) -> Array:
        """Raise PolicyError: a column holds one probability per decision."""
        raise PolicyError(
            f"level '{level}': a target column holds the probability of the action taken only, but the whole distribution over "
            "the actions is needed here (doubly robust terms, caps, acting); give the policy as module:object or as a folder"
        )

    def state(self) -> State:
        """Return the columns."""
        return State(self.kind, {"columns": dict(self.columns)})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> TargetColumns:
        """Build the policy from its state."""
        return cls(problem, state.setting("columns"))

    def _column(self, level: str) -> str:
        if level not in self.columns:
            raise PolicyError(f"level '{level}' has no target column; levels with one: {', '.join(self.columns)}")
        return self.columns[level]
