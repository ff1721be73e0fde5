"""The protocols that AEGIS asks of other code: Policy, RewardModel, Plant, and Storable for what a policy folder can hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

from aegis.errors import PolicyError
from aegis.problem.batch import Batch
from aegis.problem.problem import Problem
from aegis.problem.variables import AnyArray, Array


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


@runtime_checkable
class Storable(Protocol):
    """Anything a policy folder can hold: a policy, or a reward model that a policy needs."""

    def state(self) -> State:
        """Return what is needed to build an equal object."""
        ...

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Self:
        """Build the object from its state."""
        ...


@dataclass(frozen=True, slots=True)
class State:
    """The content of a policy: kind (a key of the table of kinds), settings (plain data), arrays and member objects by name."""

    kind: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, AnyArray] = field(default_factory=dict)
    members: Mapping[str, Storable] = field(default_factory=dict)

    def setting(self, name: str) -> Any:
        """Return a setting; raise PolicyError if the file lacks it."""
        if name not in self.settings:
            raise PolicyError(f"policy of kind '{self.kind}': the setting '{name}' is missing; found {sorted(self.settings)}")
        return self.settings[name]

    def policy(self, name: str) -> Policy:
        """Return a member that is a policy; raise PolicyError if the file lacks it."""
        member = self.members.get(name)
        if not isinstance(member, Policy):
            raise PolicyError(
                f"policy of kind '{self.kind}': the member policy '{name}' is missing; found {sorted(self.members)}"
            )
        return member
