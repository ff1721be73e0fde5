"""Letting a learned candidate act on a simulated plant: what it took from the log it now asks the legacy itself."""

from __future__ import annotations

from collections.abc import Iterable

from aegis.policies import Capped, Floored, Hybrid, Logged, Mixture, StatedIncumbent
from aegis.problem import Policy, Problem


def acting(policy: Policy, legacy: Policy) -> Policy:
    """Return the policy with the legacy in the place of `Logged`, which knows the propensities of a log and cannot act."""
    if isinstance(policy, Logged):
        return legacy
    if isinstance(policy, Capped):
        return Capped(policy.problem, policy.model, acting(policy.legacy, legacy), policy.limit, policy.levels)
    if isinstance(policy, StatedIncumbent):  # at a level where none is stated it is the policy that wrote the log
        return Hybrid(policy.problem, policy.levels, policy, legacy)
    if isinstance(policy, Floored):
        new, kept = acting(policy.new, legacy), acting(policy.legacy, legacy)
        return Floored(policy.problem, new, kept, policy.share, policy.levels)
    if isinstance(policy, Hybrid):
        return Hybrid(policy.problem, policy.scope, acting(policy.new, legacy), acting(policy.legacy, legacy))
    if isinstance(policy, Mixture):
        return Mixture([acting(member, legacy) for member in policy.policies], policy.shares)
    return policy


def handed_over(problem: Problem, candidate: Policy, legacy: Policy, scope: Iterable[str]) -> Hybrid:
    """Return what acts after a handover of `scope`: the candidate there, the legacy elsewhere."""
    return Hybrid(problem, scope, acting(candidate, legacy), legacy)
