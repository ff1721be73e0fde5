"""Stored challengers: as bytes in a journal's store, and as a policy folder that `aegis certify` recounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from aegis.certificate import Candidate, ChallengeTerms, FrozenTests, GateWindow, challenge_claims
from aegis.errors import PolicyError
from aegis.evidence import Grid
from aegis.handover.challenge import Challenge
from aegis.handover.challenger import Challenger, check_code_files, claim_name
from aegis.ope import Comparator, RewardModels
from aegis.planning import POLICY_KINDS
from aegis.policies import (
    policy_columns,
    policy_digest,
    policy_from_bytes,
    policy_to_bytes,
    read_stored,
    require_storable,
    save_policy,
)
from aegis.problem import Policy, Problem, RewardModel, State, Storable

MODEL = "model of "


@dataclass(frozen=True, slots=True)
class StoredChallenger:
    """What of a challenger is kept: its policy, the predictions that its bets use by column, and the terms of its claims."""

    kind: ClassVar[str] = "challenger"
    problem: Problem
    policy: Policy
    rewards: Mapping[str, RewardModel]
    terms: ChallengeTerms

    @classmethod
    def of(cls, challenger: Challenger) -> StoredChallenger:
        """Return what is kept of a challenger."""
        return cls(challenger.problem, challenger.policy, challenger.models.rewards, challenger.terms)

    def state(self) -> State:
        """Return the terms, with policy and predictions as members."""
        terms = {
            "variation": self.terms.variation,
            "allowed": self.terms.allowed,
            "levels": self.terms.levels,
            "incumbent": self.terms.comparator.plain(),
        }
        members = {"policy": require_storable(self.policy, "the policy of a challenger")}
        for column, model in self.rewards.items():
            members[MODEL + column] = require_storable(model, f"the prediction of '{column}'")
        return State(self.kind, terms, members=members)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> StoredChallenger:
        """Build it from its state."""
        models = {name.removeprefix(MODEL): model for name, model in state.members.items() if name.startswith(MODEL)}
        rewards = {column: model for column, model in models.items() if isinstance(model, RewardModel)}
        comparator = Comparator.restore(state.settings.get("incumbent", {}), problem)
        terms = ChallengeTerms(
            float(state.setting("variation")), float(state.setting("allowed")), int(state.setting("levels")), comparator
        )
        return cls(problem, state.policy("policy"), rewards, terms)


STORED_KINDS: dict[str, type[Storable]] = {**POLICY_KINDS, StoredChallenger.kind: StoredChallenger}


def pack_challenger(challenger: Challenger) -> bytes:
    """Return a challenger as one piece."""
    return policy_to_bytes(StoredChallenger.of(challenger))


def unpack_policy(content: bytes, problem: Problem) -> Policy:
    """Return the policy of a kept challenger."""
    return _unpacked(content, problem).policy


def unpack_challenger(content: bytes, problem: Problem, challenge: Challenge) -> Challenger:
    """Return the challenger of a challenge from its bytes; see `restore_challenger`."""
    return restore_challenger(_unpacked(content, problem), problem, challenge)


def restore_challenger(stored: StoredChallenger, problem: Problem, challenge: Challenge) -> Challenger:
    """Return the challenger of a challenge from what was kept; PolicyError if it is not the one that was frozen."""
    digest = policy_digest(stored.policy)
    if digest != challenge.policy:
        raise PolicyError(
            f"challenge '{challenge.name}' froze the policy {challenge.policy[:16]}, and {digest[:16]} was kept: the store was "
            "altered; the policy in control stays"
        )
    check_code_files(challenge.seal, stored.policy, f"challenge '{challenge.name}'")
    claims = []
    for claim in challenge_claims(problem, challenge.level, stored.terms):
        frozen = challenge.claim(claim_name(claim))
        if len(frozen.parts) != len(claim.parts):
            raise PolicyError(
                f"challenge '{challenge.name}': '{frozen.what}' has {len(frozen.parts)} tests, expected those of now"
            )
        grids = tuple(Grid(np.array(part.bets), np.array(part.log_weights), 0) for part in frozen.parts)
        claims.append((claim, grids))
    models = RewardModels(rewards=dict(stored.rewards))
    return Challenger(problem, challenge.level, challenge.cap, stored.policy, digest, models, tuple(claims), stored.terms)


def _unpacked(content: bytes, problem: Problem) -> StoredChallenger:
    stored = policy_from_bytes(content, problem, STORED_KINDS)
    if not isinstance(stored, StoredChallenger):
        raise PolicyError(f"expected a kept challenger, found a {type(stored).__name__}")
    return stored


CHALLENGER_FOLDER = "challenger"  # the folder, beside the policy, with everything that was frozen

NUMBER_COLUMN, ARM_COLUMN = "gate_episode", "gate_arm"  # columns of the log


def save_challenge(
    folder: str | Path,
    content: bytes,
    problem: Problem,
    challenge: Challenge,
    until: int,
    fingerprints: Mapping[str, Any],
    overruled: int = 0,
) -> None:
    """Write a challenge as a policy folder that `aegis certify` recounts. until: the last episode that counts.

    overruled: episodes up to then that count at their worst.
    """
    challenger = unpack_challenger(content, problem, challenge)
    about = {"event": challenge.plain(), "until": until, "number": NUMBER_COLUMN, "arm": ARM_COLUMN, "overruled": overruled}
    record = {"kind": "challenge", "scope": [challenge.level], "challenge": about, "fingerprints": dict(fingerprints)}
    save_policy(challenger.policy, folder, record)
    save_policy(StoredChallenger.of(challenger), Path(folder) / CHALLENGER_FOLDER)


def load_challenge(folder: str | Path, reference: str, problem: Problem, record: Mapping[str, Any]) -> Candidate:
    """Return a challenge as a candidate with its tests; PolicyError if the folder is damaged."""
    try:
        about = record["challenge"]
        challenge = Challenge.of(about["event"])
        window = GateWindow(str(about["number"]), str(about["arm"]), challenge.since, int(about["until"]))
        overruled = int(about.get("overruled", 0))
    except (KeyError, TypeError, ValueError) as error:
        raise PolicyError(f"{folder}: the record of a challenge is damaged: {error}") from error
    stored = read_stored(Path(folder) / CHALLENGER_FOLDER, problem, STORED_KINDS)
    if not isinstance(stored, StoredChallenger):
        raise PolicyError(f"{folder}: '{CHALLENGER_FOLDER}' holds a {type(stored).__name__}, expected what was frozen")
    challenger = restore_challenger(stored, problem, challenge)
    claims = tuple(
        (replace(claim, delta=frozen.delta, margin=frozen.margin), grids)
        for claim, grids in challenger.claims
        for frozen in [challenge.claim(claim_name(claim))]
    )
    frozen = FrozenTests(challenge.level, claims, challenger.models, window, challenger.terms.comparator, overruled)
    return Candidate(challenger.policy, reference, reference, policy_columns(challenger.policy), record, None, frozen)
