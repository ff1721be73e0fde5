"""Several tests of one claim, their wealths averaged: no worse than the best of them up to a factor, and still one valid test."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from aegis.errors import SettingError
from aegis.evidence.curve import Curve
from aegis.evidence.sketch import UNIT, Sketch, check_delta


@dataclass(frozen=True, slots=True)
class Blend:
    """Sketches of the same units, each with the offset by which its values were lifted: values x + offset, claims about x."""

    sketches: tuple[Sketch, ...]
    offsets: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.sketches or len(self.sketches) != len(self.offsets):
            raise SettingError(f"a blend has one offset per sketch, found {len(self.sketches)} and {len(self.offsets)}")
        counts = {sketch.count for sketch in self.sketches}
        if len(counts) > 1:
            raise SettingError(f"the sketches of a blend speak of the same units, found {sorted(counts)} units")

    @property
    def count(self) -> int:
        """Return the number of units."""
        return self.sketches[0].count

    def log_wealth(self, mean: float) -> float:
        """Return the logarithm of the average wealth against the hypothesis that the mean is at most `mean`."""
        return self.curve()(mean)

    def curve(self) -> Curve:
        """Return the average wealth as a function of the mean."""
        curves = [sketch.curve() for sketch in self.sketches]
        offsets = [np.full(curve.logs.size, offset) for curve, offset in zip(curves, self.offsets, strict=True)]
        logs = np.concatenate([curve.logs for curve in curves]) - math.log(len(curves))
        return Curve(logs, np.concatenate([curve.bets for curve in curves]), np.concatenate(offsets), self.count)

    def certifies(self, mean: float, delta: float) -> bool:
        """Say whether the mean is certified to be above `mean` at risk delta; the same test that `lower` inverts."""
        return self.log_wealth(mean) >= math.log(1.0 / check_delta(delta))

    def lower(self, delta: float, low: float, high: float) -> float:
        """Return the largest mean in [low, high] that is certified to be exceeded, rounded down; see `Sketch.lower`."""
        return self.curve().lower(math.log(1.0 / check_delta(delta)), low, high)

    def units_needed(self, mean: float, delta: float) -> int | None:
        """Return how many units in all it would take to certify `mean` if evidence went on growing as so far; an estimate.

        None if no bet has gained: more of the same data would not do.
        """
        if not self.count:
            return None
        needed = []
        for sketch, offset in zip(self.sketches, self.offsets, strict=True):
            for total, bet, weight in zip(sketch.sums, sketch.grid.bets, sketch.grid.log_weights, strict=True):
                if total is None or not 1.0 + bet * (mean + offset) > 0:
                    continue
                rate = total / UNIT / self.count - np.log1p(bet * (mean + offset))
                if rate > 0:
                    needed.append((math.log(len(self.sketches) / delta) - weight) / rate)
        return None if not needed else max(self.count + 1, math.ceil(min(needed)))
