"""A new policy at some levels, the legacy at the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aegis.policies.smoothed import drawn
from aegis.policies.state import State, storable
from aegis.problem import Array, Batch, Policy, Problem, Scope


@dataclass(frozen=True, slots=True, init=False)
class Hybrid:
    """The hybrid of the paper: `new` acts at levels in `scope`, `legacy` elsewhere.

    Both draw their particles independently, so the particles are all pairs, legacy fastest:
    `S = S_new * S_legacy`, weights multiply.
    """

    kind: ClassVar[str] = "hybrid"
    problem: Problem
    scope: Scope
    new: Policy
    legacy: Policy

    def __init__(self, problem: Problem, scope: Iterable[str], new: Policy, legacy: Policy) -> None:
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "scope", problem.scope(scope))
        object.__setattr__(self, "new", new)
        object.__setattr__(self, "legacy", legacy)

    @property
    def windowed(self) -> frozenset[str]:
        """Return the levels at which it acts, on an interval, in windows around the numbers it chooses."""
        return frozenset(self.scope) & frozenset(getattr(self.new, "windowed", ()))

    @property
    def weights(self) -> Array:
        """Return `[S]`."""
        return np.outer(self.new.weights, self.legacy.weights).ravel()

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        return self._paired(level, self._acting(level).taken(level, batch))

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`."""
        return self._paired(level, self._acting(level).full(level, batch))

    def drawn(self, level: str, batch: Batch, uniform: Array) -> Array:
        """Return the number `[S, n]` taken from an interval for uniform numbers `[n]`."""
        return self._paired(level, drawn(self._acting(level), self.problem.level(level), batch, uniform))

    def state(self) -> State:
        """Return the scope and both policies."""
        members = {"new": storable(self.new, "the new policy"), "legacy": storable(self.legacy, "the legacy")}
        return State(self.kind, {"scope": sorted(self.scope)}, members=members)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Hybrid:
        """Build the policy from its state."""
        return cls(problem, state.setting("scope"), state.policy("new"), state.policy("legacy"))

    def _acting(self, level: str) -> Policy:
        self.problem.level(level)
        return self.new if level in self.scope else self.legacy

    def _paired(self, level: str, values: Array) -> Array:
        """Return one policy's values `[S', ...]` for every pair of particles, `[S, ...]`."""
        if level in self.scope:
            return np.repeat(values, self.legacy.weights.size, axis=0)
        copies = (self.new.weights.size,) + (1,) * (values.ndim - 1)
        return np.tile(values, copies)
