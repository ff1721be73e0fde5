"""Challenges: the tests of one frozen challenger as the gate sees them, in thresholds, grids and whole numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from types import NoneType
from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, TypeAdapter, model_serializer

from aegis.errors import InputError, SettingError
from aegis.evidence import Blend, Grid, Sketch
from aegis.handover.gate_settings import Cap

# The claims about a challenger.
GAIN, VALUE = "gain", "value"

Logs = tuple[int | None, ...]  # one unit under each bet: the logarithm of its factor in units of 2^-32; None kills the bet

UNIT = 2.0**32

SLACK = 1e-6  # by how much two ways to add the same logarithms may differ, and far more


@dataclass(frozen=True, slots=True)
class PartState:
    """One of the tests that a claim averages. offset: by how much its values were lifted. sums: over the units so far."""

    offset: float
    bets: tuple[float, ...]
    log_weights: tuple[float, ...]
    sums: Annotated[Logs, Field(exclude=True)]

    @classmethod
    def start(cls, offset: float, grid: Grid) -> PartState:
        """Return the test before its first unit."""
        return cls(offset, tuple(map(float, grid.bets)), tuple(map(float, grid.log_weights)), (0,) * grid.bets.size)

    def add(self, logs: Sequence[int | None]) -> PartState:
        """Return the test after one more unit."""
        try:
            sums: Logs = tuple(map(operator.add, self.sums, logs))
        except TypeError:  # some bets are dead, which is rare
            pairs = zip(self.sums, logs, strict=True)
            sums = tuple(None if a is None or b is None else a + b for a, b in pairs)
        return PartState(self.offset, self.bets, self.log_weights, sums)

    def at_most(self, count: int, mean: float) -> float:
        """Return a number that the log wealth against `mean` after `count` units does not exceed, found without arrays."""
        known = zip(self.sums, self.log_weights, _drifts(self.bets, mean + self.offset), strict=True)
        logs = [weight + total / UNIT - count * drift for total, weight, drift in known if total is not None]
        return max(logs, default=-math.inf) + math.log(len(self.bets))

    def sketch(self, count: int) -> Sketch:
        """Return the sketch of `count` units."""
        return Sketch(Grid(np.array(self.bets), np.array(self.log_weights), 0), count, self.sums)


def _before_first_unit(plain: Any) -> Any:
    bets = plain.get("bets") if isinstance(plain, Mapping) else None
    return {**plain, "sums": (0,) * len(bets)} if isinstance(bets, list) else plain


@dataclass(frozen=True, slots=True)
class ClaimState:
    """A claim about a challenger: that its gain exceeds `margin` (scaled), or a bound of its value.

    what: 'gain', 'value' or the column of a guard. delta: its risk. low, high: the bracket of the bound. No parts: the challenger
    does the same as what it is compared with, and nothing is ever certified.
    """

    what: str
    margin: float
    delta: float
    low: float
    high: float
    parts: tuple[Annotated[PartState, BeforeValidator(_before_first_unit)], ...]
    count: Annotated[int, Field(exclude=True)] = 0

    def add(self, logs: Sequence[Sequence[int | None]]) -> ClaimState:
        """Return the claim after one more unit: the numbers of each part."""
        added = tuple(part.add(own) for part, own in zip(self.parts, logs, strict=True))
        return ClaimState(self.what, self.margin, self.delta, self.low, self.high, added, self.count + 1)

    @property
    def blend(self) -> Blend | None:
        """Return the evidence; None if there is nothing to test."""
        if not self.parts:
            return None
        return Blend(tuple(part.sketch(self.count) for part in self.parts), tuple(part.offset for part in self.parts))

    @property
    def log_evidence(self) -> float:
        """Return the logarithm of the evidence against the hypothesis that the margin is not exceeded."""
        blend = self.blend
        return -math.inf if blend is None or not self.count else blend.log_wealth(self.margin)

    @property
    def certified(self) -> bool:
        """Say whether the margin is certified to be exceeded now.

        A margin below the bracket is exceeded with any data, unless a dead bet shows that the bracket is wrong; one at
        its upper end cannot be.
        """
        if not self.parts or not self.count or self.margin >= self.high:
            return False
        if self.margin < self.low:
            return self.lower > self.low or all(total is not None for part in self.parts for total in part.sums)
        threshold = math.log(1.0 / self.delta)
        # At most units most tests are far from their threshold, which is seen at a fraction of the cost.
        for part in self.parts:
            if part.at_most(self.count, self.margin) >= threshold - SLACK:
                return self.log_evidence >= threshold
        return False

    @property
    def lower(self) -> float:
        """Return the lower bound of the scaled gain or value; the lowest possible without evidence."""
        blend = self.blend
        return self.low if blend is None or not self.count else blend.lower(self.delta, self.low, self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Challenge:
    """A frozen challenger at one level and all that was claimed of it.

    kind: 'handover' from the legacy, or 'upgrade' of a deployed policy. policy: its digest. since: the first unit that counts,
    the first to start after the freeze. crossed: units it took until everything was certified, None before. gain_lower: the
    bound of the gain at that moment. seal: the digest of what the policy answered at the freeze, if it is code.
    """

    name: str
    freeze: int
    level: str
    kind: str
    policy: str
    since: int
    cap: Cap
    seal: str | None = None
    claims: tuple[ClaimState, ...]
    crossed: Annotated[int | None, Field(exclude=True)] = None
    gain_lower: Annotated[float | None, Field(exclude=True)] = None

    @property
    def units(self) -> int:
        """Return how many units have counted."""
        return max((claim.count for claim in self.claims), default=0)

    @property
    def certified(self) -> bool:
        """Say whether the gain and every guard are certified now."""
        return all(claim.certified for claim in self.claims if claim.what != VALUE)

    def claim(self, what: str) -> ClaimState:
        """Return a claim by what it is about."""
        return next(claim for claim in self.claims if claim.what == what)

    @property
    def spent(self) -> float:
        """Return the risk of all its claims that handing over rests on."""
        return sum(claim.delta for claim in self.claims if claim.what != VALUE)

    def add(self, evidence: Mapping[str, Sequence[Sequence[int | None]]]) -> Challenge:
        """Return the challenge after one more unit; evidence: by claim, the numbers of each part."""
        expected = {claim.what: [len(part.sums) for part in claim.parts] for claim in self.claims}
        bets = {what: list(map(len, parts)) for what, parts in evidence.items()}
        if bets != expected:
            raise SettingError(
                f"challenge '{self.name}': the evidence is of tests with bets {bets}, by claim, and {expected} were frozen: "
                "it is of another challenger. If a run was taken up, its plant, host or code have changed since; start anew"
            )
        return replace(self, claims=tuple(claim.add(evidence[claim.what]) for claim in self.claims))

    @model_serializer(mode="wrap")
    def _without_empty_seal(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = dump(self)
        if self.seal is None:
            del plain["seal"]
        return plain

    def plain(self) -> dict[str, Any]:
        """Return plain data of the challenge as it is opened."""
        plain: dict[str, Any] = _CHALLENGE.dump_python(self, mode="json")
        return plain

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Challenge:
        """Return the challenge as it is opened, from plain data; ValueError if they are not a challenge."""
        return _CHALLENGE.validate_python(plain)


_CHALLENGE = TypeAdapter(Challenge)


@lru_cache(maxsize=4096)
def _drifts(bets: tuple[float, ...], lifted: float) -> tuple[float, ...]:
    """Return by how much each bet's log wealth falls per unit at a mean `lifted` by its offset; -inf if it cannot be said."""
    return tuple(math.log1p(bet * lifted) if bet * lifted > -1.0 else -math.inf for bet in bets)


LARGEST = 2**62  # of a number of evidence, so that it can be kept in 64 bits


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
                f"the test of '{claim.what}' cannot cover means in [{claim.low}, {claim.high}] with bets up to {bets.max()}"
            )


SEAL_FILES, NO_FILES = " files ", "none"  # between the digest of the answers and that of the files
