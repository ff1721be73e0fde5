"""The paper as published: its gates, the counter-example, benches, figures and page. Only the command line imports it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aegis.lazy import import_on_use

if TYPE_CHECKING:
    from aegis.paper.bench_claims import TESTS, JudgedClaim, judge_claim
    from aegis.paper.bench_figures import FIGURES, PICTURE_KINDS, check_drawing, draw_figures, line_style
    from aegis.paper.bench_file import Bench, list_benches, load_bench, parse_bench
    from aegis.paper.bench_page import (
        Archive,
        claims_summary,
        format_mean,
        html_page,
        load_archive,
        markdown_page,
        our_number,
        save_archive,
    )
    from aegis.paper.bench_results import BenchResults, collect_results
    from aegis.paper.bench_runs import Failure, ResultStore, run_plans
    from aegis.paper.bench_units import BenchPlan, BenchUnit, plan_bench
    from aegis.paper.counter_example import CounterExample
    from aegis.paper.gates import PAPER_GATES, register_gates
    from aegis.paper.measure_table import MEASURES
    from aegis.paper.pac_bayes_gate import PacBayesGate, PacBayesSettings
    from aegis.paper.published_gate import PublishedGate, PublishedSettings

_MODULES = {
    "bench_claims": "TESTS JudgedClaim judge_claim",
    "bench_figures": "FIGURES PICTURE_KINDS check_drawing draw_figures line_style",
    "bench_file": "Bench list_benches load_bench parse_bench",
    "bench_page": "Archive claims_summary format_mean html_page load_archive markdown_page our_number save_archive",
    "bench_results": "BenchResults collect_results",
    "bench_runs": "Failure ResultStore run_plans",
    "bench_units": "BenchPlan BenchUnit plan_bench",
    "counter_example": "CounterExample",
    "gates": "PAPER_GATES register_gates",
    "measure_table": "MEASURES",
    "pac_bayes_gate": "PacBayesGate PacBayesSettings",
    "published_gate": "PublishedGate PublishedSettings",
}

__all__ = [
    "FIGURES",
    "MEASURES",
    "PAPER_GATES",
    "PICTURE_KINDS",
    "TESTS",
    "Archive",
    "Bench",
    "BenchPlan",
    "BenchResults",
    "BenchUnit",
    "CounterExample",
    "Failure",
    "JudgedClaim",
    "PacBayesGate",
    "PacBayesSettings",
    "PublishedGate",
    "PublishedSettings",
    "ResultStore",
    "check_drawing",
    "claims_summary",
    "collect_results",
    "draw_figures",
    "format_mean",
    "html_page",
    "judge_claim",
    "line_style",
    "list_benches",
    "load_archive",
    "load_bench",
    "markdown_page",
    "our_number",
    "parse_bench",
    "plan_bench",
    "register_gates",
    "run_plans",
    "save_archive",
]

__getattr__ = import_on_use("aegis.paper", _MODULES)
