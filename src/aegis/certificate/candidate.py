"""A candidate: a policy that may be handed control, where it comes from, what fixes it, and which episodes it has seen.

A policy folder has a digest of all that decides what it does. A function of the user has only a name, and what the name leads
to may change. A digest of the file it is defined in shows most changes; a sum over the certified rows of hashes of the
probabilities it gave to the actions taken shows every change that matters there. The tests of a challenger at a gate were
fixed with it (`FrozenTests`): certifying its log with them gives the numbers of the gate.

A learned policy records a sample of the hashes of the episodes it has seen (`EpisodeFingerprints`), so that AEGIS recognises them
under other ids and file names. More matches among the certified episodes than chance explains refuse the certificate.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from scipy.special import bdtrc

from aegis.certificate.claims import Claim
from aegis.errors import AegisError, LogError, PolicyError, RefusedError
from aegis.evidence import Grid
from aegis.logs import Split
from aegis.ope import LOGGER_COMPARATOR, Closeness, Comparator, RewardModels, closeness_to
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
    policy_columns,
    policy_digest,
)
from aegis.problem import (
    Batch,
    EpisodeFingerprints,
    Hashes,
    Policy,
    Problem,
    RewardModel,
    Storable,
    content_digest,
    decision_hashes,
    episode_hashes,
    fold_hash,
    mix_bits,
)

COUNTED_ARM = "agent"  # the arm of episodes that are evidence


@dataclass(frozen=True, slots=True)
class GateWindow:
    """The episodes that a gate counted for a challenge, by two columns of its log: their numbers, and who acted in them."""

    number: str
    arm: str
    since: int
    until: int

    def on_side(self, side: str, problem: Problem, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes were counted, `bool[E]`; on the side 'prior' the others."""
        for column in (self.number, self.arm):
            if column not in batch.extra:
                raise LogError(
                    f"the log of a gate has a column '{column}', found none: certify on the log that was exported with it"
                )
        owner = batch.episode_of(problem.innermost.name)
        first = np.searchsorted(owner, np.arange(len(batch)))
        numbers = np.asarray(batch.extra[self.number], dtype=np.float64)[first]
        counted = (numbers >= self.since) & (numbers <= self.until) & (batch.extra[self.arm][first] == COUNTED_ARM)
        mask: npt.NDArray[np.bool_] = np.asarray(counted, dtype=np.bool_)
        return mask if side == "certify" else ~mask

    def describe(self) -> dict[str, Any]:
        """Return plain data."""
        return {"kind": "gate", "number": self.number, "arm": self.arm, "since": self.since, "until": self.until}


@dataclass(frozen=True, slots=True)
class FrozenTests:
    """The tests of a challenger at `level`: claims at their risks with the grids of their bets, predictions, and the units.

    overruled: further units, that count at their worst.
    """

    level: str
    claims: tuple[tuple[Claim, tuple[Grid, ...]], ...]
    models: RewardModels
    window: GateWindow
    comparator: Comparator = LOGGER_COMPARATOR
    overruled: int = 0

    @property
    def delta(self) -> float:
        """Return the risk of everything that is claimed."""
        return sum(claim.delta for claim, _ in self.claims)


PROBABILITY_STEPS = 2.0**20  # last digits of a probability may depend on how many rows are asked for at once


def is_code(policy: object) -> bool:
    """Say whether a policy or a model, or a member of it, is code that a certificate cannot hold."""
    return any(True for _ in _foreign_code(policy))


def code_modules(policy: Policy) -> list[str]:
    """Return the modules that the code of a policy, which is not this package's, is defined in."""
    return [name for item in _foreign_code(policy) if (name := _module_name(item)) != "builtins"]


def code_digest(policy: Policy) -> str | None:
    """Return a digest of the files that the code of a policy is defined in; None if there are none."""
    modules = [sys.modules.get(_module_name(item)) for item in _foreign_code(policy)]
    digests = []
    for path in sorted({str(getattr(module, "__file__", None)) for module in modules}):
        if path.endswith(".py"):
            with contextlib.suppress(OSError):
                digests.append(hashlib.sha256(Path(path).read_bytes()).digest())
    return hashlib.sha256(b"".join(digests)).hexdigest() if digests else None


