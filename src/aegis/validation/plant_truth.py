"""The truth on any plant, simulated or the user's own: run the policy, add up rewards. No weight and no propensity is used."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from aegis.certificate.units import Clusters
from aegis.errors import SettingError
from aegis.policies import Hybrid
from aegis.problem import Array, Batch, Plant, Policy, Scope
from aegis.validation.acting import handed_over
from aegis.validation.truth import Oracle, Truth
from aegis.worlds import World

AT_ONCE = 2048  # episodes
SEED = 2**61 - 1  # of long runs: no log has it


class Judge(Protocol):
    """Something that knows what a policy really earns."""

    def truth(self, candidate: Policy, scope: Iterable[str]) -> Truth:
        """Return the value of the candidate at `scope` with the legacy elsewhere, and its gain over the comparator."""
        ...


def judge_of(plant: Plant, legacy: Policy, episodes: int, incumbent: Policy | None = None) -> Judge:
    """Return the judge of a plant: equations where they are known, long runs with rewards as they come elsewhere.

    incumbent: who acts if nothing is handed over, and so whom gains are over; None if that is the legacy.
    """
    kind = Oracle if isinstance(plant, World) else LongRuns
    return kind(plant, legacy, episodes, incumbent=incumbent)  # type: ignore[arg-type]


@dataclass(slots=True)
class LongRuns:
    """Values of policies by running them on a plant for many episodes, each under the same seed.

    The difference to the comparator is taken unit by unit where both had as many: a plant that draws its noise from seed and
    episode number alone, as it should, then shows a gain with less noise. incumbent: the comparator at the levels in scope, the
    legacy acting elsewhere; None if the comparator is the legacy.
    """

    plant: Plant
    legacy: Policy
    episodes: int
    seed: int = SEED
    incumbent: Policy | None = None
    _legacy: Array = field(init=False)
    _compared: dict[Scope, Array] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self._legacy = self._units(self.legacy)

    @property
    def legacy_value(self) -> float:
        """Return the mean of the legacy's units."""
        return float(self._legacy.mean())

    def truth(self, candidate: Policy, scope: Iterable[str]) -> Truth:
        """Return the value of the candidate at `scope` with the legacy elsewhere, and its gain over the comparator."""
        levels = Scope(scope)
        own, base = self._units(handed_over(self.plant.problem, candidate, self.legacy, levels)), self._comparator(levels)
        value, error = float(own.mean()), _error(own)
        gain_error = _error(own - base) if own.size == base.size else math.hypot(error, _error(base))
        return Truth(value, value - float(base.mean()), error, gain_error)

    def _comparator(self, scope: Scope) -> Array:
        """Return the units `[U]` of the comparator at a scope; found once."""
        if self.incumbent is None:
            return self._legacy
        if scope not in self._compared:
            self._compared[scope] = self._units(Hybrid(self.plant.problem, scope, self.incumbent, self.legacy))
        return self._compared[scope]

    def _units(self, policy: Policy) -> Array:
        """Return the mean reward `[U]` of every unit of a long run."""
        problem, means, ids = self.plant.problem, [], []
        for first in range(0, self.episodes, AT_ONCE):
            batch = self.plant.episodes(first, min(AT_ONCE, self.episodes - first), policy, self.seed)
            means.append(_means(batch))
            ids.append(batch.cluster)
        if problem.cluster is None:
            return np.concatenate(means)
        clusters = Clusters(np.zeros(1), problem.cluster_most, problem.cluster_name)
        for own, cluster in zip(means, ids, strict=True):
            if cluster is None:
                raise SettingError(f"the problem has the cluster '{problem.cluster_name}', the plant's batches have none")
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
