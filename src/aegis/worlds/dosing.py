"""A clinic that chooses a regimen and then doses, each any number of milligrams: actions on an interval.

    severity  S ~ N(0, 1)                                              once per course
    marker    H = 0.6 S - 0.5 regimen + 0.4 U + N_H,                   N_H ~ N(0, marker_sd), U ~ Bernoulli(confounder)
    effect    Y = 0.8 exp(-(dose - 5 - 1.5 H)^2 / (2 width^2)) + 0.1 U + 0.05 (1 + N_Y),   N_Y uniform on [-1, 1]
    benefit   R = Y - 0.02 regimen

The best dose moves with the marker and lies inside the interval; the legacy follows the marker too little. It draws its dose from
a Gaussian, cut to the interval or clipped to it (`ends`), and logs the density.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from aegis.errors import check_choice
from aegis.policies import Constant, Gaussian, Uniform
from aegis.problem import Actions, Array, Level, Problem, Propensity, Reward, Rows, Variable
from aegis.worlds.base import SMALLEST_SPREAD, LegacyOffer, Noise, NoiseLaws, World, simulated_level, with_exploration
from aegis.worlds.quadrature import gaussian_nodes, latent_chance, latent_nodes

LOW, HIGH = 0.0, 10.0
LIFT = 0.4  # what the latent U adds to the marker
LIFT_Y = 0.1  # ... and to the effect
PEAK, COST, NOISE = 0.8, 0.02, 0.05


@dataclass(frozen=True, slots=True)
class Dosing(World):
    """By default one regimen and 4 doses a course; `bandwidth` and `points` are those of the problem's interval."""

    name: ClassVar[str] = "dosing"
    noises: ClassVar[NoiseLaws] = {
        "course": {"S": "normal"},
        "dose": {"U": "uniform", "N_H": "normal", "N_Y": "uniform"},
    }

    doses: int = 4
    width: float = 1.5
    marker_sd: float = 0.5
    confounder: float = 0.5
    natural_sd: float = 2.0
    bandwidth: float = 0.6
    points: int = 21
    ends: str = "cut"
    problem: Problem = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.check_counts("doses")
        self.check_counts("points", least=2, most=1000)
        self.check_finite("bandwidth")
        self.check_spreads("marker_sd")
        self.check_finite("width", "natural_sd", low=SMALLEST_SPREAD)
        self.check_finite("confounder", low=0.0, high=1.0)
        check_choice(self.ends, ("cut", "clip"), "'ends' of world 'dosing'")
        object.__setattr__(self, "problem", self._problem())
        self.check_size([level.actions.count for level in self.problem.levels])

    @property
    def steps(self) -> tuple[int, ...]:
        """One course of 4 doses by default."""
        return 1, self.doses

    def contexts(self, level: str, known: Rows, noise: Noise) -> Rows:
        """Return severity or marker."""
        if level == "course":
            return {"severity": noise["S"]}
        return {"marker": _marker(known) + LIFT * self.latent(noise) + self.marker_sd * noise["N_H"]}

    def results(self, known: Rows, noise: Noise) -> tuple[Array, Array]:
        """Return effect and benefit."""
        effect = self._response(known) + LIFT_Y * self.latent(noise) + 2 * NOISE * noise["N_Y"]
        return effect, effect - COST * known["regimen"]

    def context_law(self, level: str, known: Rows, count: int, fineness: int) -> tuple[Rows, Array]:
        """Return nodes of severity, or of the marker with the latent U averaged out."""
        if level == "course":
            nodes, weights = gaussian_nodes(40 * fineness)
            return {"severity": np.tile(nodes, (count, 1))}, np.tile(weights, (count, 1))
        values, chances = latent_nodes(_marker(known), LIFT, self.marker_sd, self.confounder, 30 * fineness)
        return {"marker": values}, chances

    def mean_reward(self, known: Rows) -> Array:
        """Return E[R | path]."""
        chance = latent_chance(known["marker"], _marker(known), LIFT, self.marker_sd, self.confounder)
        return self._response(known) + LIFT_Y * chance + NOISE - COST * known["regimen"]

    def matters(self, level: str) -> tuple[str, ...]:
        """Severity and regimen act on the marker."""
        return () if level == "course" else ("severity", "regimen")

    def offers(self) -> Mapping[str, LegacyOffer]:
        """A uniform draw; a Gaussian around a dose that follows the marker too little; a fixed dose within a window."""
        natural = Gaussian(weights={"marker": 0.5}, sd=self.natural_sd, intercept=4.0, ends=self.ends)
        return {
            "uniform": LegacyOffer(lambda s: {"course": Uniform(), "dose": Uniform()}, {}),
            "natural": LegacyOffer(
                lambda s: {"course": Uniform(), "dose": with_exploration(natural, s["epsilon"])}, {"epsilon": 0.0}
            ),
            "constant": LegacyOffer(
                lambda s: {"course": Uniform(), "dose": with_exploration(Constant(s["value"]), s["epsilon"])},
                {"value": 4.0, "epsilon": 0.3},
            ),
        }

    def _response(self, known: Rows) -> Array:
        miss = (known["dose"] - 5.0 - 1.5 * known["marker"]) / self.width
        return np.asarray(PEAK * np.exp(-0.5 * miss * miss))

    def _problem(self) -> Problem:
        regimen = Actions.of("regimen", (0, 1, 2))
        steepest = PEAK * math.exp(-0.5) / self.width  # of a Gaussian bump, one standard deviation from its top
        dose = Actions.interval(
            "dose", LOW, HIGH, self.bandwidth, self.points, (LOW, HIGH) if self.ends == "clip" else (), steepest
        )
        density = Propensity(column="density_dose", density=True)
        return Problem(
            levels=(
                simulated_level("course", regimen, (Variable("severity"),), "course_number"),
                Level(name="dose", actions=dose, context=(Variable("marker"),), propensity=density, decision="dose_number"),
            ),
            reward=Reward("benefit", (-2 * COST, PEAK + LIFT_Y + 2 * NOISE), unit="points"),
            outcome=Variable("effect"),
            parents={"marker": ("severity", "regimen"), "effect": ("marker", "dose"), "benefit": ("regimen", "effect")},
            latents={"U": ("marker", "effect")},
        )


def _marker(known: Rows) -> Array:
    return np.asarray(0.6 * known["severity"] - 0.5 * known["regimen"])
