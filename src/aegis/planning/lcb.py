"""Lower confidence bound: act on the mean planned value minus a multiple of its posterior spread."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.errors import SettingError
from aegis.mechanisms import Belief, Theta
from aegis.planning.rules import check_count
from aegis.planning.ucb import SpreadChoice
from aegis.policies.support import number


def pessimism(divergence: float, delta: float, episode: int) -> float:
    """Return kappa_k = sqrt(2 (KL(p_(k-1) || p_0) + log(1/delta)) / k) of the paper's ra-inner, for k = episode + 1."""
    if episode < 0:
        raise SettingError(f"lcb: episodes are counted from 0, found {episode}")
    return math.sqrt(2.0 * (divergence + math.log(1.0 / delta)) / (episode + 1))


@dataclass(frozen=True, slots=True)
class Lcb:
    """Maximise the posterior mean - kappa_k posterior standard deviations of the planned value (the paper's ra-inner).

    `kappa_k = sqrt(2 (KL(p_(k-1) || p_0) + log(1/delta)) / k)`, KL over the mechanisms of the scope, unless a fixed `kappa` is
    given. Mean and standard deviation are taken over `draws` posterior draws. Deterministic given the draws.
    """

    kappa: float | None = None
    delta: float = 0.05
    draws: int = 64

    def __post_init__(self) -> None:
        if self.kappa is not None:
            number(self.kappa, "lcb: 'kappa'", 0.0)
        if not 0.0 < number(self.delta, "lcb: 'delta'", 0.0, 1.0) < 1.0:
            raise SettingError(f"lcb: 'delta' is a number between 0 and 1, both excluded, found {self.delta!r}")
        check_count(self.draws, "lcb: 'draws'")

    @property
    def particles(self) -> int:
        """Return 0: draws are averaged over, not played."""
        return 0

    def prepare(
        self,
        belief: Belief,
        rng: np.random.Generator,
        episode: int,
        scope: Iterable[str] | None = None,
        theta: Theta | None = None,
    ) -> SpreadChoice:
        """Return the choice over draws of its own, with the pessimism of this episode."""
        kappa = pessimism(belief.kl(scope), self.delta, episode) if self.kappa is None else float(self.kappa)
        return SpreadChoice(belief.draw(rng, self.draws), -kappa)
