"""Finding where a split in time cuts a log, while it streams by."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa

from aegis.errors import LogError
from aegis.logs.convert import plain
from aegis.logs.keys import Hashes, hashes
from aegis.logs.schema import column_key
from aegis.logs.split import Cut, check_times, cut_at, earlier
from aegis.problem import AnyArray, Problem


def find_cut(tables: Iterable[pa.Table], problem: Problem, fraction: float) -> Cut:
    """Return the time before which the share `fraction` of the episodes starts, from converted tables of ids and times.

    An episode starts at the earliest time in its rows. Rows may come in any order and in any blocks: a hash and a time are kept
    for each episode of a block, and sorted at the end.
    Raises LogError if the problem names no time, if a side would be empty, or if a cluster has episodes on both sides: what
    its later episodes taught would be known on the prior side, and what its earlier ones taught on the other.
    """
    if problem.time is None:
        raise LogError("a split in time needs to know when episodes started: name the column under 'time' in the problem file")
    times: list[AnyArray] = []
    clusters: list[Hashes] = []
    parts: list[Hashes] = []
    for table in tables:
        ids = _hashes(table, "episode", problem.episode)
        when = plain(table[column_key("time", problem.time)]).to_numpy(zero_copy_only=False)
        first = _earliest(ids, check_times(when, problem.time))
        parts.append(ids[first])
        times.append(when[first])
        if problem.cluster is not None:
            clusters.append(_hashes(table, "cluster", problem.cluster_columns)[first])
    first = _earliest(np.concatenate(parts), np.concatenate(times))
    starts = np.concatenate(times)[first]
    cut = cut_at(starts, fraction)
    if problem.cluster is not None:
        _refuse_straddling(np.concatenate(clusters)[first], earlier(starts, cut), problem.cluster_columns, cut)
    return cut


def _earliest(ids: Hashes, times: AnyArray) -> AnyArray:
    """Return for each id the row with the earliest time."""
    order = np.lexsort((times, ids))
    ordered = ids[order]
    return order[np.concatenate([[True], ordered[1:] != ordered[:-1]])]


def _hashes(table: pa.Table, role: str, names: Iterable[str]) -> Hashes:
    return hashes([plain(table[column_key(role, name)]) for name in names])  # type: ignore[arg-type]


def _refuse_straddling(clusters: Hashes, before: AnyArray, columns: Sequence[str], cut: Cut) -> None:
    both = np.intersect1d(clusters[before], clusters[~before])
    if both.size:
        named = ", ".join(f"'{column}'" for column in columns)
        raise LogError(
            f"{both.size} of the {np.unique(clusters).size} clusters (column{'s' * (len(columns) > 1)} {named}) have "
            f"episodes before and after the cut, {cut}; a split in time needs clusters that lie on one side of it: "
            "take another share, or split by hash, which keeps clusters whole"
        )
