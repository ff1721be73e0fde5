"""Hashes of decisions, rows and whole episodes, independent of ids and row order, and samples of them that recognise episodes.

Two different things have the same hash with probability 2^-64, and hashes are the same on every machine. They are not
cryptographic. `EpisodeFingerprints` keeps only episodes that occurred once, those with the smallest hashes: what occurs
often in one log occurs in another by chance. The probability of that follows from the episodes that occurred twice (Good
and Turing): the share of further episodes that equal one of those seen once is about `2 double / episodes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.errors import PolicyError
from aegis.files import json_digest
from aegis.problem.batch import Batch
from aegis.problem.problem import Problem
from aegis.problem.variables import AnyArray

Hashes = npt.NDArray[np.uint64]  # one for each row or id


_ODD = np.uint64(0x9E3779B97F4A7C15)

_SHIFT = np.uint64(32)


def mix_bits(values: Hashes) -> Hashes:
    """Return the values `[n]` with every bit spread over all 64 (the finaliser of splitmix64)."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def fold_hash(total: Hashes, values: AnyArray, exact: bool = True) -> Hashes:
    """Return hashes `[n]` that also depend on values `[n]` or `[n, d]`: numbers, codes or flags.

    exact: numbers count with all their digits, else as 32-bit floats, as they are after many an export.
    """
    if values.ndim > 1:
        for column in np.moveaxis(values.reshape(len(values), -1), 1, 0):
            total = fold_hash(total, column, exact)
        return total
    folded = (total ^ _bits(values, exact)) * _ODD
    folded ^= folded >> _SHIFT
    return folded


def decision_hashes(batch: Batch, exact: bool = True) -> dict[str, Hashes]:
    """Return by level a hash `[n]` of each decision: its contexts and action, and those of the decisions above it."""
    hashes: dict[str, Hashes] = {}
    above = np.ones(len(batch), dtype=np.uint64)
    for name, table in batch.levels.items():
        total = above[table.parent]
        for variable in sorted(table.context):
            total = fold_hash(total, table.context[variable], exact)
        above = fold_hash(total, table.action if table.value is None else table.value, exact)
        hashes[name] = above
    return hashes


def row_hashes(batch: Batch, ids: Iterable[Hashes] = ()) -> Hashes:
    """Return a hash `[n]` of each innermost row, of everything the batch knows of it; ids: hashes `[E]` of episodes count too."""
    innermost = list(batch.levels)[-1]
    total = decision_hashes(batch)[innermost]
    for name, rows in batch.ancestors(innermost).items():
        table = batch.levels[name]
        for values in (table.mu_taken, table.mu_full, table.available):
            if values is not None:
                total = fold_hash(total, values if name == innermost else values[rows])
    own = (batch.reward, batch.observed, batch.outcome, batch.closed)
    for values in (*own, *(batch.guards[name] for name in sorted(batch.guards))):
        if values is not None:
            total = fold_hash(total, values)
    for name in sorted(batch.extra):
        if batch.extra[name].dtype != object:
            total = fold_hash(total, batch.extra[name])
    owner = batch.episode_of(innermost)
    for hashes in ids:
        total = (total ^ hashes[owner]) * _ODD
        total ^= total >> _SHIFT
    return mix_bits(total)


def episode_hashes(batch: Batch) -> Hashes:
    """Return a hash `[E]` of each episode: the contexts, actions and rewards of its rows in any order. Ids do not count."""
    innermost = list(batch.levels)[-1]
    rows = decision_hashes(batch, exact=False)[innermost]
    if batch.reward is not None:
        rows = fold_hash(rows, batch.reward, exact=False)
    rows = mix_bits(rows)
    owner = batch.episode_of(innermost)
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, owner.size), dtype=bool), owner[1:] != owner[:-1]]))
    total = np.zeros(len(batch), dtype=np.uint64)
    if starts.size:
        total[owner[starts]] = np.add.reduceat(rows, starts)
    return mix_bits(total)


def content_digest(problem: Problem) -> str:
    """Return a digest of what `episode_hashes` looks at: hashes under two problems can be compared if it is the same."""
    columns = [
        [
            level.name,
            level.actions.column,
            [str(value) for value in level.actions.values] + (["exact"] if level.actions.continuous else []),
            sorted([variable.name, variable.kind, *variable.columns, *map(str, variable.values)] for variable in level.context),
        ]
        for level in problem.levels
    ]
    return json_digest([columns, problem.reward.column])


def _bits(values: AnyArray, exact: bool) -> Hashes:
    """Return values `[n]` as whole numbers; 0 and -0 are one value, and so are all nan."""
    if values.dtype.kind != "f":
        return values.astype(np.int64).view(np.uint64)
    bits: Hashes
    if exact:
        bits = (values.astype(np.float64) + 0.0).view(np.uint64)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            bits = (values.astype(np.float32) + np.float32(0.0)).view(np.uint32).astype(np.uint64)
    unknown = np.isnan(values)
    return np.where(unknown, _ODD, bits) if unknown.any() else bits


MOST_FINGERPRINTS = 4096  # hashes that are kept


@dataclass(frozen=True, slots=True)
class EpisodeFingerprints:
    """How many episodes were seen, how many of their hashes occurred, once and twice; `[k]` of the first, sorted, the smallest.

    content: what was hashed (`content_digest`).
    """

    episodes: int
    distinct: int
    single: int
    double: int
    hashes: Hashes
    content: str

    @classmethod
    def among(cls, parts: Sequence[Hashes], content: str) -> EpisodeFingerprints:
        """Return what is kept of the hashes of episodes, given in parts."""
        values, counts = np.unique(np.concatenate([np.zeros(0, dtype=np.uint64), *parts]), return_counts=True)
        single = values[counts == 1]
        return cls(
            episodes=int(counts.sum()),
            distinct=values.size,
            single=single.size,
            double=int((counts == 2).sum()),
            hashes=single[:MOST_FINGERPRINTS],
            content=content,
        )

    @property
    def chance(self) -> float:
        """Return the chance that one further episode equals one of those kept; estimated a little too high."""
        if not self.single:
            return 1.0
        return min(1.0, 2.0 * (self.double + 1) / self.episodes) * self.hashes.size / self.single

    @property
    def sampled(self) -> bool:
        """Return whether some hashes were left out."""
        return self.hashes.size < self.single

    def plain(self) -> dict[str, Any]:
        """Return plain data, for the record of a policy; the threshold is the largest hash kept, as all below it were."""
        return {
            "episodes": self.episodes,
            "distinct": self.distinct,
            "single": self.single,
            "double": self.double,
            "threshold": f"{int(self.hashes[-1]):016x}" if self.sampled else None,
            "hashes": self.hashes.astype(">u8").tobytes().hex(),
            "content": self.content,
        }

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> EpisodeFingerprints:
        """Return what `plain` gave; PolicyError for anything else."""
        try:
            hashes = np.frombuffer(bytes.fromhex(plain["hashes"]), dtype=">u8").astype(np.uint64)
            counts = {name: int(plain[name]) for name in ("episodes", "distinct", "single", "double")}
            return cls(**counts, hashes=hashes, content=str(plain["content"]))
        except (KeyError, TypeError, ValueError) as error:
            raise PolicyError(
                f"the record of a policy: its fingerprints cannot be read ({type(error).__name__}: {error}); learn it again"
            ) from error
