"""The truth on any plant, simulated or the user's own: run the policy, add up rewards. No weight and no propensity is used."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from aegis.certificate.units import Clusters
from aegis.errors import SettingError
from aegis.problem import Array, Batch, Plant, Policy, Scope
from aegis.validation.acting import handed_over
from aegis.validation.truth import Oracle, Truth
from aegis.worlds import World

AT_ONCE = 2048  # episodes
SEED = 2**61 - 1  # of long runs: no log has it


class Judge(Protocol):
    """Something that knows what a policy really earns."""

    def truth(self, candidate: Policy, scope: Iterable[str]) -> Truth:
        """Return value and gain of the candidate at `scope` with the legacy elsewhere."""
        ...


def judge_of(plant: Plant, legacy: Policy, episodes: int) -> Judge:
    """Return the judge of a plant: equations where they are known, long runs with rewards as they come elsewhere."""
    return Oracle(plant, legacy, episodes) if isinstance(plant, World) else LongRuns(plant, legacy, episodes)


@dataclass(slots=True)
class LongRuns:
    """Values of policies by running them on a plant for many episodes, each under the same seed.

    The difference to the legacy is taken unit by unit where both had as many: a plant that draws its noise from seed and
    episode number alone, as it should, then shows a gain with less noise.
    """

    plant: Plant
    legacy: Policy
    episodes: int
    seed: int = SEED
    _legacy: Array = field(init=False)

    def __post_init__(self) -> None:
        self._legacy = self._units(self.legacy)

    @property
    def legacy_value(self) -> float:
        """Return the mean of the legacy's units."""
        return float(self._legacy.mean())

    def truth(self, candidate: Policy, scope: Iterable[str]) -> Truth:
        """Return value and gain of the candidate at `scope` with the legacy elsewhere."""
        own = self._units(handed_over(self.plant.problem, candidate, self.legacy, Scope(scope)))
        value, error = float(own.mean()), _error(own)
        paired = own.size == self._legacy.size
        gain_error = _error(own - self._legacy) if paired else math.hypot(error, _error(self._legacy))
        return Truth(value, value - self.legacy_value, error, gain_error)

    def _units(self, policy: Policy) -> Array:
        """Return the mean reward `[U]` of every unit of a long run."""
        problem, means, ids = self.plant.problem, [], []
        for first in range(0, self.episodes, AT_ONCE):
            batch = self.plant.episodes(first, min(AT_ONCE, self.episodes - first), policy, self.seed)
            means.append(_means(batch))
            ids.append(batch.cluster)
        if problem.cluster is None:
            return np.concatenate(means)
        clusters = Clusters(np.zeros(1), problem.cluster_most, problem.cluster)
        for own, cluster in zip(means, ids, strict=True):
            if cluster is None:
                raise SettingError(f"the problem has the cluster '{problem.cluster}', the plant's batches have none")
            clusters.add(cluster, own[:, None])
        return clusters.units()[:, 0]


def _means(batch: Batch) -> Array:
    rewards = batch.reward
    complete = rewards is not None and bool(np.isfinite(rewards).all()) and (batch.observed is None or batch.observed.all())
    if rewards is None or not complete:
        raise SettingError(
            "the plant leaves out rewards: what a policy really earns is then unknown, and no bound can be judged; let the plant "
            "return the reward of every innermost decision"
        )
    return batch.episode_means(rewards)


def _error(units: Array) -> float:
    return float(units.std(ddof=1)) / math.sqrt(units.size)
