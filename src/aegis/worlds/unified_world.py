"""The paper's unified world (App. Experimental Setup), and the additive one (its reference handover).

A slow lever M sets the law of the fast context Q:

    T ~ N(task_mean, task_sd)
    U ~ Bernoulli(confounder)
    Q = gamma ((1 - eta) 1.5 M + eta 2 tanh(2 M)) + 0.3 U + ((1 - nu) + nu (1 + 0.4 gamma |M|)) N_Q,  N_Q ~ N(0, sigma_q)
    Y = (1 - q) A Q + q (4 - (A - 0.5 Q)^2) + 0.3 U + N_Y,                                          N_Y ~ N(0, outcome_sd)
    R = Y + N_R,                                                                                    N_R ~ N(0, reward_sd)

All second arguments are standard deviations. M and A lie on even grids on [-2, 2]. In the additive world
Y = f_a A + 0.5 Q + 0.3 U + N_Y. Its Q is linear in M by default, so that linear mechanisms are correctly specified; with eta = 1
and sigma_q = 3 it has the context of the stress preset.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from aegis.errors import check_choice
from aegis.policies import Constant, LevelRule, Natural, Sign, Uniform
from aegis.problem import Actions, Array, Problem, Reward, Rows, Variable
from aegis.worlds.base import MOST_ACTIONS, LegacyOffer, Noise, NoiseLaws, Rules, World, simulated_level, with_exploration
from aegis.worlds.quadrature import gaussian_nodes, latent_chance, latent_nodes

LIFT = 0.3  # what the latent U adds to Q and to Y
REACH = 2.0  # actions lie in [-REACH, REACH]

GRAPHS: dict[str, dict[str, tuple[str, ...]]] = {
    "true": {"Q": ("M",), "Y": ("A", "Q"), "R": ("Y",)},
    "paper": {"Q": ("T", "M"), "Y": ("A", "Q"), "R": ("Y", "Q", "M", "T", "A")},
    "complete": {},
    # Wrong on purpose: T for M, M for Q, or both; and T for M in the paper's graph.
    "permuted": {"Q": ("T",), "Y": ("A", "M"), "R": ("Y",)},
    "permuted context": {"Q": ("T",), "Y": ("A", "Q"), "R": ("Y",)},
    "paper, permuted": {"Q": ("T",), "Y": ("A", "Q"), "R": ("Y", "Q", "M", "T", "A")},
    "permuted outcome": {"Q": ("M",), "Y": ("A", "M"), "R": ("Y",)},
}
PRESETS: dict[str, dict[str, float]] = {
    "stress": {},
    "quadratic": {"q": 1.0},
    "linear": {"eta": 0.0},
    "heteroscedastic": {"nu": 1.0},
}
SHIFTS: dict[str, dict[str, float]] = {"T": {"task_mean": 2.0}, "N_Q": {"sigma_q": 6.0}, "U": {"confounder": 0.9}}


@dataclass(frozen=True, slots=True)
class Unified(World):
    """The unified world; the defaults are the stress preset.

    gamma: strength of the lever M -> Q. eta: share of the saturating mechanism. nu: share of noise that grows with |M|.
    sigma_q: spread of the fast context. q: share of the quadratic outcome, whose best action is A = Q / 2. natural_sd: spread
    of the natural M around 0.8 T. confounder: P(U = 1). graph: which graph the problem declares.
    """

    name: ClassVar[str] = "unified"
    presets: ClassVar[Mapping[str, Mapping[str, float]]] = PRESETS
    shifts: ClassVar[Mapping[str, Mapping[str, float]]] = SHIFTS
    noises: ClassVar[NoiseLaws] = {
        "meta": {"T": "normal"},
        "inner": {"U": "uniform", "N_Q": "normal", "N_Y": "normal", "N_R": "normal"},
    }

    gamma: float = 1.0
    eta: float = 1.0
    nu: float = 0.0
    sigma_q: float = 3.0
    q: float = 0.0
    outer_steps: int = 1
    inner_steps: int = 20
    outer_points: int = 7
    inner_points: int = 41
    task_mean: float = 0.0
    task_sd: float = 0.3
    natural_sd: float = 0.2
    confounder: float = 0.5
    outcome_sd: float = 0.08
    reward_sd: float = 0.5
    graph: str = "true"
    problem: Problem = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.check_finite("gamma", "task_mean")
        self.check_finite("eta", "q", "nu", "confounder", low=0.0, high=1.0)
        self.check_spreads("sigma_q", "task_sd", "natural_sd", "outcome_sd", "reward_sd")
        self.check_counts("outer_steps", "inner_steps")
        self.check_counts("outer_points", "inner_points", least=2, most=MOST_ACTIONS)
        self.check_size((self.outer_points, self.inner_points))
        check_choice(self.graph, GRAPHS, f"graph of world '{self.name}'")
        object.__setattr__(self, "problem", self._problem())

    @property
    def steps(self) -> tuple[int, ...]:
        """One meta step per episode and 20 inner steps by default."""
        return self.outer_steps, self.inner_steps

    # ---- the equations ---------------------------------------------------------------------------------------------

    def contexts(self, level: str, known: Rows, noise: Noise) -> Rows:
        """Return T at the meta level, Q at the inner one."""
        if level == "meta":
            return {"T": self.task_mean + self.task_sd * noise["T"]}
        return {"Q": self.centre(known["M"]) + LIFT * self.latent(noise) + self.spread(known["M"]) * noise["N_Q"]}

    def results(self, known: Rows, noise: Noise) -> tuple[Array, Array]:
        """Return Y and R."""
        outcome = self.effect(known["A"], known["Q"]) + LIFT * self.latent(noise) + self.outcome_sd * noise["N_Y"]
        return outcome, outcome + self.reward_sd * noise["N_R"]

    def effect(self, action: Array, context: Array) -> Array:
        """Return what A and Q add to Y."""
        return (1 - self.q) * action * context + self.q * (4 - (action - 0.5 * context) ** 2)

    def centre(self, lever: Array) -> Array:
        """Return what M adds to Q."""
        return self.gamma * ((1 - self.eta) * 1.5 * lever + self.eta * 2 * np.tanh(2 * lever))

    def spread(self, lever: Array) -> Array:
        """Return the standard deviation of Q given M and U. A negative gamma could turn its sign, hence the modulus."""
        return np.abs((1 - self.nu) + self.nu * (1 + 0.4 * self.gamma * np.abs(lever))) * self.sigma_q

    # ---- the true laws ---------------------------------------------------------------------------------------------

    def context_law(self, level: str, known: Rows, count: int, fineness: int) -> tuple[Rows, Array]:
        """Return nodes of T, or of Q with the latent U averaged out."""
        if level == "meta":
            # Legacies that look at the sign of T jump at 0.
            nodes, weights = gaussian_nodes(100 * fineness, -self.task_mean / self.task_sd if self.task_sd > 0 else 0.0)
            return {"T": np.tile(self.task_mean + self.task_sd * nodes, (count, 1))}, np.tile(weights, (count, 1))
        values, chances = latent_nodes(self.centre(known["M"]), LIFT, self.spread(known["M"]), self.confounder, 320 * fineness)
        return {"Q": values}, chances

    def mean_reward(self, known: Rows) -> Array:
        """Return E[R | M, Q, A]."""
        return self.effect(known["A"], known["Q"]) + LIFT * self.latent_given(known)

    def latent_given(self, known: Rows) -> Array:
        """Return P(U = 1 | M, Q). It adds the same to every action: the best A depends on Q alone."""
        return latent_chance(known["Q"], self.centre(known["M"]), LIFT, self.spread(known["M"]), self.confounder)

    def matters(self, level: str) -> tuple[str, ...]:
        """The task T enters no equation: it acts through the legacies alone."""
        return () if level == "meta" else ("M",)

    # ---- the problem and its legacies ------------------------------------------------------------------------------

    def offers(self) -> Mapping[str, LegacyOffer]:
        """The paper's natural controller, uniform choice, and three one-sided controllers of A."""
        natural = Natural({"T": 0.8}, self.natural_sd)

        def levels(meta: LevelRule, inner: LevelRule, epsilon: float = 0.0, both: bool = False) -> Rules:
            return {"meta": with_exploration(meta, epsilon if both else 0.0), "inner": with_exploration(inner, epsilon)}

        return {
            "uniform": LegacyOffer(lambda s: levels(Uniform(), Uniform()), {}),
            "natural": LegacyOffer(lambda s: levels(natural, Natural({}, 0.1), s["epsilon"], both=True), {"epsilon": 0.0}),
            "lever": LegacyOffer(lambda s: levels(natural, Uniform(), s["epsilon"], both=True), {"epsilon": 0.0}),
            "sign": LegacyOffer(lambda s: levels(Uniform(), Sign("T", REACH), s["epsilon"]), {"epsilon": 0.3}),
            "constant": LegacyOffer(
                lambda s: levels(Uniform(), Constant(s["value"]), s["epsilon"]), {"value": 1.6, "epsilon": 0.2}
            ),
            "deterministic": LegacyOffer(lambda s: levels(natural, Sign("T", REACH)), {}),
        }

    def _problem(self) -> Problem:
        lever = Actions.grid("M", -REACH, REACH, self.outer_points)
        action = Actions.grid("A", -REACH, REACH, self.inner_points)
        return Problem(
            levels=(
                simulated_level("meta", lever, (Variable("T"),), "meta_step"),
                simulated_level("inner", action, (Variable("Q"),), "inner_step"),
            ),
            reward=Reward("R", self._range()),
            outcome=Variable("Y"),
            parents=GRAPHS[self.graph],
            latents={"U": ("Q", "Y")},
        )

    def _range(self) -> tuple[float, float]:
        """Return limits that the reward leaves less often than once in a million decisions, in steps of 5.

        Five standard deviations of every noise at once, at the worst actions.
        """
        lever = np.array([0.0, REACH])
        context = float(np.abs(self.centre(lever)).max() + LIFT + 5 * self.spread(lever).max())
        noise = LIFT + 5 * (self.outcome_sd + self.reward_sd)
        bilinear = (1 - self.q) * REACH * context
        low = -bilinear + self.q * (4 - (REACH + 0.5 * context) ** 2) - noise
        high = bilinear + self.q * 4 + noise
        return 5.0 * math.floor(low / 5), 5.0 * math.ceil(high / 5)


