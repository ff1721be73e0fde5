"""The linear world with a clipped reward (the paper's App. Environment Parameters).

T uniform on {1, 2, 3},  U ~ Bernoulli(confounder)
C = 0.8 M + 0.2 U + N_C,  Y = 0.5 A + 0.4 C + 0.15 U + N_Y
R = clip(0.3 Y + 0.08 C + 0.1 M + 0.05 T + 0.02 A + 0.1 U + N_R, 0, 1)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from aegis.policies import Constant, Natural, Uniform
from aegis.problem import Actions, Array, Problem, Reward, Rows, Variable
from aegis.worlds.base import LegacyOffer, Noise, NoiseLaws, World, simulated_level, with_exploration
from aegis.worlds.quadrature import clipped_mean, latent_chance, latent_nodes

TASKS = (1.0, 2.0, 3.0)
LIFT_C, LIFT_Y, LIFT_R = 0.2, 0.15, 0.1  # what the latent U adds to C, Y and R


@dataclass(frozen=True, slots=True)
class LinearWorld(World):
    """The linear world: machine setting M in 1..5 once per episode, action A in 1..10 at every step."""

    name: ClassVar[str] = "linear"
    noises: ClassVar[NoiseLaws] = {
        "meta": {"T": "uniform"},
        "inner": {"U": "uniform", "N_C": "normal", "N_Y": "normal", "N_R": "normal"},
    }

    outer_steps: int = 1
    inner_steps: int = 20
    context_sd: float = 0.3
    outcome_sd: float = 0.2
    reward_sd: float = 0.15
    natural_sd: float = 0.5
    confounder: float = 0.3
    problem: Problem = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.check_counts("outer_steps", "inner_steps")
        self.check_spreads("context_sd", "outcome_sd", "reward_sd", "natural_sd")
        self.check_finite("confounder", low=0.0, high=1.0)
        object.__setattr__(self, "problem", _problem())
        self.check_size([level.actions.count for level in self.problem.levels])

    @property
    def steps(self) -> tuple[int, ...]:
        """One machine setting per episode and 20 actions by default."""
        return self.outer_steps, self.inner_steps

    def contexts(self, level: str, known: Rows, noise: Noise) -> Rows:
        """Return T at the outer level, C at the inner one."""
        if level == "meta":
            return {"T": np.asarray(TASKS)[(noise["T"] * len(TASKS)).astype(np.int64)]}
        return {"C": 0.8 * known["M"] + LIFT_C * self.latent(noise) + self.context_sd * noise["N_C"]}

    def results(self, known: Rows, noise: Noise) -> tuple[Array, Array]:
        """Return Y and the clipped R."""
        latent = self.latent(noise)
        outcome = 0.5 * known["A"] + 0.4 * known["C"] + LIFT_Y * latent + self.outcome_sd * noise["N_Y"]
        raw = 0.3 * outcome + _direct(known) + LIFT_R * latent + self.reward_sd * noise["N_R"]
        return outcome, np.clip(raw, 0.0, 1.0)

    def context_law(self, level: str, known: Rows, count: int, fineness: int) -> tuple[Rows, Array]:
        """Return the three tasks, or nodes of C with the latent U averaged out."""
        if level == "meta":
            return {"T": np.tile(TASKS, (count, 1))}, np.full((count, len(TASKS)), 1 / len(TASKS))
        values, chances = latent_nodes(0.8 * known["M"], LIFT_C, self.context_sd, self.confounder, 200 * fineness)
        return {"C": values}, chances

    def mean_reward(self, known: Rows) -> Array:
        """Return E[R | T, M, C, A]: the clipped Gaussian in closed form, averaged over U given C."""
        chance = latent_chance(known["C"], 0.8 * known["M"], LIFT_C, self.context_sd, self.confounder)
        spread = math.hypot(0.3 * self.outcome_sd, self.reward_sd)
        centre = 0.3 * (0.5 * known["A"] + 0.4 * known["C"]) + _direct(known)
        without = clipped_mean(centre, spread, 0.0, 1.0)
        with_latent = clipped_mean(centre + 0.3 * LIFT_Y + LIFT_R, spread, 0.0, 1.0)
        return (1 - chance) * without + chance * with_latent

    def matters(self, level: str) -> tuple[str, ...]:
        """Task and setting enter the reward."""
        return () if level == "meta" else ("T", "M")

    def offers(self) -> Mapping[str, LegacyOffer]:
        """The paper's natural controller M = 0.6 T + 1 + noise with uniform A, uniform choice, and a constant A."""
        natural = Natural({"T": 0.6}, self.natural_sd, 1.0)
        return {
            "uniform": LegacyOffer(lambda s: {"meta": Uniform(), "inner": Uniform()}, {}),
            "natural": LegacyOffer(
                lambda s: {"meta": with_exploration(natural, s["epsilon"]), "inner": Uniform()}, {"epsilon": 0.0}
            ),
            "constant": LegacyOffer(
                lambda s: {"meta": Uniform(), "inner": with_exploration(Constant(s["value"]), s["epsilon"])},
                {"value": 3.0, "epsilon": 0.2},
            ),
        }


def _direct(known: Rows) -> Array:
    """Return what enters the reward past the outcome."""
    return np.asarray(0.08 * known["C"] + 0.1 * known["M"] + 0.05 * known["T"] + 0.02 * known["A"])


def _problem() -> Problem:
    setting, action = Actions.of("M", tuple(range(1, 6))), Actions.of("A", tuple(range(1, 11)))
    return Problem(
        levels=(
            simulated_level("meta", setting, (Variable("T"),), "meta_step"),
            simulated_level("inner", action, (Variable("C"),), "inner_step"),
        ),
        reward=Reward("R", (0.0, 1.0)),
        outcome=Variable("Y"),
        parents={"C": ("M",), "Y": ("A", "C"), "R": ("Y", "C", "M", "T", "A")},
        latents={"U": ("C", "Y", "R")},
    )
