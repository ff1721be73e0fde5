"""The three things AEGIS asks of the outside world: a policy, a reward model, a plant."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from aegis.problem.batch import Array, Batch
from aegis.problem.problem import Problem


@runtime_checkable
class Policy(Protocol):
    """A policy with S frozen particles; an ordinary policy has S = 1.

    One particle index is drawn per episode with probabilities `weights[S]` and acts at all levels of that episode.
    """

    @property
    def weights(self) -> Array:
        """Return the particle weights `[S]`, summing to one."""
        ...

    def taken(self, level: str, batch: Batch) -> Array:
        """Return each particle's probability of the logged action, `[S, n]`."""
        ...

    def full(self, level: str, batch: Batch) -> Array:
        """Return each particle's distribution over the actions, `[S, n, A]`; unavailable actions get 0."""
        ...


@runtime_checkable
class RewardModel(Protocol):
    """A regression of the reward below a decision on what is known when it is taken."""

    def predict(self, level: str, batch: Batch) -> Array:
        """Return the predicted subtree-mean reward of every action, `[n, A]`."""
        ...


@runtime_checkable
class Plant(Protocol):
    """Something that can be run: simulated here, or the user's own."""

    @property
    def problem(self) -> Problem:
        """Return the problem the plant poses."""
        ...

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        """Run episodes `first .. first + count - 1` under `policy` and return what was logged.

        Randomness comes from streams named by `seed` and the episode number alone, so that splitting the range changes
        nothing and two policies meet the same noise.
        """
        ...
