"""A candidate: a policy somebody wants to hand control to, and where it comes from."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from aegis.certificate.behaviour import code_digest, is_code
from aegis.certificate.comparator import Closeness, Comparator, closeness
from aegis.certificate.frozen import FrozenTests
from aegis.errors import AegisError, PolicyError
from aegis.policies import (
    Capped,
    Floored,
    FullColumns,
    Function,
    Hybrid,
    Logged,
    Mixture,
    StatedIncumbent,
    TargetColumns,
    columns_read,
    policy_digest,
)
from aegis.problem import Batch, Policy, Problem, RewardModel


@runtime_checkable
class Learned(Protocol):
    """What learning from a log gives: a policy, the record of how it came about, and the reward models that came along."""

    @property
    def policy(self) -> Policy:
        """Return the policy."""
        ...

    @property
    def record(self) -> Mapping[str, Any]:
        """Return the record, with the split."""
        ...

    @property
    def rewards(self) -> RewardModel:
        """Return the reward models."""
        ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy with its name, the columns of the log it reads, its record and the reward model that was learned with it.

    record: what `learn` wrote beside the policy; empty for a policy from elsewhere, which is taken to be fixed beforehand.
    frozen: its tests, if they were fixed with it; None: they are fixed when a certificate is asked for.
    """

    policy: Policy
    name: str = "candidate"
    reference: str = ""
    columns: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    rewards: RewardModel | None = None
    frozen: FrozenTests | None = None

    @classmethod
    def of(cls, policy: Policy | Learned | Candidate, position: int = 1) -> Candidate:
        """Return a candidate for a policy as it is, or for what was learned."""
        if isinstance(policy, Candidate):
            return policy
        if isinstance(policy, Learned):
            kind = str(policy.record.get("kind", "learned"))
            return cls(policy.policy, f"{kind} policy", record=policy.record, rewards=policy.rewards)
        return cls(policy, f"candidate {position}", columns=columns_read(policy))

    @property
    def digest(self) -> str | None:
        """Return the policy's digest; None for a policy that cannot be stored, of which only the name is known."""
        try:
            return policy_digest(self.policy)
        except AegisError:
            return None

    @property
    def is_code(self) -> bool:
        """Say whether the policy is code, which neither its digest nor a certificate fixes."""
        return self.digest is None or is_code(self.policy)

    @property
    def code(self) -> str | None:
        """Return a digest of the files that the policy's code is in; None if it is not code, or not in a file."""
        return code_digest(self.policy)

    def levels(self, problem: Problem) -> tuple[str, ...]:
        """Return the levels the policy has something to say about, outermost first: all unless it or its record says which."""
        named = self.record.get("scope")
        if named is None and isinstance(self.policy, TargetColumns | FullColumns):
            named = self.policy.columns
        if named is None and isinstance(self.policy, Capped | Function):
            named = self.policy.levels
        if named is None and isinstance(self.policy, Hybrid):
            named = self.policy.scope
        return tuple(name for name in problem.names if named is None or name in named)

    def close(self, level: str, comparator: Comparator) -> Closeness:
        """Return how close the policy stays to its comparator at a level, by construction."""
        return closeness(self.policy, level, comparator)

    def cap(self, level: str) -> float:
        """Return W, the most by which the policy multiplies a logged probability at a level; infinite if it promises nothing."""
        return cap_of(self.policy, level)

    def knows_all(self, level: str, batch: Batch) -> bool:
        """Say whether the policy gives whole distributions at a level, by asking it."""
        try:
            self.policy.full(level, batch)
        except PolicyError:
            return False
        return True


def cap_of(policy: Policy, level: str) -> float:
    """Return the cap of a policy at a level: its own if it is capped, the largest of its members' if it is a mixture."""
    if isinstance(policy, Capped):
        return policy.limit if level in policy.levels else 1.0
    if isinstance(policy, Mixture):
        return max(cap_of(member, level) for member in policy.policies)
    if isinstance(policy, Hybrid):
        return cap_of(policy.new if level in policy.scope else policy.legacy, level)
    return math.inf


def follows_log(policy: Policy, level: str) -> bool:
    """Say whether what a policy does at a level depends on the probabilities logged in the same row, by a cap or a floor."""
    if isinstance(policy, Logged):
        return True
    if isinstance(policy, StatedIncumbent):
        return level not in policy.levels
    if isinstance(policy, Capped):
        return follows_log(policy.legacy, level)
    if isinstance(policy, Floored):
        kept = level in policy.levels and policy.share > 0 and follows_log(policy.legacy, level)
        return kept or follows_log(policy.new, level)
    if isinstance(policy, Mixture):
        return any(follows_log(member, level) for member in policy.policies)
    if isinstance(policy, Hybrid):
        return follows_log(policy.new if level in policy.scope else policy.legacy, level)
    return False
