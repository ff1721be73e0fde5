"""The additive world (the paper's reference handover): like the unified one, with a linear lever and a linear outcome.

Y = f_a A + 0.5 Q + 0.3 U + N_Y and Q linear in M, so that linear mechanisms are correctly specified.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Literal

import numpy as np

from aegis.problem import Array, Problem, Reward, Rows
from aegis.worlds.base import LegacyOffer, Noise, World, check_finite
from aegis.worlds.unified_world import LIFT, REACH, SHIFTS, Unified, check_shared


@dataclass(frozen=True, slots=True)
class Additive(World):
    """The additive world: `f_a` is the effect of A; the other parameters are those of the unified world it is built on."""

    name: ClassVar[str] = "additive"
    shifts: ClassVar[Mapping[str, Mapping[str, float]]] = SHIFTS
    noises: ClassVar[Mapping[str, Mapping[str, Literal["normal", "uniform"]]]] = Unified.noises

    f_a: float = 2.0
    gamma: float = 1.0
    nu: float = 0.0
    sigma_q: float = 1.0
    outer_steps: int = 1
    inner_steps: int = 20
    outer_points: int = 7
    inner_points: int = 11
    task_mean: float = 0.0
    task_sd: float = 0.3
    natural_sd: float = 0.2
    confounder: float = 0.5
    outcome_sd: float = 0.08
    reward_sd: float = 0.5
    graph: str = "true"
    mean_range: bool = False
    core: Unified = field(init=False, repr=False, compare=False)
    problem: Problem = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_finite(self, ("f_a",))
        check_shared(self)
        shared = {part.name: getattr(self, part.name) for part in fields(self) if part.init and part.name != "f_a"}
        object.__setattr__(self, "core", Unified(eta=0.0, **shared))
        object.__setattr__(self, "problem", self._problem())

    @property
    def steps(self) -> tuple[int, ...]:
        """One meta step per episode and 20 inner steps by default."""
        return self.core.steps

    def contexts(self, level: str, known: Rows, noise: Noise) -> Rows:
        """Return T or Q, as in the unified world."""
        return self.core.contexts(level, known, noise)

    def results(self, known: Rows, noise: Noise) -> tuple[Array, Array]:
        """Return Y and R."""
        outcome = self.effect(known["A"], known["Q"]) + LIFT * self.latent(noise) + self.outcome_sd * noise["N_Y"]
        return outcome, outcome + self.reward_sd * noise["N_R"]

    def effect(self, action: Array, context: Array) -> Array:
        """Return what A and Q add to Y."""
        return self.f_a * action + 0.5 * context

    def context_law(self, level: str, known: Rows, count: int, fineness: int) -> tuple[Rows, Array]:
        """Return nodes of T or Q, as in the unified world."""
        return self.core.context_law(level, known, count, fineness)

    def mean_reward(self, known: Rows) -> Array:
        """Return E[R | M, Q, A]."""
        return self.effect(known["A"], known["Q"]) + LIFT * self.core.latent_given(known)

    def matters(self, level: str) -> tuple[str, ...]:
        """The task T enters no equation."""
        return self.core.matters(level)

    def offers(self) -> Mapping[str, LegacyOffer]:
        """The legacies of the unified world."""
        return self.core.offers()

    def _problem(self) -> Problem:
        limits, problem = self._range(), self.core.problem
        means = self.core.mean_limits(self.effect, limits) if self.mean_range else None
        levels = (replace(problem.levels[0], mean_range=means), *problem.levels[1:])
        return replace(problem, reward=Reward("R", limits), levels=levels)

    def _range(self) -> tuple[float, float]:
        """Return limits that the reward leaves less often than once in a million decisions, in steps of 5 from (-10, 10).

        Here the noises add up to one Gaussian, so that five of its standard deviations do, at the worst actions.
        """
        lever = np.array([0.0, REACH])
        centre = abs(self.f_a) * REACH + 0.5 * float(np.abs(self.core.centre(lever)).max()) + 1.5 * LIFT
        spread = math.hypot(0.5 * float(self.core.spread(lever).max()), self.outcome_sd, self.reward_sd)
        limit = max(10.0, 5.0 * math.ceil((centre + 5 * spread) / 5))
        return -limit, limit
