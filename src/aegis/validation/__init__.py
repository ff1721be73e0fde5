"""Validation by simulation: how often bounds exceed the truth, and after how many units a gain is certified."""

from aegis.validation.acting import acting, handed_over
from aegis.validation.coverage import METHODS, Learner, Outcome, Study, coverage, replicate
from aegis.validation.paths import crossing, wealth_path
from aegis.validation.summary import Rate, excess, rates, together
from aegis.validation.truth import Oracle, Truth

__all__ = [
    "METHODS", "Learner", "Oracle", "Outcome", "Rate", "Study", "Truth", "acting", "coverage", "crossing", "excess",
    "handed_over", "rates", "replicate", "together", "wealth_path",
]  # fmt: skip
