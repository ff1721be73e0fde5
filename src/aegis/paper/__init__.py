"""The paper as published: its gates, the counter-example, benches, figures and page. Only the command line imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aegis.lazy import import_on_use

if TYPE_CHECKING:
    from aegis.paper.bench_claims import judge_claim
    from aegis.paper.bench_figures import PICTURE_KINDS, check_drawing, draw_figures
    from aegis.paper.bench_file import Bench, list_benches, load_bench, parse_bench
    from aegis.paper.bench_results import BenchResults, collect_results
    from aegis.paper.bench_runs import ResultStore, run_plans
    from aegis.paper.bench_units import BenchPlan, plan_bench
    from aegis.paper.counter_example import CounterExample
    from aegis.paper.gates import register_gates
    from aegis.paper.pac_bayes_gate import PacBayesGate, PacBayesSettings
    from aegis.paper.published_gate import PublishedGate
    from aegis.paper.published_log import LogLooks, judge_log
    from aegis.paper.published_looks import PublishedSettings

_MODULES = {
    "bench_claims": "judge_claim",
    "bench_figures": "PICTURE_KINDS check_drawing draw_figures",
    "bench_file": "Bench list_benches load_bench parse_bench",
    "bench_results": "BenchResults collect_results",
    "bench_runs": "ResultStore run_plans",
    "bench_units": "BenchPlan plan_bench",
    "counter_example": "CounterExample",
    "gates": "register_gates",
    "pac_bayes_gate": "PacBayesGate PacBayesSettings",
    "published_gate": "PublishedGate",
    "published_log": "LogLooks judge_log",
    "published_looks": "PublishedSettings",
}

__all__ = [
    "PICTURE_KINDS",
    "Bench",
    "BenchPlan",
    "BenchResults",
    "CounterExample",
    "LogLooks",
    "PacBayesGate",
    "PacBayesSettings",
    "PublishedGate",
    "PublishedSettings",
    "ResultStore",
    "check_drawing",
    "collect_results",
    "draw_figures",
    "judge_claim",
    "judge_log",
    "list_benches",
    "load_bench",
    "parse_bench",
    "plan_bench",
    "register_gates",
    "run_plans",
]

__getattr__ = import_on_use("aegis.paper", _MODULES)
