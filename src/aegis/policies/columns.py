"""A target policy known only through columns of the log: the probability it gives to the action taken."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError, nearest
from aegis.policies.state import State
from aegis.policies.support import refuse_undecided, table_of
from aegis.problem import AnyArray, Array, Batch, Problem


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
        column = self._column(level)
        values = self._values(column, batch)
        if values.size and not (values.min() >= 0 and values.max() <= 1):  # a nan is neither
            row = int(np.argmax(~((values >= 0) & (values <= 1))))
            raise PolicyError(f"{self._at(column, row, batch)}: {values[row]} is not a probability; expected a number in [0, 1]")
        if level == self.problem.innermost.name:
            return values[None]
        owner = _owners(batch, level)
        first = np.concatenate([np.zeros(min(1, owner.size), dtype=np.int64), np.flatnonzero(owner[1:] != owner[:-1]) + 1])
        if first.size != len(table_of(batch, level)):
            childless = np.bincount(owner, minlength=len(table_of(batch, level))) == 0
            raise PolicyError(
                f"column '{column}': decision {int(np.argmax(childless))} of level '{level}' has no innermost row to read it from"
            )
        found = values[first]
        # Equal to the first row everywhere is equal to the row before everywhere.
        if bool(((values[1:] != values[:-1]) & (owner[1:] == owner[:-1])).any()):
            row = int(np.argmax(values != found[owner]))
            raise PolicyError(
                f"{self._at(column, row, batch)}: {values[row]}, but {found[owner[row]]} on the first row of the same decision "
                f"of level '{level}'; repeat one value on all rows below a decision"
            )
        return found[None]

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

    def _values(self, column: str, batch: Batch) -> Array:
        """Return a column `[n]` as numbers, one per innermost decision."""
        innermost = table_of(batch, self.problem.innermost.name)
        if column not in batch.extra:
            held = ", ".join(batch.extra) or "none"
            raise PolicyError(
                f"the batch does not hold the target column '{column}'{nearest(column, batch.extra)}; columns read: {held}"
            )
        given: AnyArray = batch.extra[column]
        if given.shape != (len(innermost),):
            raise PolicyError(f"column '{column}': {list(given.shape)} values for {len(innermost)} innermost decisions")
        try:
            return given.astype(np.float64, copy=False)
        except (TypeError, ValueError) as error:
            raise PolicyError(f"column '{column}': target probabilities are numbers; {error}") from error

    def _at(self, column: str, row: int, batch: Batch) -> str:
        return f"{batch.where(row)}, column '{column}'"


def _owners(batch: Batch, level: str) -> AnyArray:
    """Return the decision of an outer level `[n]` above each innermost decision."""
    names = list(batch.levels)
    owner: AnyArray = batch.levels[names[-1]].parent
    for name in names[-2 : names.index(level) : -1]:
        owner = batch.levels[name].parent[owner]
    return owner
