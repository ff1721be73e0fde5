"""A floor: the legacy keeps a small share of the decisions, so that what it would have earned can still be measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from aegis.policies.mixture import path_full, path_taken
from aegis.policies.state import State, storable
from aegis.policies.support import number
from aegis.problem import Array, Batch, Policy, Problem, Scope


@dataclass(frozen=True, slots=True, init=False)
class Floored:
    """`new` with probability 1 - share, the legacy with probability `share`, drawn for each decision, at `levels` (all if None).

    Elsewhere `new` acts alone. Particles are those of `new`; of a legacy that is a mixture its path form counts. The gain over
    the legacy is that of `new` times 1 - share, and no weight of a later candidate exceeds its own over the legacy
    divided by `share`.
    """

    kind: ClassVar[str] = "floored"
    problem: Problem
    new: Policy
    legacy: Policy
    share: float
    levels: Scope

    def __init__(self, problem: Problem, new: Policy, legacy: Policy, share: float, levels: Iterable[str] | None = None) -> None:
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "new", new)
        object.__setattr__(self, "legacy", legacy)
        object.__setattr__(self, "share", number(share, "floor: 'share'", low=0.0, high=1.0))
        object.__setattr__(self, "levels", problem.scope(levels))

    @property
    def weights(self) -> Array:
        """Return `[S]`."""
        return self.new.weights

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`."""
        found = self.new.full(level, batch)
        if level not in self.levels or self.share == 0.0:
            return found
        return (1.0 - self.share) * found + self.share * path_full(self.legacy, level, batch)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        found = self.new.taken(level, batch)
        if level not in self.levels or self.share == 0.0:
            return found
        return (1.0 - self.share) * found + self.share * path_taken(self.legacy, level, batch)

    def state(self) -> State:
        """Return share and levels, with both policies as members."""
        members = {"new": storable(self.new, "the new policy"), "legacy": storable(self.legacy, "the legacy")}
        return State(self.kind, {"share": self.share, "levels": sorted(self.levels)}, members=members)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Floored:
        """Build the policy from its state."""
        return cls(problem, state.policy("new"), state.policy("legacy"), float(state.setting("share")), state.setting("levels"))
