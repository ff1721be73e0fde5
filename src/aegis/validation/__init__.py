"""Validation by simulation: how often bounds exceed the truth, after how many units a gain is certified, plans for a study."""

from aegis.validation.acting import acting, handed_over
from aegis.validation.coverage import METHODS, Learner, Outcome, Study, coverage, replicate
from aegis.validation.paths import crossing, wealth_path
from aegis.validation.planner import LevelPlan, Plan, Row, plan
from aegis.validation.summary import Rate, excess, rates, together
from aegis.validation.truth import Oracle, Truth

__all__ = [
    "METHODS", "Learner", "LevelPlan", "Oracle", "Outcome", "Plan", "Rate", "Row", "Study", "Truth", "acting", "coverage",
    "crossing", "excess", "handed_over", "plan", "rates", "replicate", "together", "wealth_path",
]  # fmt: skip