def _foreign_code(policy: object) -> Iterator[object]:
    """Yield the functions and objects of a policy whose code is not this package's."""
    if isinstance(policy, Function):
        function: object = policy.function
        while isinstance(function, functools.partial):
            function = function.func
        yield function
    elif not type(policy).__module__.startswith("aegis."):
        yield policy
    if isinstance(policy, Storable):
        with contextlib.suppress(AegisError):
            for member in policy.state().members.values():
                yield from _foreign_code(member)


def _module_name(item: object) -> str:
    """Return the name of the module in which a function, or the class of an object, is defined."""
    return str(getattr(item, "__module__", None) or type(item).__module__)


@dataclass(slots=True)
class CodeBehaviour:
    """What a policy did on rows, by level: a sum of hashes, the same in any order and in any blocks of rows."""

    levels: Sequence[str]
    sums: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sums = dict.fromkeys(self.levels, 0)

    def add(self, policy: Policy, batch: Batch, rows: Mapping[str | None, npt.NDArray[np.bool_]]) -> None:
        """Add the decisions of a batch; rows: by level which of them `bool[n]` count, all where a level is not named."""
        known = decision_hashes(batch)
        for level in self.levels:
            chances = np.round(np.asarray(policy.taken(level, batch)) * PROBABILITY_STEPS)
            hashes = mix_bits(functools.reduce(fold_hash, chances, known[level]))
            mask = rows.get(level)
            hashes = hashes if mask is None else hashes[mask]
            self.sums[level] = (self.sums[level] + int(hashes.sum(dtype=np.uint64))) % 2**64

    def merge(self, other: CodeBehaviour) -> None:
        """Add what the same policy did on other rows."""
        self.sums = {level: (total + other.sums[level]) % 2**64 for level, total in self.sums.items()}

    def plain(self) -> dict[str, str]:
        """Return the sums as text, by level."""
        return {level: f"{total:016x}" for level, total in self.sums.items()}


@runtime_checkable
class LearnedPolicy(Protocol):
    """What learning from a log gives: a policy, the record of how it came about, and the reward models that came along."""

    @property
    def policy(self) -> Policy:
        """Return the policy."""

    @property
    def record(self) -> Mapping[str, Any]:
        """Return the record, with the split."""

    @property
    def rewards(self) -> RewardModel:
        """Return the reward models."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A policy that may be handed control, and where it comes from.

    Parameters
    ----------
    policy
        The policy.
    name
        Its name in certificates.
    reference
        The folder, columns or function that it was made from.
    columns
        The columns of the log that it reads.
    record
        What `learn` wrote beside the policy. It is empty for a policy from elsewhere, which is taken to be fixed beforehand.
    rewards
        The reward model that was learned with it.
    frozen
        Its tests, if they were fixed with it; None: they are fixed when a certificate is requested.
    """

    policy: Policy
    name: str = "candidate"
    reference: str = ""
    columns: tuple[str, ...] = ()
    record: Mapping[str, Any] = field(default_factory=dict)
    rewards: RewardModel | None = None
    frozen: FrozenTests | None = None

    @classmethod
    def of(cls, policy: Policy | LearnedPolicy | Candidate, position: int = 1) -> Candidate:
        """Return a candidate for a policy as it is, or for what was learned."""
        if isinstance(policy, Candidate):
            return policy
        if isinstance(policy, LearnedPolicy):
            kind = str(policy.record.get("kind", "learned"))
            return cls(policy.policy, f"{kind} policy", record=policy.record, rewards=policy.rewards)
        return cls(policy, f"candidate {position}", columns=policy_columns(policy))

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

    @property
    def unlearned(self) -> bool:
        """Return whether the policy records that it learned from no unit (a share of 0)."""
        split = self.record.get("split")
        return split is not None and Split.of(split).unlearned

    def levels(self, problem: Problem) -> tuple[str, ...]:
        """Return the levels the policy has something to say about, outermost first: all unless it or its record says which."""
        named, policy = self.record.get("scope"), self.policy
        if named is None and isinstance(policy, TargetColumns | FullColumns):
            named = policy.columns
        elif named is None and isinstance(policy, Capped | Function):
            named = policy.levels
        elif named is None and isinstance(policy, Hybrid):
            named = policy.scope
        return tuple(name for name in problem.names if named is None or name in named)

    def close(self, level: str, comparator: Comparator) -> Closeness:
        """Return how close the policy stays to its comparator at a level, by construction."""
        return closeness_to(self.policy, level, comparator)

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
        floor = level in policy.levels and policy.share > 0 and follows_log(policy.legacy, level)
        return floor or follows_log(policy.new, level)
    if isinstance(policy, Mixture):
        return any(follows_log(member, level) for member in policy.policies)
    if isinstance(policy, Hybrid):
        return follows_log(policy.new if level in policy.scope else policy.legacy, level)
    return False


