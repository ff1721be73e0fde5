"""Evidence: sketches, tests by betting and lower bounds. Arrays in, arrays out; knows nothing of logs or policies."""

from aegis.evidence.blend import Blend
from aegis.evidence.calibration import full_evidence, taken_evidence
from aegis.evidence.grid import FLOOR, Grid, gain_grid, value_centre, value_grid
from aegis.evidence.joint import Choice, inner_factors, outer_stakes
from aegis.evidence.monitor import Monitor
from aegis.evidence.placing import factor_centre, gain_bets, placed_gain_grid, value_bets
from aegis.evidence.sketch import Sketch
from aegis.evidence.tally import Tally
from aegis.evidence.waterfill import Stakes, gain_stakes, value_stakes, water_filled

__all__ = [
    "FLOOR",
    "Blend",
    "Choice",
    "Grid",
    "Monitor",
    "Sketch",
    "Stakes", "Tally",
    "factor_centre",
    "full_evidence",
    "gain_bets",
    "gain_grid",
    "gain_stakes",
    "inner_factors",
    "outer_stakes",
    "placed_gain_grid",
    "taken_evidence",
    "value_bets",
    "value_centre",
    "value_grid",
    "value_stakes",
    "water_filled",
]  # fmt: skip
