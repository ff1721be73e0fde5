"""Hashes of what a batch holds: of decisions, rows and whole episodes, whatever they are called and in whatever order they come.

They tell one thing from another up to a chance of 2^-64 a pair and are the same on every machine. They are no secret and no
proof: whoever wants to can make two things with one hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from aegis.files import digest_of
from aegis.problem.batch import AnyArray, Batch
from aegis.problem.problem import Problem

Hashes = npt.NDArray[np.uint64]  # one for each row or id
Steps = Mapping[str, Mapping[str, Sequence[float]]]

_ODD = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(32)


def spread(values: Hashes) -> Hashes:
    """Return the values `[n]` with every bit spread over all 64 (the finaliser of splitmix64)."""
    mixed = values ^ (values >> np.uint64(30))
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(27)
    mixed *= np.uint64(0x94D049BB133111EB)
    mixed ^= mixed >> np.uint64(31)
    return mixed


def folded(total: Hashes, values: AnyArray, exact: bool = True) -> Hashes:
    """Return hashes `[n]` that also depend on values `[n]` or `[n, d]`: numbers, codes or flags.

    exact: numbers count with all their digits, else as 32-bit floats, as they are after many an export.
    """
    if values.ndim > 1:
        for column in np.moveaxis(values.reshape(len(values), -1), 1, 0):
            total = folded(total, column, exact)
        return total
    found = (total ^ _bits(values, exact)) * _ODD
    found ^= found >> _SHIFT
    return found


def decision_hashes(batch: Batch, exact: bool = True) -> dict[str, Hashes]:
    """Return by level a hash `[n]` of each decision: its contexts and action, and those of the decisions above it."""
    found: dict[str, Hashes] = {}
    above = np.ones(len(batch), dtype=np.uint64)
    for name, table in batch.levels.items():
        total = above[table.parent]
        for variable in sorted(table.context):
            total = folded(total, table.context[variable], exact)
        above = folded(total, table.action if table.value is None else table.value, exact)
        found[name] = above
    return found


def row_hashes(batch: Batch, ids: Iterable[Hashes] = ()) -> Hashes:
    """Return a hash `[n]` of each innermost row, of everything the batch knows of it; ids: hashes `[E]` of episodes count too."""
    innermost = list(batch.levels)[-1]
    total = decision_hashes(batch)[innermost]
    for name, rows in batch.ancestors(innermost).items():
        table = batch.levels[name]
        for values in (table.mu_taken, table.mu_full, table.available):
            if values is not None:
                total = folded(total, values if name == innermost else values[rows])
    own = (batch.reward, batch.observed, batch.outcome, batch.closed)
    for values in (*own, *(batch.guards[name] for name in sorted(batch.guards))):
        if values is not None:
            total = folded(total, values)
    for name in sorted(batch.extra):
        if batch.extra[name].dtype != object:
            total = folded(total, batch.extra[name])
    owner = batch.episode_of(innermost)
    for hashes in ids:
        total = (total ^ hashes[owner]) * _ODD
        total ^= total >> _SHIFT
    return spread(total)


def episode_hashes(batch: Batch) -> Hashes:
    """Return a hash `[E]` of each episode: the contexts, actions and rewards of its rows in any order. Ids do not count."""
    innermost = list(batch.levels)[-1]
    rows = decision_hashes(batch, exact=False)[innermost]
    if batch.reward is not None:
        rows = folded(rows, batch.reward, exact=False)
    rows = spread(rows)
    owner = batch.episode_of(innermost)
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, owner.size), dtype=bool), owner[1:] != owner[:-1]]))
    total = np.zeros(len(batch), dtype=np.uint64)
    if starts.size:
        total[owner[starts]] = np.add.reduceat(rows, starts)
    return spread(total)


def coarse_path_hashes(batch: Batch, steps: Steps, offset: float) -> dict[str, Hashes]:
    """Return by level a hash `[n]` of what each decision knew: its contexts, and the contexts and actions above it.

    Numbers count as cells of a grid: steps by level and context, one per number (infinite: the number does not count), moved by
    `offset` steps. Contexts without steps, the categories, count as they are. The decision's own action does not count.
    """
    found: dict[str, Hashes] = {}
    above = np.ones(len(batch), dtype=np.uint64)
    for name, table in batch.levels.items():
        total = above[table.parent]
        for variable in sorted(table.context):
            values, widths = table.context[variable], steps[name].get(variable)
            if widths is not None:
                with np.errstate(over="ignore", invalid="ignore"):
                    values = np.floor(values / np.asarray(widths if values.ndim > 1 else widths[0]) + offset)
            total = folded(total, values)
        found[name] = spread(total)
        above = folded(total, table.action)
    return found


def content_digest(problem: Problem) -> str:
    """Return a digest of what `episode_hashes` looks at: hashes under two problems can be compared if it is the same."""
    return digest_of([_content(problem), problem.reward.column])


def path_digest(problem: Problem) -> str:
    """Return a digest of what `coarse_path_hashes` looks at: the columns of contexts and actions, not that of the reward."""
    return digest_of(_content(problem))


def _content(problem: Problem) -> list[list[Any]]:
    """Return the columns of contexts and actions by level, as plain data."""
    return [
        [
            level.name,
            level.actions.column,
            [str(value) for value in level.actions.values] + (["exact"] if level.actions.continuous else []),
            sorted([variable.name, variable.kind, *variable.columns, *map(str, variable.values)] for variable in level.context),
        ]
        for level in problem.levels
    ]


def _bits(values: AnyArray, exact: bool) -> Hashes:
    """Return values `[n]` as whole numbers; 0 and -0 are one, and so is all that is not a number."""
    if values.dtype.kind != "f":
        return values.astype(np.int64).view(np.uint64)
    found: Hashes
    if exact:
        found = (values.astype(np.float64) + 0.0).view(np.uint64)
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            found = (values.astype(np.float32) + np.float32(0.0)).view(np.uint32).astype(np.uint64)
    unknown = np.isnan(values)
    return np.where(unknown, _ODD, found) if unknown.any() else found