CONTAMINATION_ALPHA = 1e-4  # the probability that an honest candidate is refused


@dataclass(slots=True)
class SeenEpisodes:
    """Which of the episodes in the record of a candidate came again among those that were tested."""

    name: str
    record: EpisodeFingerprints
    tested: int = 0
    example: str | None = None
    met: npt.NDArray[np.bool_] = field(init=False)

    def __post_init__(self) -> None:
        self.met = np.zeros(self.record.hashes.size, dtype=bool)

    def add(self, hashes: Hashes, batch: Batch, rows: npt.NDArray[np.int64]) -> None:
        """Add episodes by their hashes `[k]`; rows `[k]`: which episodes of the batch they are."""
        self.tested += hashes.size
        known = self.record.hashes
        if not known.size or not hashes.size:
            return
        place = np.minimum(np.searchsorted(known, hashes), known.size - 1)
        hit = known[place] == hashes
        if hit.any():
            self.met[place[hit]] = True
            value = batch.episode[rows[int(np.argmax(hit))]]
            self.example = self.example or (", ".join(map(str, value)) if batch.episode.dtype.names else str(value))

    def merge(self, other: SeenEpisodes) -> None:
        """Add what came again elsewhere in the log."""
        self.tested += other.tested
        self.met |= other.met
        self.example = self.example or other.example

    def check(self) -> None:
        """Raise RefusedError if more different episodes came again than chance explains."""
        hits = int(self.met.sum())
        if hits and float(bdtrc(hits - 1, max(self.tested, hits), self.record.chance)) < CONTAMINATION_ALPHA:
            raise RefusedError(
                f"{'at least ' if self.record.sampled else ''}{hits} of the certified episodes {'is' if hits == 1 else 'are'} "
                f"among those that {self.name} was learned from, with the same contexts, actions and rewards, for example "
                f"episode {self.example}: a certificate needs units that the policy has not seen",
                fix="certify on other data, or on the log it was learned from, with its ids as they were and without --fresh",
            )


def start_recognition(
    problem: Problem, candidates: Sequence[Candidate], fresh: bool = False
) -> tuple[list[SeenEpisodes], list[str]]:
    """Return one for each candidate that recorded what it has seen; and the names of those that did not, though learned.

    fresh: you declare that the log is new to all of them. That has to be shown: RefusedError if there is nothing to compare.
    """
    recognised: list[SeenEpisodes] = []
    unknown: list[str] = []
    for candidate in candidates:
        plain = candidate.record.get("fingerprints")
        prints = None if plain is None else EpisodeFingerprints.of(plain)
        if prints is not None and prints.content == content_digest(problem):
            recognised.append(SeenEpisodes(candidate.name, prints))
        elif candidate.record:
            unknown.append(candidate.name)
            if fresh:
                reason = (
                    "no fingerprints of the episodes it was learned from (an earlier version wrote it)"
                    if prints is None
                    else "fingerprints of other columns of contexts, actions or rewards than those of this problem"
                )
                raise RefusedError(
                    f"the record of {candidate.name} holds {reason}, so that nothing shows that this log is new to it, as "
                    "--fresh says",
                    fix="learn it again with this version and this problem file, or leave out --fresh, if the ids of the log are "
                    "those of learning",
                )
    return recognised, unknown


def add_to_recognition(recognised: Sequence[SeenEpisodes], batch: Batch, mask: npt.NDArray[np.bool_]) -> None:
    """Add the episodes of a batch that `mask` `[E]` names."""
    if recognised and mask.any():
        rows = np.flatnonzero(mask)
        hashes = episode_hashes(batch)[rows]
        for item in recognised:
            item.add(hashes, batch, rows)
