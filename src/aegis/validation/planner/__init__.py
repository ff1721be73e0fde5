"""The planner: how much exploration and how many episodes it takes until a gain is certified."""

from aegis.validation.planner.making import plan
from aegis.validation.planner.results import LevelPlan, Plan, Row
from aegis.validation.planner.settings import CAPS, RATES

__all__ = ["CAPS", "RATES", "LevelPlan", "Plan", "Row", "plan"]
