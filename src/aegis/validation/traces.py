"""A lower bound on its way: where it ended, and when it was first above a number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from aegis.certificate.collecting import Evidence, next_station
from aegis.evidence import Bound
from aegis.problem import Array
from aegis.validation.paths import crossing, log_wealths

Counts = npt.NDArray[np.int64]


class Trace(Protocol):
    """A bound and what came before it."""

    @property
    def last(self) -> Bound:
        """Return the bound from all units."""
        ...

    def above(self, mean: float) -> int | None:
        """Return after how many units the bound was first above `mean`; None if it never was."""
        ...


@dataclass(frozen=True, slots=True)
class Looks:
    """A bound that was computed at some numbers of units: counts `[m]`, values `[m]`."""

    last: Bound
    counts: Counts
    values: Array

    def above(self, mean: float) -> int | None:
        """Return the first number of units looked at where the bound was above `mean`."""
        found = self.values > mean
        return int(self.counts[np.argmax(found)]) if found.any() else None


@dataclass(frozen=True, slots=True)
class Wealth:
    """A bound by betting: it is above a mean exactly when the wealth against that mean has reached 1/delta, at every unit."""

    last: Bound
    item: Evidence
    found: Sequence[Array]

    def above(self, mean: float) -> int | None:
        """Return the first unit after which the bound was above `mean`."""
        return crossing(log_wealths(self.item, self.found, mean), self.last.delta)


def looks(units: int, only_end: bool = False) -> Counts:
    """Return the numbers of units that are looked at: 10, 13, 17, ... and all."""
    found: list[int] = []
    count = 0 if not only_end else units
    while (count := next_station(count)) < units:
        found.append(count)
    return np.array([*found, units], dtype=np.int64)
