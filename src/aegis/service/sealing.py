"""Seals of kept challengers: what the hash-chained journal says about each of them, so that one that was altered is found.

A challenger is more than its policy: the predictions that its bets use, and the terms of its claims, were fixed with it too. The
seal is of all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from aegis.errors import AegisError
from aegis.handover.events import Frozen
from aegis.handover.keeping import kept_policy
from aegis.handover.seals import check_files
from aegis.policies import policy_digest
from aegis.problem import Policy, Problem
from aegis.service.errors import Damaged

KEPT = "kept"  # beside the event of a freeze, by challenge: digests of what was kept with it


@dataclass(frozen=True, slots=True)
class Seal:
    """Digests of a challenger: of its policy, and of the piece that was kept; None in journals of earlier releases.

    code: of what it answered and of its files when it was frozen, if it is code.
    """

    policy: str
    piece: str | None
    code: str | None = None


def sealed(event: Frozen, body: Mapping[str, Any]) -> dict[str, Seal]:
    """Return the seals of a freeze, by challenge. body: of its record."""
    pieces = body.get(KEPT, {})
    return {item.name: Seal(item.policy, pieces.get(item.name), item.seal) for item in event.challenges}


def piece_digest(piece: bytes) -> str:
    """Return the digest of a kept challenger."""
    return sha256(piece).hexdigest()


def checked_policy(gate: str, challenge: str, seal: Seal | None, kept: tuple[str, bytes], problem: Problem) -> Policy:
    """Return the policy of a kept challenger; Damaged unless it is the one that was frozen. kept: its digest, and the piece."""
    digest, piece = kept
    if seal is None:
        raise Damaged(f"gate '{gate}': the journal knows of no challenge '{challenge}'; restore a backup")
    try:
        if digest != seal.policy:
            raise Damaged(f"it is kept under the digest {digest[:16]}, and {seal.policy[:16]} was frozen")
        if seal.piece not in (None, piece_digest(piece)):
            raise Damaged("its content is not that of the freeze")
        policy = kept_policy(piece, problem)
        found = policy_digest(policy)
        if found != seal.policy:
            raise Damaged(f"its policy has the digest {found[:16]}, and {seal.policy[:16]} was frozen")
    except AegisError as error:
        raise Damaged(
            f"gate '{gate}': the challenger that is kept for challenge '{challenge}' is not the one that was frozen ({error}): "
            "the store was altered; restore a backup"
        ) from error
    try:
        check_files(seal.code, policy, f"gate '{gate}', challenge '{challenge}'")
    except AegisError as error:
        raise Damaged(str(error)) from error
    return policy
