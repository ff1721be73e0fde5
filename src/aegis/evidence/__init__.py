"""Evidence: sketches, tests by betting and lower bounds. Arrays in, arrays out; knows nothing of logs or policies."""

from aegis.evidence.calibration import full_evidence, taken_evidence
from aegis.evidence.grid import FLOOR, Grid, gain_grid, value_centre, value_grid
from aegis.evidence.monitor import Monitor
from aegis.evidence.sketch import Sketch
from aegis.evidence.waterfill import Stakes, gain_stakes, value_stakes, water_filled

__all__ = [
    "FLOOR", "Grid", "Monitor", "Sketch", "Stakes", "full_evidence", "gain_grid", "gain_stakes", "taken_evidence", "value_centre",
    "value_grid", "value_stakes", "water_filled",
]  # fmt: skip
