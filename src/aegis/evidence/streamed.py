"""A lower bound that follows a stream of units, one at a time: the units wait in a list until the bound is asked for."""

from __future__ import annotations

import math

import numpy as np

from aegis.errors import RefusedError
from aegis.evidence.grid import Grid
from aegis.evidence.sketch import AT_ONCE, Sketch


class Streamed:
    """Units with values from 0, added as they come; `lower` holds at every look, with one risk for all looks together.

    The grid of bets is placed before the first unit: by earlier units, which are not added, or by a guess.
    """

    def __init__(self, grid: Grid) -> None:
        self._sketch = Sketch.empty(grid)
        self._waiting: list[float] = []

    def add(self, value: float) -> None:
        """Add a unit."""
        if not 0.0 <= value < math.inf:
            raise RefusedError(f"unit {self.count}: a unit's value is a finite number from 0, found {value}")
        self._waiting.append(value)
        if len(self._waiting) == AT_ONCE:
            self.sketch()

    @property
    def count(self) -> int:
        """Return the number of units."""
        return self._sketch.count + len(self._waiting)

    def sketch(self) -> Sketch:
        """Return the sketch of all units so far."""
        if self._waiting:
            self._sketch = self._sketch.add_values(np.array(self._waiting))
            self._waiting.clear()
        return self._sketch

    def lower(self, delta: float, low: float, high: float) -> float:
        """Return the largest mean in [low, high] that is certified to be exceeded; see `Sketch.lower`."""
        return self.sketch().lower(delta, low, high)
