"""Actions on an interval: windows around points, cells between them, and atoms.

Who chooses a* on [low, high] acts uniformly on `[a* - h, a* + h]` cut to the interval, h the bandwidth: density one over the
length of what is left. Not dividing by that length, but by 2 h, would lose weight at both ends. The cell of a point is what lies
nearer to it than to any other. At an atom the logging policy has a probability, elsewhere a density; the two are never divided.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from aegis.problem.variables import Actions

Array = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

SAME = 1e-6  # of the length of an interval: a number this near to an atom is the atom, as files round


def windows(actions: Actions, centres: Array) -> tuple[Array, Array]:
    """Return lower and upper ends of the windows around centres of any shape, cut to the interval."""
    low, high = actions.limits
    reach = float(actions.bandwidth or 0.0)
    return np.maximum(centres - reach, low), np.minimum(centres + reach, high)


def window_density(actions: Actions, centres: Array, value: Array) -> Array:
    """Return the density at `value` of acting uniformly in the window around each centre; 0 outside it, and at atoms.

    centres and value have shapes that fit together. A window holds its lower end and not its upper one, but for the last.
    """
    lower, upper = windows(actions, centres)
    high = actions.limits[1]
    inside = (value >= lower) & ((value < upper) | ((upper >= high) & (value <= high)))
    return np.where(inside & ~at_atom(actions, value), 1.0 / (upper - lower), 0.0)


def at_atom(actions: Actions, value: Array) -> Mask:
    """Return which numbers are atoms of the logging policy; same shape as `value`."""
    found: Mask = atom_of(actions, value) >= 0
    return found


def atom_of(actions: Actions, value: Array) -> npt.NDArray[np.int32]:
    """Return the index of the atom that each number is, same shape; -1 if it is none."""
    low, high = actions.limits
    found = np.full(np.shape(value), -1, dtype=np.int32)
    for index, atom in enumerate(actions.atoms):
        found[np.abs(value - atom) <= SAME * (high - low)] = index
    return found


def nearest_points(actions: Actions, value: Array) -> npt.NDArray[np.int32]:
    """Return the index of the point nearest to each number, same shape; of two equally near the lower one."""
    return np.searchsorted(cell_edges(actions)[1:-1], value, side="left").astype(np.int32)


def cell_edges(actions: Actions) -> Array:
    """Return the ends `[A + 1]` of the cells of the points: the middles between neighbours, and the ends of the interval."""
    points = actions.numbers
    return np.concatenate([points[:1], (points[1:] + points[:-1]) / 2, points[-1:]])


def cell_chance(actions: Actions, value: Array, mu: Array) -> Array:
    """Return density times length of the cell `[n]`, over which the weight of the uniform policy of that cell is one.

    It may exceed 1 where a density is narrower than the cell. Infinite at atoms, which a uniform policy does not take.
    """
    lengths = np.diff(cell_edges(actions))[nearest_points(actions, value)]
    return np.where(at_atom(actions, value), np.inf, mu * lengths)
