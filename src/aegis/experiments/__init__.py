"""The paper as data: every experiment is a YAML file; one command runs it, tests its claims and reports them."""

from aegis.experiments.archive import Archive
from aegis.experiments.bench import Bench, load_bench, names, parse_bench
from aegis.experiments.claims import TESTS, Judged, judge
from aegis.experiments.measures import MEASURES
from aegis.experiments.results import Results, collect
from aegis.experiments.runner import Failure, run_plans
from aegis.experiments.store import Store
from aegis.experiments.units import Plan, Unit, plan_of

__all__ = [
    "MEASURES",
    "TESTS",
    "Archive",
    "Bench",
    "Failure",
    "Judged",
    "Plan",
    "Results",
    "Store",
    "Unit",
    "collect",
    "judge",
    "load_bench",
    "names",
    "parse_bench",
    "plan_of",
    "run_plans",
]
