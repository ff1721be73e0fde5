"""What a simulated plant is made of: its problem, its noise, its equations, and the true laws behind them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt

from aegis.errors import SettingError, choose
from aegis.problem import Array, Batch, Ints, Policy, Problem, Rows
from aegis.worlds.legacies import Offer, build_legacy
from aegis.worlds.many_seeds import episode_of_each
from aegis.worlds.simulate import simulate

Noise = Mapping[str, Array]
Bools = npt.NDArray[np.bool_]


class World(ABC):
    """A plant given by equations; a subclass is a frozen dataclass whose fields are its parameters.

    The equations are pure functions of what is known and of noise that is drawn elsewhere, so that every policy meets the
    same noise. `known` holds one row per decision: contexts and actions of all levels so far, numeric actions as numbers
    and labels as codes (as in `aegis.problem.augmented`).
    """

    __slots__ = ()

    name: ClassVar[str]
    ragged: ClassVar[bool] = False
    presets: ClassVar[Mapping[str, Mapping[str, float]]] = {}  # parameters that go together, by name
    shifts: ClassVar[Mapping[str, Mapping[str, float]]] = {}  # what changes under a distribution shift, by name
    noises: ClassVar[Mapping[str, Mapping[str, Literal["normal", "uniform"]]]]

    @property
    @abstractmethod
    def problem(self) -> Problem:
        """The problem the world poses, with its graph and its latent variables."""

    @property
    @abstractmethod
    def steps(self) -> tuple[int, ...]:
        """The largest number of decisions below one parent, outermost level first."""

    def shifted(self, what: str) -> Self:
        """Return the world after one of its shifts; raise SettingError with those it has."""
        changed: Any = self
        return replace(changed, **entry("shift", what, self.name, self.shifts))

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
    def offers(self) -> Mapping[str, Offer]:
        """Return the legacy controllers this world has, by name."""

    def legacy(self, spec: str) -> Policy:
        """Return a legacy controller from words such as `natural`, `sign:epsilon=0.3` or `constant:value=1.6,epsilon=0.2`."""
        return build_legacy(self.name, self.problem, self.offers(), spec)

    def episodes(
        self, first: int, count: int, policy: Policy, seed: int, propensities: Literal["path", "sequential"] = "path"
    ) -> Batch:
        """Run episodes `first .. first + count - 1` under `policy`; see `aegis.worlds.simulate`."""
        return simulate(self, first, count, policy, seed, propensities)

    def episode_of_each(self, episode: int, policy: Policy, seeds: Sequence[int]) -> Batch:
        """Run one episode for each seed at once; the g-th of the batch is `episodes(episode, 1, policy, seeds[g])`."""
        return episode_of_each(self, episode, policy, seeds)


def entry(kind: str, name: str, world: str, table: Mapping[str, Mapping[str, float]]) -> Mapping[str, float]:
    """Return the parameters that a world's preset or shift sets; raise SettingError if the world has none of that name."""
    if not table:
        raise SettingError(f"world '{world}' has no {kind}s, found '{name}'; set its parameters one by one")
    choose(name, table, f"{kind} of world '{world}'")
    return table[name]
