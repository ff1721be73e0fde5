"""A chemical plant with three timescales: raw-material blend, temperature programme, dose.

    quality   W ~ N(0, 1)                                             once per batch
    viscosity V = 0.9 W + 1.2 blend + N_V,                            N_V ~ N(0, viscosity_sd)
    acidity   H = 0.7 V - 0.8 temperature + 0.4 U + N_H,              N_H ~ N(0, acidity_sd), U ~ Bernoulli(confounder)
    yield     Y = 6 exp(-loss / 4) + 0.4 U + N_Y,                     N_Y uniform on [-yield_noise, yield_noise]
              loss = 0.5 V^2 + 0.8 (temperature - 0.6 V)^2 + 1.2 (dose - 0.8 H)^2
    profit    R = Y - 0.3 (1 + blend)

Every action shifts the context of the next faster level. Every optimum is inside the range and moves with the context, so no
constant setting is best at any level.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from aegis.policies import Natural, Nearest, Uniform
from aegis.problem import Actions, Array, Problem, Reward, Rows, Variable
from aegis.worlds.base import LegacyOffer, Noise, NoiseLaws, World, simulated_level, with_exploration
from aegis.worlds.quadrature import gaussian_nodes, latent_chance, latent_nodes

LIFT = 0.4  # what the latent U adds to acidity and to yield
PEAK = 6.0  # the yield when every setting is right
FOLLOWS = {"batch": {"quality": -0.3}, "recipe": {"viscosity": 0.2}, "dose": {"acidity": 0.3}}  # the legacy reacts too little


@dataclass(frozen=True, slots=True)
class ChemicalPlant(World):
    """The three-level plant: by default 2 batches x 3 recipe steps x 5 doses per episode."""

    name: ClassVar[str] = "plant"
    noises: ClassVar[NoiseLaws] = {
        "batch": {"W": "normal"},
        "recipe": {"N_V": "normal"},
        "dose": {"U": "uniform", "N_H": "normal", "N_Y": "uniform"},
    }

    batches: int = 2
    recipe_steps: int = 3
    doses: int = 5
    viscosity_sd: float = 0.4
    acidity_sd: float = 0.4
    yield_noise: float = 0.5
    confounder: float = 0.5
    natural_sd: float = 0.5
    problem: Problem = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.check_counts("batches", "recipe_steps", "doses")
        self.check_spreads("viscosity_sd", "acidity_sd", "yield_noise", "natural_sd")
        self.check_finite("confounder", low=0.0, high=1.0)
        object.__setattr__(self, "problem", self._problem())
        self.check_size([level.actions.count for level in self.problem.levels])

    @property
    def steps(self) -> tuple[int, ...]:
        """2 x 3 x 5 by default."""
        return self.batches, self.recipe_steps, self.doses

    # ---- the equations ---------------------------------------------------------------------------------------------

    def contexts(self, level: str, known: Rows, noise: Noise) -> Rows:
        """Return quality, viscosity or acidity."""
        if level == "batch":
            return {"quality": noise["W"]}
        if level == "recipe":
            return {"viscosity": _viscosity(known) + self.viscosity_sd * noise["N_V"]}
        return {"acidity": _acidity(known) + LIFT * self.latent(noise) + self.acidity_sd * noise["N_H"]}

    def results(self, known: Rows, noise: Noise) -> tuple[Array, Array]:
        """Return yield and profit."""
        outcome = _yield(known) + LIFT * self.latent(noise) + self.yield_noise * (2 * noise["N_Y"] - 1)
        return outcome, outcome - _cost(known)

    # ---- the true laws ---------------------------------------------------------------------------------------------

    def context_law(self, level: str, known: Rows, count: int, fineness: int) -> tuple[Rows, Array]:
        """Return nodes; kinks of inner optima are averaged over outer contexts, so that the inner levels need fewer."""
        if level == "batch":
            nodes, weights = gaussian_nodes(80 * fineness)
            return {"quality": np.tile(nodes, (count, 1))}, np.tile(weights, (count, 1))
        if level == "recipe":
            nodes, weights = gaussian_nodes(16 * fineness)
            return {"viscosity": _viscosity(known)[:, None] + self.viscosity_sd * nodes}, np.tile(weights, (count, 1))
        values, chances = latent_nodes(_acidity(known), LIFT, self.acidity_sd, self.confounder, 14 * fineness)
        return {"acidity": values}, chances

    def mean_reward(self, known: Rows) -> Array:
        """Return E[R | path]. U adds the same to every dose: the best dose depends on acidity alone."""
        chance = latent_chance(known["acidity"], _acidity(known), LIFT, self.acidity_sd, self.confounder)
        return _yield(known) + LIFT * chance - _cost(known)

    def matters(self, level: str) -> tuple[str, ...]:
        """The quality of the material acts through viscosity, the blend also through its price."""
        return {"batch": (), "recipe": ("quality", "blend"), "dose": ("blend", "viscosity", "temperature")}[level]

    # ---- the problem and its legacies ------------------------------------------------------------------------------

    def offers(self) -> Mapping[str, LegacyOffer]:
        """Uniform choice; a controller that leans the right way, too little and with noise; the same without noise."""
        return {
            "uniform": LegacyOffer(lambda s: {name: Uniform() for name in FOLLOWS}, {}),
            "natural": LegacyOffer(
                lambda s: {
                    name: with_exploration(Natural(weights, self.natural_sd), s["epsilon"]) for name, weights in FOLLOWS.items()
                },
                {"epsilon": 0.0},
            ),
            "deterministic": LegacyOffer(lambda s: {name: Nearest(weights) for name, weights in FOLLOWS.items()}, {}),
        }

    def _problem(self) -> Problem:
        # The loss is not negative and the yield noise is bounded, so that these limits always hold.
        limits = (-self.yield_noise - 0.6, PEAK + LIFT + self.yield_noise)
        return Problem(
            levels=(
                simulated_level("batch", Actions.grid("blend", -1.0, 1.0, 5), (Variable("quality"),), "batch_run"),
                simulated_level("recipe", Actions.grid("temperature", -1.5, 1.5, 6), (Variable("viscosity"),), "recipe_run"),
                simulated_level("dose", Actions.grid("dose", -1.5, 1.5, 7), (Variable("acidity"),), "dose_run"),
            ),
            reward=Reward("profit", limits, unit="EUR/kg"),
            outcome=Variable("yield"),
            parents={
                "viscosity": ("quality", "blend"),
                "acidity": ("viscosity", "temperature"),
                "yield": ("viscosity", "temperature", "acidity", "dose"),
                "profit": ("blend", "yield"),
            },
            latents={"U": ("acidity", "yield")},
        )


def _viscosity(known: Rows) -> Array:
    return np.asarray(0.9 * known["quality"] + 1.2 * known["blend"])


def _acidity(known: Rows) -> Array:
    return np.asarray(0.7 * known["viscosity"] - 0.8 * known["temperature"])


def _yield(known: Rows) -> Array:
    viscosity, temperature = known["viscosity"], known["temperature"]
    miss = 0.5 * viscosity**2 + 0.8 * (temperature - 0.6 * viscosity) ** 2
    return np.asarray(PEAK * np.exp(-(miss + 1.2 * (known["dose"] - 0.8 * known["acidity"]) ** 2) / 4))


def _cost(known: Rows) -> Array:
    return np.asarray(0.3 * (1 + known["blend"]))
