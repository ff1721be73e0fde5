"""From a study that could be made to a row of the plan."""

from __future__ import annotations

import math

import numpy as np

from aegis.rng import stream
from aegis.validation.planner.growth import growth
from aegis.validation.planner.paths import crossings
from aegis.validation.planner.play import Play
from aegis.validation.planner.results import Row

LIKELY = 0.9  # of all studies have their certificate by then
NOTHING = "candidate and comparator agree: there is nothing to certify"
NO_GAIN = "the candidate's gain does not exceed the margin"
NO_GROWTH = "evidence would not grow: this candidate moves too much for what it gains; take a smaller cap or explore more"


def forecast(
    plays: tuple[Play, ...],
    explore: float | None,
    cap: float,
    margin: float,
    delta: float,
    width: float,
    prior: int,
    seed: int,
) -> Row:
    """Return the row of a study, simulated; plays: the same study in equally likely worlds.

    width: of the reward's range. prior: how many units bets are placed on.
    """
    gain = float(np.mean([play.gain for play in plays]))
    if not any(play.moved > 0 for play in plays):
        return Row(explore, cap, None, None, gain * width, why=NOTHING)
    if gain <= margin:
        return Row(explore, cap, None, None, gain * width, why=NO_GAIN)
    # One stream for all rows: they differ by what is compared, not by luck.
    found = growth(plays, margin, prior, stream(seed, "plan", "units"))
    reached = np.sort(crossings(found, delta, stream(seed, "plan", "paths")))
    least = _least(found.bets, gain, margin, delta)
    half, likely = (_at(reached, share, least) for share in (0.5, LIKELY))
    return Row(explore, cap, half, likely, gain * width, why=NO_GROWTH if half is None else "")


def _at(reached: np.ndarray, share: float, least: float) -> int | None:
    """Return by when a share of the sorted paths has crossed; None if they never do."""
    found = float(reached[min(math.ceil(share * reached.size), reached.size) - 1])
    return math.ceil(max(found, least)) if math.isfinite(found) else None


def _least(bets: np.ndarray, gain: float, margin: float, delta: float) -> float:
    """Return the units below which no bet gets there, were every unit's factor at its mean."""
    return float(np.min(math.log(1.0 / delta) / (np.log1p(bets * gain) - np.log1p(bets * margin))))
