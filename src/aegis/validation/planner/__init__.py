"""The planner: how much exploration and how many episodes it takes until a gain is certified."""

from aegis.validation.planner.plan_result import LevelPlan, Plan, PlanRow
from aegis.validation.planner.plan_settings import CAPS, RATES
from aegis.validation.planner.study_plan import plan

__all__ = ["CAPS", "RATES", "LevelPlan", "Plan", "PlanRow", "plan"]
