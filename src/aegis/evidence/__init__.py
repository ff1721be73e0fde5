"""Evidence: sketches, tests by betting and lower bounds. Arrays in, arrays out; knows nothing of logs or policies."""

from aegis.evidence.best_posterior import best_posterior
from aegis.evidence.betting_path import lower_path
from aegis.evidence.blend import Blend
from aegis.evidence.bootstrap import bca_bootstrap, percentile_bootstrap
from aegis.evidence.bound import Bound
from aegis.evidence.calibration import full_evidence, taken_evidence
from aegis.evidence.classic import (
    anytime_bernstein,
    anytime_bernstein_path,
    central_limit,
    empirical_bernstein,
    hoeffding,
    logarithmic_smoothing,
    student_t,
)
from aegis.evidence.doubted import doubted_compared, doubted_filled, least_weights
from aegis.evidence.grid import FLOOR, Grid, gain_grid, value_centre, value_grid
from aegis.evidence.joint import Choice, Inner, inner_factors, outer_stakes
from aegis.evidence.monitor import Monitor
from aegis.evidence.pacbayes import PacBayesBound, matching_bet, sharp_bound, sharp_grid_bound
from aegis.evidence.particles import Particles
from aegis.evidence.placing import factor_centre, gain_bets, placed_gain_grid, value_bets
from aegis.evidence.posterior import particle_kl
from aegis.evidence.published import PublishedBound, Reading, published_bound, published_estimate
from aegis.evidence.published_gain import Gate, algorithm_2_gate, published_gain
from aegis.evidence.scopes import Selection, SplitSizes, select_scope, split_sizes
from aegis.evidence.sketch import Sketch, unit_logs
from aegis.evidence.smoothed import closed_form_lam, largest_observed, ls_estimate
from aegis.evidence.streamed import Streamed
from aegis.evidence.tally import Tally
from aegis.evidence.waterfill import Stakes, gain_stakes, value_stakes, water_filled

__all__ = [
    "FLOOR",
    "Blend",
    "Bound",
    "Choice",
    "Gate",
    "Grid",
    "Inner",
    "Monitor",
    "PacBayesBound",
    "Particles",
    "PublishedBound",
    "Reading",
    "Selection",
    "Sketch",
    "SplitSizes",
    "Stakes",
    "Streamed",
    "Tally",
    "algorithm_2_gate",
    "anytime_bernstein",
    "anytime_bernstein_path",
    "bca_bootstrap",
    "best_posterior",
    "central_limit",
    "closed_form_lam",
    "doubted_compared",
    "doubted_filled",
    "empirical_bernstein",
    "factor_centre",
    "full_evidence",
    "gain_bets",
    "gain_grid",
    "gain_stakes",
    "hoeffding",
    "inner_factors",
    "largest_observed",
    "least_weights",
    "logarithmic_smoothing",
    "lower_path",
    "ls_estimate",
    "matching_bet",
    "outer_stakes",
    "particle_kl",
    "percentile_bootstrap",
    "placed_gain_grid",
    "published_bound",
    "published_estimate",
    "published_gain",
    "select_scope",
    "sharp_bound",
    "sharp_grid_bound",
    "split_sizes",
    "student_t",
    "taken_evidence",
    "unit_logs",
    "value_bets",
    "value_centre",
    "value_grid",
    "value_stakes",
    "water_filled",
]
