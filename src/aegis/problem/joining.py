"""Joining batches without losing or inventing anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from aegis.errors import ProblemError
from aegis.problem.batch import AnyArray, Batch, LevelTable
from aegis.problem.places import Places


def concat(batches: Sequence[Batch]) -> Batch:
    """Join batches of the same problem, one after the other.

    A missing mask, `observed` or `closed` counts as all true. What only some of the parts know is given up: `mu_full`,
    and `version` unless all agree. Everything else must be present in all parts or in none; ProblemError otherwise.
    """
    if not batches:
        raise ProblemError("there are no batches to join; give at least one")
    if len(batches) == 1:
        return batches[0]
    if any(list(batch.levels) != list(batches[0].levels) for batch in batches):
        raise ProblemError(f"batches with different levels cannot be joined: {[list(batch.levels) for batch in batches]}")
    levels: dict[str, LevelTable] = {}
    above = [len(batch) for batch in batches]
    for name in batches[0].levels:
        tables = [batch.levels[name] for batch in batches]
        shifts = np.cumsum([0, *above[:-1]])
        versions = {table.version for table in tables}
        full = [table.mu_full for table in tables]
        levels[name] = LevelTable(
            np.concatenate([table.parent + shift for table, shift in zip(tables, shifts, strict=True)]).astype(np.int32),
            _join_columns([table.context for table in tables], f"context of level '{name}'"),
            np.concatenate([table.action for table in tables]),
            np.concatenate([table.mu_taken for table in tables]),
            None if any(part is None for part in full) else _join(full, "mu_full"),
            _join_masks([table.available for table in tables], [table.action.shape for table in tables]),
            versions.pop() if len(versions) == 1 else None,
            _join([table.value for table in tables], f"exact actions of level '{name}'"),
            _join([table.base for table in tables], f"base actions of level '{name}'"),
            _join([table.incumbent for table in tables], f"incumbent of level '{name}'"),
        )
        above = [len(table) for table in tables]
    return Batch(
        np.concatenate([batch.episode for batch in batches]),
        levels,
        _join([batch.reward for batch in batches], "reward"),
        _join_masks([batch.observed for batch in batches], [(count,) for count in above]),
        _join([batch.outcome for batch in batches], "outcome"),
        _join_columns([batch.guards for batch in batches], "guards"),
        _join([batch.cluster for batch in batches], "cluster"),
        _join([batch.time for batch in batches], "time"),
        _join_columns([batch.extra for batch in batches], "extra columns"),
        _join_masks([batch.closed for batch in batches], [(count,) for count in above]),
        _join_places([batch.places for batch in batches]),
    )


def _join_places(parts: Sequence[Places | None]) -> Places | None:
    """Join the origins of rows; given up unless all parts know them, of the same files."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts) or len({part.files for part in known}) > 1:
        return None
    return Places(known[0].files, np.concatenate([part.file for part in known]), np.concatenate([part.row for part in known]))


def _join(parts: Sequence[AnyArray | None], what: str) -> AnyArray | None:
    present = [part for part in parts if part is not None]
    if not present:
        return None
    if len(present) < len(parts):
        raise ProblemError(f"cannot join batches: {len(present)} of {len(parts)} have '{what}'; all or none must have it")
    return np.concatenate(present)


def _join_columns(parts: Sequence[Mapping[str, AnyArray]], what: str) -> dict[str, AnyArray]:
    if any(set(part) != set(parts[0]) for part in parts):
        raise ProblemError(f"cannot join batches: the {what} differ: {[sorted(part) for part in parts]}")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _join_masks(parts: Sequence[npt.NDArray[np.bool_] | None], rows: Sequence[tuple[int, ...]]) -> npt.NDArray[np.bool_] | None:
    """Join masks `[n]` or `[n, A]`; a part without one is all true."""
    present = [part for part in parts if part is not None]
    if not present:
        return None
    tail = present[0].shape[1:]
    whole = [np.ones((*count, *tail), dtype=np.bool_) if part is None else part for part, count in zip(parts, rows, strict=True)]
    return np.concatenate(whole)
