"""A clinic: a treatment plan per patient, then one to six doses; vectors, categories, masks and ragged episodes.

patient  (severity, frailty): standard normal, correlation 0.5;  ward: general, surgical or day
plan     conservative, standard or intensive, of strength k = 0, 0.6, 1.2; no intensive plan in the day ward
doses    1 + floor(stay x SPAN[plan, ward]) of them, stay uniform on [0, 1)
response low, medium or high, with probabilities LAW[plan, ward];  U ~ Bernoulli(confounder)
level    0.8 severity - k + SHIFT[response] + 0.4 U + N_L,  N_L ~ N(0, level_sd)
dose     0, 5, 10 or 20 (d = dose / 10); no 20 after a high response
recovery 0.8 - 0.15 (level - 0.9 d)^2 - 0.1 d^2 - 0.12 k (1 + frailty) + 0.1 U + N_Y,  N_Y ~ N(0, recovery_sd)
reward   recovery clipped to [0, 1]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from aegis.policies import Constant, Natural, Nearest, Softmax, Uniform
from aegis.problem import Actions, Array, Bools, Ints, Problem, Reward, Rows, Variable
from aegis.worlds.base import LegacyOffer, Noise, NoiseLaws, World, simulated_level, with_exploration
from aegis.worlds.quadrature import clipped_mean, gaussian_nodes, latent_chance, latent_nodes

WARDS = ("general", "surgical", "day")
PLANS = ("conservative", "standard", "intensive")
RESPONSES = ("low", "medium", "high")
STRENGTH = np.array([0.0, 0.6, 1.2])  # by plan
WARD_LAW = np.array([0.5, 0.3, 0.2])
SHIFT = np.array([0.4, 0.0, -0.4])  # of the level, by response
SPAN = np.array([[6, 5, 2], [5, 4, 2], [4, 3, 2]])  # by plan and ward
LAW = np.array(  # of the response, by plan and ward
    [
        [[0.5, 0.4, 0.1], [0.5, 0.3, 0.2], [0.6, 0.3, 0.1]],
        [[0.3, 0.5, 0.2], [0.3, 0.4, 0.3], [0.4, 0.4, 0.2]],
        [[0.2, 0.4, 0.4], [0.1, 0.4, 0.5], [0.3, 0.4, 0.3]],
    ]
)
CORRELATION = 0.5
LIFT_LEVEL, LIFT_RECOVERY = 0.4, 0.1  # what the latent U adds
LONGEST = 6


@dataclass(frozen=True, slots=True)
class Clinic(World):
    """The clinic: one plan per episode and a number of doses that depends on plan and ward."""

    name: ClassVar[str] = "clinic"
    noises: ClassVar[NoiseLaws] = {
        "plan": {"severity": "normal", "frailty": "normal", "ward": "uniform", "stay": "uniform"},
        "dose": {"response": "uniform", "U": "uniform", "N_L": "normal", "N_Y": "normal"},
    }

    level_sd: float = 0.5
    recovery_sd: float = 0.1
    confounder: float = 0.4
    problem: Problem = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.check_spreads("level_sd", "recovery_sd")
        self.check_finite("confounder", low=0.0, high=1.0)
        object.__setattr__(self, "problem", _problem())

    @property
    def steps(self) -> tuple[int, ...]:
        """One plan and at most six doses."""
        return 1, LONGEST

    # ---- the equations ---------------------------------------------------------------------------------------------

    def contexts(self, level: str, known: Rows, noise: Noise) -> Rows:
        """Return patient and ward, or response and level."""
        if level == "plan":
            return {"patient": _patient(noise["severity"], noise["frailty"]), "ward": _category(WARD_LAW, noise["ward"])}
        response = _category(LAW[known["plan"], known["ward"]], noise["response"])
        centre = _level({**known, "response": response})
        return {"response": response, "level": centre + LIFT_LEVEL * self.latent(noise) + self.level_sd * noise["N_L"]}

    def results(self, known: Rows, noise: Noise) -> tuple[Array, Array]:
        """Return recovery and the clipped reward."""
        recovery = _recovery(known) + LIFT_RECOVERY * self.latent(noise) + self.recovery_sd * noise["N_Y"]
        return recovery, np.clip(recovery, 0.0, 1.0)

    def children(self, level: str, known: Rows, noise: Noise) -> Ints | None:
        """Return the number of doses: longer stays under mild plans, short ones in the day ward."""
        return (1 + np.floor(noise["stay"] * SPAN[known["plan"], known["ward"]])).astype(np.int32)

    def available(self, level: str, known: Rows) -> Bools | None:
        """No intensive plan in the day ward; no top dose after a high response."""
        if level == "plan":
            return ~((np.arange(len(PLANS)) == PLANS.index("intensive")) & (known["ward"] == WARDS.index("day"))[:, None])
        return ~((np.arange(4) == 3) & (known["response"] == RESPONSES.index("high"))[:, None])

    # ---- the true laws ---------------------------------------------------------------------------------------------

    def context_law(self, level: str, known: Rows, count: int, fineness: int) -> tuple[Rows, Array]:
        """Return nodes of patient and ward, or of response and level with the latent U averaged out."""
        if level == "plan":
            nodes, weights = gaussian_nodes(24 * fineness)
            first, second, ward = (np.ravel(part) for part in np.indices((nodes.size, nodes.size, len(WARDS))))
            mass = np.einsum("i,j,k->ijk", weights, weights, WARD_LAW).ravel()
            patients = np.tile(_patient(nodes[first], nodes[second]), (count, 1, 1))
            return {"patient": patients, "ward": np.tile(ward.astype(np.int32), (count, 1))}, np.tile(mass, (count, 1))
        levels, masses, responses = [], [], []
        for response in range(len(RESPONSES)):
            centre = _level({**known, "response": np.full(count, response)})
            values, chances = latent_nodes(centre, LIFT_LEVEL, self.level_sd, self.confounder, 20 * fineness)
            levels.append(values)
            masses.append(chances * LAW[known["plan"], known["ward"], response][:, None])
            responses.append(np.full(values.shape, response, dtype=np.int32))
        return {"response": np.hstack(responses), "level": np.hstack(levels)}, np.hstack(masses)

    def mean_reward(self, known: Rows) -> Array:
        """Return E[R | path]: the clipped Gaussian in closed form, averaged over U given the level."""
        chance = latent_chance(known["level"], _level(known), LIFT_LEVEL, self.level_sd, self.confounder)
        centre = _recovery(known)
        without = clipped_mean(centre, self.recovery_sd, 0.0, 1.0)
        with_latent = clipped_mean(centre + LIFT_RECOVERY, self.recovery_sd, 0.0, 1.0)
        return (1 - chance) * without + chance * with_latent

    def matters(self, level: str) -> tuple[str, ...]:
        """Everything about the plan enters below it."""
        return () if level == "plan" else ("patient", "ward", "plan")

    def offers(self) -> Mapping[str, LegacyOffer]:
        """Uniform choice; local rules that ignore the patient; soft preferences; fixed rules without noise."""
        habit = Softmax((0.2, 1.0, -0.3))
        return {
            "uniform": LegacyOffer(lambda s: {"plan": Uniform(), "dose": Uniform()}, {}),
            "natural": LegacyOffer(
                lambda s: {
                    "plan": with_exploration(habit, s["epsilon"]),
                    "dose": with_exploration(Natural({"level": 3.0}, 4.0, 6.0), s["epsilon"]),
                },
                {"epsilon": 0.0},
            ),
            "softmax": LegacyOffer(
                lambda s: {
                    "plan": Softmax(habit.intercepts, {}, s["temperature"]),
                    "dose": Softmax((0.0, 0.3, 0.2, -0.4), {"level": (-0.8, -0.2, 0.4, 0.8)}, s["temperature"]),
                },
                {"temperature": 1.0},
            ),
            "deterministic": LegacyOffer(lambda s: {"plan": Constant("standard"), "dose": Nearest({"level": 3.0}, 6.0)}, {}),
        }


def _problem() -> Problem:
    plan, dose = Actions.of("plan", PLANS), Actions.of("dose", (0, 5, 10, 20))
    patient = Variable("patient", "vector", ("severity", "frailty"))
    ward, response = Variable("ward", "categorical", values=WARDS), Variable("response", "categorical", values=RESPONSES)
    return Problem(
        levels=(
            simulated_level("plan", plan, (patient, ward), "plan_id", masked=True),
            simulated_level("dose", dose, (response, Variable("level")), "dose_id", masked=True),
        ),
        reward=Reward("reward", (0.0, 1.0)),
        outcome=Variable("recovery"),
        parents={
            "response": ("ward", "plan"),
            "level": ("patient", "plan", "response"),
            "recovery": ("patient", "plan", "level", "dose"),
            "reward": ("recovery",),
        },
        latents={"U": ("level", "recovery")},
    )


def _patient(first: Array, second: Array) -> Array:
    """Return `[n, 2]`: severity and frailty from two independent standard normals."""
    return np.stack([first, CORRELATION * first + np.sqrt(1 - CORRELATION**2) * second], axis=-1)


def _category(law: Array, uniform: Array) -> Ints:
    """Return codes `[n]` by inverse cdf from probabilities `[k]` or `[n, k]`; the last bound is 1 despite rounding."""
    return (np.cumsum(law, axis=-1)[..., :-1] <= uniform[:, None]).sum(axis=1).astype(np.int32)


def _level(known: Rows) -> Array:
    return np.asarray(0.8 * known["patient"][:, 0] - STRENGTH[known["plan"]] + SHIFT[known["response"]])


def _recovery(known: Rows) -> Array:
    dose = known["dose"] / 10
    strain = 0.12 * STRENGTH[known["plan"]] * (1 + known["patient"][:, 1])
    return np.asarray(0.8 - 0.15 * (known["level"] - 0.9 * dose) ** 2 - 0.1 * dose**2 - strain)
