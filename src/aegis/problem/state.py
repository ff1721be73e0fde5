"""What a policy, or a model that a policy needs, hands over to be stored, and takes back to be restored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

from aegis.errors import PolicyError
from aegis.problem.batch import AnyArray
from aegis.problem.problem import Problem
from aegis.problem.protocols import Policy


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