@dataclass(frozen=True, slots=True)
class Additive(Unified):
    """The additive world: `f_a` is the effect of A; the other parameters are those of the unified world.

    The defaults are eta = 0 and sigma_q = 1; with eta = 1 and sigma_q = 3, Q has the law of the stress preset.
    """

    name: ClassVar[str] = "additive"
    presets: ClassVar[Mapping[str, Mapping[str, float]]] = {}

    eta: float = 0.0
    q: float = field(init=False, default=0.0)
    sigma_q: float = 1.0
    inner_points: int = 11
    f_a: float = 2.0

    def __post_init__(self) -> None:
        self.check_finite("f_a")
        Unified.__post_init__(self)

    def effect(self, action: Array, context: Array) -> Array:
        """Return what A and Q add to Y."""
        return self.f_a * action + 0.5 * context

    def _range(self) -> tuple[float, float]:
        """Return limits that the reward leaves less often than once in a million decisions, in steps of 5 from (-10, 10).

        Here the noises add up to one Gaussian, so that five of its standard deviations do, at the worst actions.
        """
        lever = np.array([0.0, REACH])
        centre = abs(self.f_a) * REACH + 0.5 * float(np.abs(self.centre(lever)).max()) + 1.5 * LIFT
        spread = math.hypot(0.5 * float(self.spread(lever).max()), self.outcome_sd, self.reward_sd)
        limit = max(10.0, 5.0 * math.ceil((centre + 5 * spread) / 5))
        return -limit, limit
