"""Validation by simulation: how often bounds exceed the truth, after how many units a gain is certified, plans for a study."""

from aegis.validation.acting import acting, handed_over
from aegis.validation.bounds import BOUNDS
from aegis.validation.candidates import Candidates, Fixed, Maker, Null, Setting
from aegis.validation.coverage import METHODS, Learner, Outcome, Study, coverage, replicate
from aegis.validation.incumbents import COMPARATORS, acting_incumbent, compared_problem
from aegis.validation.learners import LEARNERS, named_learner
from aegis.validation.paths import crossing, wealth_path
from aegis.validation.planner import LevelPlan, Plan, Row, plan
from aegis.validation.plant_truth import Judge, LongRuns, judge_of
from aegis.validation.runner import Report, Task, run_tasks, stored, timed
from aegis.validation.summary import Rate, excess, rates, together
from aegis.validation.trial import Trial
from aegis.validation.truth import Oracle, Truth
from aegis.validation.units import OURS
from aegis.validation.validating import described, make_trial, run_validation, validate
from aegis.validation.verdicts import BoundRow, Validation, judged

__all__ = [
    "BOUNDS", "COMPARATORS", "LEARNERS", "METHODS", "OURS", "BoundRow", "Candidates", "Fixed", "Judge", "Learner", "LevelPlan",
    "LongRuns", "Maker", "Null", "Oracle", "Outcome", "Plan", "Rate", "Report", "Row", "Setting", "Study", "Task", "Trial",
    "Truth", "Validation", "acting", "acting_incumbent", "compared_problem", "coverage", "crossing", "described", "excess",
    "handed_over", "judge_of", "judged", "make_trial", "named_learner", "plan", "rates", "replicate", "run_tasks",
    "run_validation", "stored", "timed", "together", "validate", "wealth_path",
]  # fmt: skip
