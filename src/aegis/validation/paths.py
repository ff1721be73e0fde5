"""The wealth of a claim after every single unit, so that nothing that happened on the way is overlooked."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from aegis.certificate.collecting import Evidence
from aegis.certificate.view import View
from aegis.problem import Array


def wealth_path(item: Evidence, view: View, mean: float) -> Array:
    """Return the log wealth `[U]` against `mean` after each unit, in the order in which units count.

    view: all certified episodes of the evidence. Dead bets stay dead. The last entry is the log wealth of `item.blend`, up to
    the rounding of its sums.
    """
    return log_wealths(item, unit_evidence(item, [] if item.clusters else [item.compute(view)]), mean)


def unit_evidence(item: Evidence, pieces: Sequence[Sequence[Array]]) -> list[Array]:
    """Return what each part of the evidence makes of the units, `[U]`, `[U, 1]` or `[U, J]`.

    pieces: what `item.compute` gave for one view of episodes after the other; clusters are put together in the item itself.
    """
    if item.clusters:
        return [clusters.units() for clusters in item.clusters]
    return [np.concatenate(parts) for parts in zip(*pieces, strict=True)]


def log_wealths(item: Evidence, found: Sequence[Array], mean: float) -> Array:
    """Return the log wealth `[U]` against `mean` after each unit, from what `unit_evidence` found."""
    paths = [
        _part_path(values, part.kind == "values", grid.bets, grid.log_weights, mean + part.offset)
        for values, part, grid in zip(found, item.claim.parts, item.grids, strict=True)
    ]
    if not paths:
        return np.zeros(0)
    return np.asarray(logsumexp(np.stack(paths), axis=0) - math.log(len(paths)))


def crossing(path: Array, delta: float) -> int | None:
    """Return after how many units a path of log wealth first reaches 1/delta; None if it never does."""
    above = path >= math.log(1.0 / delta)
    return int(np.argmax(above)) + 1 if above.any() else None


def _part_path(values: Array, lifted: bool, bets: Array, log_weights: Array, mean: float) -> Array:
    """Return the log wealth `[U]` of one part from values `[U]` or `[U, 1]` (lifted), or from factors `[U, J]`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log1p(values.reshape(-1, 1) * bets) if lifted else np.log(values)
    logs = np.where(np.isnan(logs), -np.inf, logs)
    count = np.arange(1, len(logs) + 1)[:, None]
    return np.asarray(logsumexp(np.cumsum(logs, axis=0) - count * np.log1p(bets * mean) + log_weights, axis=1))
