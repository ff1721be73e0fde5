"""What a gate does not believe: tests that are not fresh or could win by themselves, evidence that is not whole numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import NoneType

import numpy as np

from aegis.errors import InputError, SettingError
from aegis.handover.challenge import ClaimState
from aegis.problem import Problem

LARGEST = 2**62  # of a number of evidence, so that it can be kept in 64 bits


def refuse_interval(problem: Problem) -> None:
    """Raise SettingError if a level has actions on an interval: a gate bets with the probabilities of all actions."""
    for level in problem.levels:
        if level.actions.continuous:
            raise SettingError(
                f"level '{level.name}': the gate needs the probabilities of all actions, and those of an interval are a density; "
                "certify from a log ('aegis certify'), or give the action a 'grid'"
            )


def check_logs(logs: Sequence[int | None]) -> None:
    """Raise InputError unless evidence is whole numbers that 64 bits hold, or None for a bet that is lost."""
    types = set(map(type, logs))
    if not types <= {int, NoneType}:
        raise InputError(f"evidence is whole numbers of 2^-32, or None for a bet that is lost; found {list(logs)}")
    alive = [value for value in logs if value is not None] if NoneType in types else logs
    if alive and not -LARGEST <= min(alive) <= max(alive) <= LARGEST:  # type: ignore[type-var, operator]  # None is not in it
        raise InputError(f"no number of evidence lies beyond 2^62 in size, found {list(logs)}")


def check_claim(claim: ClaimState) -> None:
    """Raise SettingError unless a claim is a fresh test whose wealth starts at one."""
    if claim.count or any(value != 0 for part in claim.parts for value in part.sums):
        raise SettingError("a challenge starts without evidence: it is on units that start after its freeze")
    for name in ("margin", "low", "high"):
        if not math.isfinite(getattr(claim, name)):
            raise SettingError(f"the test of '{claim.what}' needs a finite '{name}', found {getattr(claim, name)}")
    for part in claim.parts:
        bets, weights = np.array(part.bets), np.exp(np.array(part.log_weights))
        same = bets.size == weights.size == len(part.sums)
        if not (bets.size and same and (bets > 0).all() and np.isfinite(bets).all() and weights.sum() <= 1.0 + 1e-9):
            raise SettingError(
                f"the test of '{claim.what}' needs bets above 0 with one weight each that sum to at most one; found bets "
                f"{list(part.bets)} and weights {weights.tolist()}"
            )
        if not (claim.low < claim.high and math.isfinite(part.offset) and bets.max() * (claim.low + part.offset) > -1.0):
            raise SettingError(
                f"the test of '{claim.what}' cannot speak of means in [{claim.low}, {claim.high}] with bets up to {bets.max()}"
            )
