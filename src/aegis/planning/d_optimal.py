"""D-optimal design: take the action that tells most about the mechanisms below, whatever it earns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from aegis.errors import SettingError
from aegis.mechanisms import Belief, Theta
from aegis.planning.information import Information, comparable
from aegis.planning.rules import Mask, OneParticle, Values, best
from aegis.planning.states import States
from aegis.policies.support import number
from aegis.problem import Array


@dataclass(frozen=True, slots=True)
class DOptimalChoice(OneParticle):
    """The most informative action; theta, the posterior mean, is what values would be planned with, if anyone asked."""

    theta: Theta
    information: Information

    def probabilities(self, level: str, states: States, values: Values, allowed: Mask) -> Array:
        """Return one-hot distributions `[1, n, A]`."""
        scores = self.information.score(level, states).mean(axis=0, keepdims=True)
        return best(comparable(scores, allowed))


@dataclass(frozen=True, slots=True)
class DOptimal:
    """Maximise the information gained about the mechanisms directly below (Chaloner and Verdinelli 1995; the paper's D-optimal
    alternative, Option B).

    At a level above the innermost: the log-determinant gained by the posterior precisions of the contexts directly below,
    `sum over mechanisms of q log(1 + I phi' P^-1 phi)` with q the width of the target and I = `samples`, averaged over contexts
    that are parents of others and not yet known. At the innermost level: the same for outcome and reward with I = 1, at the
    predicted outcome. With known noise this is twice the mutual information between the new samples and the parameters. Rewards
    do not enter; deterministic.
    """

    samples: float = 1.0

    def __post_init__(self) -> None:
        check_samples(self.samples, "d_optimal")

    @property
    def particles(self) -> int:
        """Return 0: no draws are played."""
        return 0

    def prepare(
        self,
        belief: Belief,
        rng: np.random.Generator,
        episode: int,
        scope: Iterable[str] | None = None,
        theta: Theta | None = None,
    ) -> DOptimalChoice:
        """Return the choice under the current posterior, whatever draws other levels play."""
        point = belief.point()
        return DOptimalChoice(point, Information(belief, point, float(self.samples)))


def check_samples(samples: object, rule: str) -> None:
    """Raise SettingError unless the number of samples below a decision is finite and above 0."""
    if number(samples, f"{rule}: 'samples'", 0.0) == 0.0:
        raise SettingError(f"{rule}: 'samples' is a number above 0, found {samples!r}")
