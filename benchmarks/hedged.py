"""The hedged confidence sequence (Waudby-Smith and Ramdas 2024, Theorem 3), to compare `lower_path` with.

For every candidate mean m on a grid, capital bets after each unit that the mean is above m and, hedged, that it is below. m
is left out once the larger of the two capitals exceeds 1/delta. Values lie in [0, 1].
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from aegis.errors import SettingError
from aegis.evidence.bounds.mean_bounds import plug_in_bets

Array = npt.NDArray[np.float64]

HEDGED_CUT = 0.5  # bets are cut at this share of what would risk everything


def hedged_path(values: Array, delta: float, breaks: int = 1000, above: float = 0.5) -> tuple[Array, Array]:
    """Return lower and upper ends `[K]` after every unit, one step of the grid wider than the candidates that are left.

    above: share of the capital that bets on a mean above m; 1 gives a lower bound alone, at risk delta.
    """
    found = np.asarray(values, dtype=np.float64)
    if found.min() < 0 or found.max() > 1 or breaks < 2 or not 0 < above <= 1:
        raise SettingError(
            f"values lie in [0, 1], breaks are 2 or more and the share in (0, 1], found {found.max()}, {breaks}, {above}"
        )
    stakes, _ = plug_in_bets(found, delta)
    means = np.linspace(0.0, 1.0, breaks + 1)
    with np.errstate(divide="ignore"):
        most_up, most_down = HEDGED_CUT / means, HEDGED_CUT / (1.0 - means)
    rise, fall = np.full(means.size, above), np.full(means.size, 1.0 - above)
    lower, upper = np.empty(found.size), np.empty(found.size)
    with np.errstate(over="ignore"):
        for k, (value, stake) in enumerate(zip(found, stakes, strict=True)):
            rise = rise * (1.0 + np.minimum(stake, most_up) * (value - means))
            fall = fall * (1.0 - np.minimum(stake, most_down) * (value - means))
            left = np.flatnonzero(np.maximum(rise, fall) <= 1.0 / delta)
            lower[k], upper[k] = (means[left[0]], means[left[-1]]) if left.size else (0.0, 1.0)
    return np.maximum(lower - 1.0 / breaks, 0.0), np.minimum(upper + 1.0 / breaks, 1.0)
