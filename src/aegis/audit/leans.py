"""Does an action lean to the side of a context? Both are cut in halves; the bet is that they fall on the same side, or that not.

A context that was measured after the decision, and moves with it, is on the side of the action more often than propensities
say. Slices see that too, each a part of it; here all rows count. The policy that chooses evenly from the half on the context's
side has weights with a mean of at most one, as in `aegis.audit.halves`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import numpy as np

from aegis.audit.calibration import LevelCalibration, SliceEvidence
from aegis.audit.cuts import Cut
from aegis.audit.halves import Halves
from aegis.audit.view import Mask
from aegis.problem import Actions, Array, Level, LevelTable, Rows

Columns = TypeVar("Columns", Array, Mask)
SIDES = ("in the same half as the context", "in the other half")


class LevelLeans:
    """Evidence about one level: for each context that is a number, whether actions lean to its side."""

    def __init__(self, halves: Halves, cuts: tuple[Cut, ...]) -> None:
        self.halves = halves
        self.cuts = tuple(cut for cut in cuts if not cut.values)
        self.found = [LevelCalibration(_sides(halves.level), ()) for _ in self.cuts]

    def add(self, table: LevelTable, rows: Rows, fresh: Mask, share: Array | None = None) -> None:
        """Add decisions; rows is what they looked at. Those that placed the cuts are left out."""
        kept = np.flatnonzero(fresh)
        halved = self.halves.table(table.take(kept, table.parent[kept]))
        looks = {name: values[kept] for name, values in rows.items()}
        share = None if share is None else share[kept]
        for cut, calibration in zip(self.cuts, self.found, strict=True):
            upper = cut.codes(looks).astype(np.bool_)
            calibration.add(_turned(halved, upper), looks, np.ones(kept.size, dtype=np.bool_), share)

    def merge(self, other: LevelLeans) -> None:
        """Add what was found in other decisions, with the same cuts."""
        for own, more in zip(self.found, other.found, strict=True):
            own.merge(more)

    def slices(self, batches: int | None = None) -> list[SliceEvidence]:
        """Return the evidence about either side of every context. batches: as in `LevelCalibration.slices`."""
        return [
            replace(part, where=f"{cut.name} is cut at {cut.edge:.4g}")
            for cut, calibration in zip(self.cuts, self.found, strict=True)
            for part in calibration.slices(batches)[: len(SIDES)]
        ]


def _sides(level: Level) -> Level:
    actions = level.actions
    return replace(level, actions=Actions(actions.column, (*SIDES, *actions.values[2:]), "labels"), incumbent=None)


def _turned(table: LevelTable, upper: Mask) -> LevelTable:
    """Return decisions among halves as decisions among sides: where the context is in its upper half, halves change places."""
    action = np.where((table.action < 2) & upper, 1 - table.action, table.action).astype(np.int32)
    full = None if table.mu_full is None else _changed(table.mu_full, upper)
    available = None if table.available is None else _changed(table.available, upper)
    return replace(table, action=action, mu_full=full, available=available)


def _changed(values: Columns, upper: Mask) -> Columns:
    found = values.copy()
    found[upper, 0], found[upper, 1] = values[upper, 1], values[upper, 0]
    return found
