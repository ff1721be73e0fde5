"""The record of what a policy was learned from: which side of which split, by which units, and how to know them again.

A certificate uses the other side, and refuses units that it recognises, whatever they are called by then.
"""

from __future__ import annotations

from typing import Any

from aegis.logs.digest import part_digests, total_digest
from aegis.logs.source import Source
from aegis.logs.split import Split
from aegis.problem import Seen, Tracing, content_digest, episode_hashes, path_digest


def learning_record(source: Source, split: Split) -> dict[str, Any]:
    """Return split, side, columns of the units, fingerprints and digests of the log, as plain data; reads the prior side once."""
    problem, placed = source.problem, source.placed(split)
    return {
        "split": placed.describe(),
        "side": "prior",
        "units": {"episode": list(problem.episode), "cluster": _plain(problem.cluster), "time": problem.time},
        "fingerprints": _seen(source, placed),
        "log": _log(source),
    }


def _plain(cluster: str | tuple[str, ...] | None) -> str | list[str] | None:
    return list(cluster) if isinstance(cluster, tuple) else cluster


def _seen(source: Source, split: Split) -> dict[str, Any]:
    """Return which episodes and decisions were learned from: a certificate knows them again whatever they are called then."""
    found = []
    tracing = Tracing(path_digest(source.problem))
    for batch in source.batches(side="prior", split=split):
        found.append(episode_hashes(batch))
        tracing.add(batch)
    return {**Seen.among(found, content_digest(source.problem)).plain(), "traces": tracing.done().plain()}


def _log(source: Source) -> dict[str, Any]:
    """Return the parts of the log by name and digest, and the digest of them all (that of `log_digest`)."""
    parts = source.files
    digests = part_digests(parts)
    names = [part.name for part in parts]
    return {"files": names, "digests": [digest.hex() for digest in digests], "digest": total_digest(digests).hex()}
