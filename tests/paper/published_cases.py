"""Runs of the published gate for tests, and a look of Algorithm 2 in plain loops."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from aegis.handover import HOSTS, Flipped, make_gate
from aegis.policies import Legacy
from aegis.problem import Batch, Plant, Policy, Problem


def published(plant, legacy, seed=1, host="ncts", **settings):
    return make_gate("published", plant, legacy, HOSTS[host]() if isinstance(host, str) else host, settings, seed)


def flips(gate):
    return [event for event in gate.events if isinstance(event, Flipped)]


@dataclass(frozen=True)
class WithMargins:
    """A plant with other margins, in units of the reward."""

    plant: Plant
    problem: Problem

    @classmethod
    def of(cls, plant: Plant, **margins: float) -> WithMargins:
        levels = tuple(replace(level, margin=margins.get(level.name, 0.0)) for level in plant.problem.levels)
        return cls(plant, replace(plant.problem, levels=levels))

    def legacy(self, name: str) -> Legacy:
        return replace(self.plant.legacy(name), problem=self.problem)

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        return self.plant.episodes(first, count, policy, seed)


def naive_look(batch, plan, scope, rewards, highest, kl, settings):
    """Return (estimate minus the legacy's mean, the gain bound) as the paper writes them, with loops, in units of the rewards.

    rewards `[n]`, the highest of which is `highest`; the batch is the buffer of the scope.
    """
    innermost = list(batch.levels)[-1]
    rows, owner = batch.ancestors(innermost), batch.episode_of(innermost)
    full = {level: plan.full(level, batch) for level in scope}
    particles = len(next(iter(full.values())))
    values = np.zeros((len(batch), particles))
    for episode in range(len(batch)):
        for particle in range(particles):
            products = []
            for row in np.flatnonzero(owner == episode):
                weight = 1.0
                for level in scope:
                    table, place = batch.levels[level], rows[level][row]
                    weight *= full[level][particle, place, table.action[place]] / table.mu_taken[place]
                products.append(min(weight, settings.largest_weight) * rewards[row])
            values[episode, particle] = np.mean(products)
    largest = settings.largest_weight * highest
    square = np.mean((largest - values) ** 2)
    cost = kl + math.log(1 / settings.delta)
    lam = min((1 - settings.eta) / largest, math.sqrt(2 * cost / (len(batch) * square)))
    estimate = largest + np.mean(np.log(1 - lam * (largest - values))) / lam
    gain = estimate - np.mean([rewards[owner == episode].mean() for episode in range(len(batch))])
    return gain, gain - (kl + math.log(2 / settings.delta)) / (lam * len(batch))
