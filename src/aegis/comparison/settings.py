"""What is fixed beforehand in a comparison: thresholds of the estimators, the largest weight, seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass

from aegis.errors import SettingError


@dataclass(frozen=True, slots=True)
class ComparisonSettings:
    """Thresholds and declarations of a comparison.

    clip: the largest weight that clipped IPS lets through. switch: above this weight SWITCH trusts the reward model.
    largest_weight: a declared bound on the weight of the candidate, which B and the ranges of the classic bounds are made of;
    None takes what the problem file and the cap of the candidate promise. posterior: also learn the posterior of the published
    bounds from the log. particles: its draws. seed: of draws and resamples.
    """

    clip: float = 10.0
    switch: float = 10.0
    largest_weight: float | None = None
    posterior: bool = False
    particles: int = 16
    seed: int = 1

    def __post_init__(self) -> None:
        for name, found in (("clip", self.clip), ("switch", self.switch)):
            if not found >= 0:
                raise SettingError(f"'{name}' is a weight from 0, infinity allowed, found {found}")
        if self.largest_weight is not None and not (math.isfinite(self.largest_weight) and self.largest_weight >= 1):
            raise SettingError(f"a largest weight is a finite number from 1 (weights average one), found {self.largest_weight}")
        if isinstance(self.particles, bool) or not isinstance(self.particles, int) or self.particles < 1:
            raise SettingError(f"a posterior is drawn from once or more, found {self.particles!r} particles")
