"""What a policy hands over to be stored: checked before it is written."""

from __future__ import annotations

from aegis.errors import PolicyError
from aegis.problem import Problem, State, Storable

__all__ = ["State", "Storable", "problem_of", "storable"]


def storable(member: object, what: str) -> Storable:
    """Return `member` if it can be stored; raise PolicyError saying how it could be, otherwise."""
    if not isinstance(member, Storable):
        raise PolicyError(
            f"{what} is a {type(member).__name__}, which cannot be stored; give it the methods 'state' and 'restore', "
            "or use one of the kinds in aegis.policies.POLICIES"
        )
    return member


def problem_of(policy: object) -> Problem:
    """Return the problem a policy was made for."""
    problem = getattr(policy, "problem", None)
    if not isinstance(problem, Problem):
        raise PolicyError(f"a {type(policy).__name__} does not say which problem it was made for; give it a 'problem' attribute")
    return problem
