"""Keeping challengers: a frozen challenger as one piece of bytes, from which the same one comes back.

The grids of its bets are in the event of its freeze; everything else is here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from aegis.certificate.comparator import Comparator
from aegis.certificate.frozen import Terms, claims_of
from aegis.certificate.view import Models
from aegis.errors import PolicyError
from aegis.evidence import Grid
from aegis.handover.challenge import Challenge
from aegis.handover.challengers import Challenger, name_of
from aegis.handover.seals import check_files
from aegis.planning import KINDS
from aegis.policies import State, Storable, pack, policy_digest, unpack
from aegis.policies.state import storable
from aegis.problem import Policy, Problem, RewardModel

MODEL = "model of "


@dataclass(frozen=True, slots=True)
class Kept:
    """What of a challenger is kept: its policy, the predictions that its bets use by column, and the terms of its claims."""

    kind: ClassVar[str] = "challenger"
    problem: Problem
    policy: Policy
    rewards: Mapping[str, RewardModel]
    terms: Terms

    def state(self) -> State:
        """Return the terms, with policy and predictions as members."""
        terms = {
            "variation": self.terms.variation,
            "allowed": self.terms.allowed,
            "levels": self.terms.levels,
            "incumbent": self.terms.comparator.plain(),
        }
        members = {"policy": storable(self.policy, "the policy of a challenger")}
        for column, model in self.rewards.items():
            members[MODEL + column] = storable(model, f"the prediction of '{column}'")
        return State(self.kind, terms, members=members)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Kept:
        """Build it from its state."""
        found = {name.removeprefix(MODEL): model for name, model in state.members.items() if name.startswith(MODEL)}
        rewards = {column: model for column, model in found.items() if isinstance(model, RewardModel)}
        comparator = Comparator.restore(state.settings.get("incumbent", {}), problem)
        terms = Terms(
            float(state.setting("variation")), float(state.setting("allowed")), int(state.setting("levels")), comparator
        )
        return cls(problem, state.policy("policy"), rewards, terms)


ALL_KINDS: dict[str, type[Storable]] = {**KINDS, Kept.kind: Kept}


def keep(challenger: Challenger) -> bytes:
    """Return a challenger as one piece."""
    return pack(Kept(challenger.problem, challenger.policy, challenger.models.rewards, challenger.terms))


def kept_policy(kept: bytes, problem: Problem) -> Policy:
    """Return the policy of a kept challenger."""
    return _kept(kept, problem).policy


def taken_up(kept: bytes, problem: Problem, challenge: Challenge) -> Challenger:
    """Return the challenger of a challenge from what was kept; PolicyError if it is not the one that was frozen."""
    return restored(_kept(kept, problem), problem, challenge)


def restored(found: Kept, problem: Problem, challenge: Challenge) -> Challenger:
    """Return the challenger of a challenge from what was kept; PolicyError if it is not the one that was frozen."""
    digest = policy_digest(found.policy)
    if digest != challenge.policy:
        raise PolicyError(
            f"challenge '{challenge.name}' froze the policy {challenge.policy[:16]}, and {digest[:16]} was kept: the store was "
            "altered; the policy in control stays"
        )
    check_files(challenge.seal, found.policy, f"challenge '{challenge.name}'")
    claims = []
    for claim in claims_of(problem, challenge.level, found.terms):
        frozen = challenge.claim(name_of(claim))
        if len(frozen.parts) != len(claim.parts):
            raise PolicyError(
                f"challenge '{challenge.name}': '{frozen.what}' has {len(frozen.parts)} tests, expected those of now"
            )
        grids = tuple(Grid(np.array(part.bets), np.array(part.log_weights), 0) for part in frozen.parts)
        claims.append((claim, grids))
    models = Models(rewards=dict(found.rewards))
    return Challenger(problem, challenge.level, challenge.cap, found.policy, digest, models, tuple(claims), found.terms)


def _kept(kept: bytes, problem: Problem) -> Kept:
    found = unpack(kept, problem, ALL_KINDS)
    if not isinstance(found, Kept):
        raise PolicyError(f"expected a kept challenger, found a {type(found).__name__}")
    return found
