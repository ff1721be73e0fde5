"""What a simulated plant is made of: problem, noise, equations, true laws, and legacy controllers by name.

Checks of parameters name the parameter, the value and the allowed range.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from aegis.errors import SettingError, check_choice, did_you_mean, finite_number, whole_number
from aegis.policies import Epsilon, Legacy, LevelRule
from aegis.problem import Actions, Array, Batch, Bools, Ints, Level, Policy, Problem, Propensity, Rows, Variable
from aegis.worlds.simulation import episode_of_each, simulate

LARGEST = 1e6  # of a parameter's modulus: beyond it squares and exponentials of the equations lose all meaning

SMALLEST_SPREAD = 1e-6  # of a standard deviation that is not 0: below it likelihood ratios overflow

MOST_DECISIONS = 10**5  # innermost ones per episode: the noise of 64 episodes is drawn at once

MOST_ACTIONS = 10**4

MOST_PROBABILITIES = 10**7  # decisions x actions of one episode at one level


def full_propensity(actions: Actions) -> Propensity:
    """Return a propensity with one column per action: a simulated log knows the whole distribution."""
    return Propensity(columns=_columns("p", actions))


def simulated_level(name: str, actions: Actions, context: tuple[Variable, ...], decision: str, masked: bool = False) -> Level:
    """Return a level whose log knows the whole distribution; masked: and which actions were available."""
    available = _columns("can", actions) if masked else ()
    propensity = full_propensity(actions)
    return Level(name=name, actions=actions, context=context, propensity=propensity, decision=decision, available=available)


def _columns(prefix: str, actions: Actions) -> tuple[str, ...]:
    # Labels name themselves; numbers are counted, because a grid's values make long and fragile names.
    tags = range(actions.count) if actions.numeric else actions.values
    return tuple(f"{prefix}_{actions.column}_{tag}" for tag in tags)


Rules = dict[str, LevelRule]


@dataclass(frozen=True, slots=True)
class LegacyOffer:
    """A legacy that a world has: `rules` builds one rule per level from settings, whose defaults are given."""

    rules: Callable[[Mapping[str, float]], Rules]
    defaults: Mapping[str, float]


def with_exploration(rule: LevelRule, epsilon: float) -> LevelRule:
    """Return the rule with a uniform choice mixed in at rate `epsilon`; the rule itself at rate 0."""
    return Epsilon(rule, epsilon) if epsilon > 0 else rule


def build_legacy(world: str, problem: Problem, offers: Mapping[str, LegacyOffer], spec: str) -> Policy:
    """Parse `NAME` or `NAME:KEY=NUMBER,...` and return the legacy; raise SettingError with what the world offers."""
    name, settings = parse_legacy(spec)
    if name not in offers:
        raise SettingError(
            f"world '{world}' has no legacy '{name}'{did_you_mean(name, offers)}; choose one that it offers: "
            f"{describe_offers(offers)}"
        )
    offer = offers[name]
    for key in settings:
        if key not in offer.defaults:
            raise SettingError(
                f"legacy '{name}' of world '{world}' has no setting '{key}'{did_you_mean(key, offer.defaults)}; "
                f"the world offers: {describe_offers(offers)}"
            )
        finite_number(f"legacy '{spec}': '{key}'", settings[key], -LARGEST, LARGEST)
    merged = {**offer.defaults, **settings}
    finite_number(f"legacy '{spec}': the exploration rate 'epsilon'", merged.get("epsilon", 0.0), 0.0, 1.0)
    return Legacy(problem, offer.rules(merged))


def parse_legacy(spec: str) -> tuple[str, dict[str, float]]:
    """Return name and settings of a legacy written as `NAME` or `NAME:KEY=NUMBER,KEY=NUMBER`."""
    name, colon, rest = spec.partition(":")
    settings: dict[str, float] = {}
    if not name.strip() or (colon and not rest.strip()):
        raise SettingError(f"a legacy is written NAME or NAME:KEY=NUMBER,...; found '{spec}'")
    for part in rest.split(",") if rest else []:
        key, _, text = (piece.strip() for piece in part.partition("="))
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not key or not math.isfinite(value):
            raise SettingError(f"legacy '{spec}': expected KEY=NUMBER with a finite number; found '{part}'")
        if key in settings:
            raise SettingError(f"legacy '{spec}': the setting '{key}' is given twice")
        settings[key] = value
    return name.strip(), settings


def describe_offers(offers: Mapping[str, LegacyOffer]) -> str:
    """Return the legacies of a world with their default settings, in one line."""
    words = []
    for name, offer in offers.items():
        settings = ",".join(f"{key}={value:g}" for key, value in offer.defaults.items())
        words.append(f"{name}:{settings}" if settings else name)
    return ", ".join(words)


Noise = Mapping[str, Array]

NoiseLaws = Mapping[str, Mapping[str, Literal["normal", "uniform"]]]  # by level and name of a noise


class World(ABC):
    """A plant given by equations; a subclass is a frozen dataclass whose fields are its parameters.

    The equations are pure functions of what is known and of noise that is drawn elsewhere, so that every policy meets the
    same noise. `known` holds one row per decision: contexts and actions of all levels so far, numeric actions as numbers
    and labels as codes (as in `aegis.problem.augmented_context`).
    """

    __slots__ = ()

    name: ClassVar[str]
    presets: ClassVar[Mapping[str, Mapping[str, float]]] = {}  # parameters that go together, by name
    shifts: ClassVar[Mapping[str, Mapping[str, float]]] = {}  # what changes under a distribution shift, by name
    noises: ClassVar[NoiseLaws]

    confounder: float  # P(U = 1), of a world with a latent U

    @property
    @abstractmethod
    def problem(self) -> Problem:
        """The problem the world poses, with its graph and its latent variables."""

    @property
    @abstractmethod
    def steps(self) -> tuple[int, ...]:
        """The largest number of decisions below one parent, outermost level first."""

    # ---- checks of parameters --------------------------------------------------------------------------------------

    def check_finite(self, *names: str, low: float = -LARGEST, high: float = LARGEST) -> None:
        """Require numbers of a size that can be computed with."""
        for name in names:
            finite_number(f"world '{self.name}': '{name}'", getattr(self, name), low, high)

    def check_spreads(self, *names: str) -> None:
        """Require standard deviations: not negative, and neither vanishing nor enormous."""
        self.check_finite(*names, low=0.0)
        for name in names:
            value = getattr(self, name)
            if 0 < value < SMALLEST_SPREAD:
                raise SettingError(f"world '{self.name}': '{name}' is 0, or a number from {SMALLEST_SPREAD:g}; found {value!r}")

    def check_counts(self, *names: str, least: int = 1, most: int = MOST_DECISIONS) -> None:
        """Require whole numbers from `least` to `most`."""
        for name in names:
            whole_number(f"world '{self.name}': '{name}'", getattr(self, name), least, most)

    def check_size(self, actions: Iterable[int]) -> None:
        """Require an episode that fits into memory, from the numbers of actions of each level, outermost first."""
        rows, words = 1, " x ".join(map(str, self.steps))
        for number, choices in zip(self.steps, actions, strict=True):
            rows *= number
            if rows > MOST_DECISIONS or rows * choices > MOST_PROBABILITIES:
                raise SettingError(
                    f"world '{self.name}': {words} decisions with {choices} actions in one episode; at most {MOST_DECISIONS} "
                    f"decisions and {MOST_PROBABILITIES} probabilities are allowed: use fewer steps or a coarser grid, and "
                    "simulate more episodes"
                )

    # ---- the equations ---------------------------------------------------------------------------------------------

    @abstractmethod
    def contexts(self, level: str, known: Rows, noise: Noise) -> Rows:
        """Return the contexts of `n` decisions at `level` given what is above them and the level's noise `[n]`."""

    @abstractmethod
    def results(self, known: Rows, noise: Noise) -> tuple[Array, Array]:
        """Return outcome `[n]` and reward `[n]` of innermost decisions."""

    def children(self, level: str, known: Rows, noise: Noise) -> Ints | None:
        """Return how many decisions of `level` follow each decision above it, `[n]`, from that decision's noise.

        None means the largest number, always.
        """
        return None

    def available(self, level: str, known: Rows) -> Bools | None:
        """Return which actions are available, `[n, A]`, or None for all."""
        return None

    def latent(self, noise: Noise) -> Array:
        """Return the latent U `[n]`, which is 1 with probability `confounder`."""
        return (noise["U"] < self.confounder).astype(np.float64)

    # ---- the true laws, for the oracle -----------------------------------------------------------------------------

    @abstractmethod
    def context_law(self, level: str, known: Rows, count: int, fineness: int) -> tuple[Rows, Array]:
        """Return k quadrature nodes of the law of the contexts at `level` for each of `count` rows above it.

        Contexts come as `[n, k]` or `[n, k, d]`, with weights `[n, k]` that sum to one. `known` holds what `matters` names;
        k is the same for every row, and `fineness` multiplies the number of nodes.
        """

    @abstractmethod
    def mean_reward(self, known: Rows) -> Array:
        """Return E[R | everything observed, innermost action] `[n]`: latent variables are averaged out, exactly."""

    @abstractmethod
    def matters(self, level: str) -> tuple[str, ...]:
        """Return the variables of outer levels that enter some equation at or below `level`."""

    # ---- acting ----------------------------------------------------------------------------------------------------

    @abstractmethod
    def offers(self) -> Mapping[str, LegacyOffer]:
        """Return the legacy controllers this world has, by name."""

    def legacy(self, spec: str) -> Policy:
        """Return a legacy controller from words such as `natural`, `sign:epsilon=0.3` or `constant:value=1.6,epsilon=0.2`."""
        return build_legacy(self.name, self.problem, self.offers(), spec)

    def episodes(
        self, first: int, count: int, policy: Policy, seed: int, propensities: Literal["path", "sequential"] = "path"
    ) -> Batch:
        """Run episodes `first .. first + count - 1` under `policy`; see `aegis.worlds.simulation`."""
        return simulate(self, first, count, policy, seed, propensities)

    def episode_of_each(self, episode: int, policy: Policy, seeds: Sequence[int]) -> Batch:
        """Run one episode for each seed at once; the g-th of the batch is `episodes(episode, 1, policy, seeds[g])`."""
        return episode_of_each(self, episode, policy, seeds)


def named_parameters(kind: str, name: str, world: str, table: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    """Return the parameters that a world's preset or shift sets; raise SettingError if the world does not have it."""
    if not table:
        raise SettingError(f"world '{world}' has no {kind}s, found '{name}'; set its parameters one by one")
    check_choice(name, table, f"{kind} of world '{world}'")
    return table[name]
