"""Challenges as candidates for a certificate: written with the log of a gate, and certified from it to the gate's own numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from aegis.certificate.candidate import Candidate
from aegis.certificate.frozen import FrozenTests, Window
from aegis.errors import PolicyError
from aegis.handover.challenge import Challenge
from aegis.handover.challengers import name_of
from aegis.handover.keeping import ALL_KINDS, Kept, restored, taken_up
from aegis.policies import columns_read, load_stored, save_policy
from aegis.problem import Problem

CHALLENGER = "challenger"  # the folder, beside the policy, with everything that was frozen
NUMBER, ARM = "gate_episode", "gate_arm"  # columns of the log


def save_challenge(
    folder: str | Path, kept: bytes, problem: Problem, challenge: Challenge, until: int, fingerprints: Mapping[str, Any]
) -> None:
    """Write a challenge as a policy folder that `aegis certify` recounts. until: the last episode that counts."""
    challenger = taken_up(kept, problem, challenge)
    about = {"event": challenge.plain(), "until": until, "number": NUMBER, "arm": ARM}
    record = {"kind": "challenge", "scope": [challenge.level], "challenge": about, "fingerprints": dict(fingerprints)}
    save_policy(challenger.policy, folder, record)
    save_policy(Kept(problem, challenger.policy, challenger.models.rewards, challenger.terms), Path(folder) / CHALLENGER)


def load_challenge(folder: str | Path, reference: str, problem: Problem, record: Mapping[str, Any]) -> Candidate:
    """Return a challenge as a candidate with its tests; PolicyError if the folder is damaged."""
    try:
        about = record["challenge"]
        challenge = Challenge.of(about["event"])
        window = Window(str(about["number"]), str(about["arm"]), challenge.since, int(about["until"]))
    except (KeyError, TypeError, ValueError) as error:
        raise PolicyError(f"{folder}: the record of a challenge is damaged: {error}") from error
    kept = load_stored(Path(folder) / CHALLENGER, problem, ALL_KINDS)
    if not isinstance(kept, Kept):
        raise PolicyError(f"{folder}: '{CHALLENGER}' holds a {type(kept).__name__}, expected what was frozen")
    challenger = restored(kept, problem, challenge)
    claims = tuple(
        (replace(claim, delta=frozen.delta, margin=frozen.margin), grids)
        for claim, grids in challenger.claims
        for frozen in [challenge.claim(name_of(claim))]
    )
    frozen = FrozenTests(challenge.level, claims, challenger.models, window, challenger.terms.comparator)
    return Candidate(challenger.policy, reference, reference, columns_read(challenger.policy), record, None, frozen)
