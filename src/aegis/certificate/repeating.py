"""What a bet pays that a decision takes an action which was seen in the same contexts.

It is the weight `q(A) / mu(A)` of a policy q that was fixed when the policy was learned, so that its mean is at most one for new
data: `sum over mu > 0 of mu (q / mu) = q(mu > 0) <= 1`, with an integral where mu is a density. q takes the action seen; where
actions are an interval, it is half uniform in a window around the exact number v that was seen and half uniform in the cell of
its point; where v is an atom, q takes it, and nothing else.

The window is narrow, `|A - v| <= e` with `e = 0.01 h`, h the bandwidth, but it counts as `2 e + s` long and not `2 e`, where
`s = 0.01 h` is the coarsest rounding that the audit lets pass. Numbers that were rounded to multiples of some `s' <= s` are at
most `2 e / s' + 1` in it, with a chance of `s' mu` each: the mean is at most `(2 e + s') / (2 e + s) <= 1` then too. Who acts in
windows has a density of at most `1 / h`, and so a weight above one only where `mu < 1 / h`: a copy pays 16 times the stake there.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.audit.exact import COARSE
from aegis.problem import Actions, Array, LevelTable, atom_of, cell_chance

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Repeats:
    """For n decisions in contexts that were seen: did the action come again, `bool[n]`, and what a stake of 1 pays, `f64[n]`."""

    same: Mask
    pays: Array


def repeats(
    table: LevelTable, actions: Actions | None, seen: npt.NDArray[np.int64], exact: Array | None, wrong_by: float = 1.0
) -> Repeats:
    """Compare the decisions of a table `[n]`, all with a logged propensity, with the actions seen in the same contexts.

    seen `[n]`: their indices. exact `[n]`: on an interval the numbers themselves; None if only their points are known. wrong_by:
    logged propensities may be wrong by this factor; the bet pays for the largest that is possible.
    """
    matched = table.action == seen
    if table.value is None or actions is None:
        return Repeats(matched, _over(matched, np.minimum(1.0, wrong_by * table.mu_taken)))
    cell = _over(matched, wrong_by * cell_chance(actions, table.value, table.mu_taken))
    if exact is None:
        return Repeats(matched, cell)
    at, before = atom_of(actions, table.value), atom_of(actions, exact)
    step = 2.0 * COARSE * float(actions.bandwidth or 0.0)
    near = (before < 0) & (at < 0) & (np.abs(table.value - exact) <= step)
    again = (before >= 0) & (at == before)
    narrow = 0.5 * (_over(near, wrong_by * 3.0 * step * table.mu_taken) + cell)
    atom = _over(again, np.minimum(1.0, wrong_by * table.mu_taken))
    return Repeats(near | again, np.where(before < 0, narrow, atom))


def _over(matched: Mask, chance: Array) -> Array:
    """Return 1 / chance `[n]` where matched, else 0."""
    return np.where(matched, 1.0 / chance, 0.0)
