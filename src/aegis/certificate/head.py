"""The first blocks of a log, which are held back until the prior units among them have placed the grids."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from aegis.certificate.sides import Sides, placing_split
from aegis.logs.keys import hashes, id_parts
from aegis.logs.split import id_text
from aegis.problem import AnyArray, Batch, Hashes, Problem, concat

HEAD_ROWS = 400_000
MOST_PRIOR = 20_000  # innermost rows that grids are placed on; more would only take longer


def head_of(batches: Iterator[Batch]) -> tuple[list[Batch], Iterator[Batch], bool]:
    """Return the first batches, the others, and whether the first are all."""
    head: list[Batch] = []
    rows = 0
    for batch in batches:
        head.append(batch)
        rows += len(batch.levels[list(batch.levels)[-1]])
        if rows >= HEAD_ROWS:
            return head, batches, False
    return head, iter(()), True


def with_placing(sides: Sides, head: Sequence[Batch], whole: bool) -> Sides:
    """Return the sides with a split that sets units apart to place grids, if no candidate brings one."""
    if sides.splits:
        return sides
    units = None
    if whole:
        ids = [batch.episode if batch.cluster is None else batch.cluster for batch in head]
        units = len(np.unique(np.concatenate(ids)))
    return Sides((placing_split(units),), sides.opening)


def prior_units(problem: Problem, sides: Sides, head: Sequence[Batch]) -> Batch | None:
    """Return the prior units of the head, but not too many, in an order that depends on their ids alone; None if none are."""
    masks = [sides.prior(problem, batch) for batch in head]
    found = [batch.take_episodes(mask) for batch, mask in zip(head, masks, strict=True) if mask.any()]
    if not found:
        return None
    whole = concat(found)
    order = np.lexsort((id_hashes(whole.episode), id_hashes(whole.episode if whole.cluster is None else whole.cluster)))
    rows = np.bincount(whole.episode_of(problem.innermost.name), minlength=len(whole))[order]
    few = 1 + int(np.searchsorted(np.cumsum(rows), MOST_PRIOR))
    return whole.take_episodes(order[:few])


def id_hashes(ids: AnyArray) -> Hashes:
    """Return a hash `[E]` of each id, of one column or several."""
    return hashes([id_text(part) for part in id_parts(ids)])


def foreseen(problem: Problem, sides: Sides, head: Sequence[Batch], whole: bool, total_rows: int | None) -> int:
    """Return about how many units will be certified."""
    masks = [sides.certified(problem, batch) for batch in head]
    if problem.cluster is None:
        seen = sum(int(mask.sum()) for mask in masks)
    else:
        ids = [batch.cluster[mask] for batch, mask in zip(head, masks, strict=True) if batch.cluster is not None]
        seen = len(np.unique(np.concatenate(ids))) if ids else 0
    rows = sum(len(batch.levels[problem.innermost.name]) for batch in head)
    return seen if whole or total_rows is None else max(1, round(seen * total_rows / rows))
