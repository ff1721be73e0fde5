"""The page on coverage and the tables say what the stored results say, and the results keep what was promised."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from scipy.stats import binom

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from certificates import LEAST_TIGHT, MOST_MEDIANS, MOST_OUTER  # noqa: E402
from coverage_gates import gates  # noqa: E402
from coverage_page import CERTIFICATES, COVERAGE, coverage_lines, numbers, tight_lines, units_lines  # noqa: E402
from coverage_studies import studies  # noqa: E402

RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
coverage = json.loads(COVERAGE.read_text(encoding="utf-8"))
certificates = json.loads(CERTIFICATES.read_text(encoding="utf-8"))


def test_the_page_holds_the_stored_numbers() -> None:
    assert numbers() in (ROOT / "docs" / "coverage.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("lines", [coverage_lines(coverage), tight_lines(certificates), units_lines(certificates)])
def test_the_tables_hold_the_stored_numbers(lines: list[str]) -> None:
    assert "\n".join(lines).strip() in RESULTS


def test_every_study_was_run() -> None:
    assert set(coverage["studies"]) == set(studies())
    assert set(coverage["gates"]) == set(gates())


def test_no_claim_was_violated_more_often_than_promised() -> None:
    for name, study in coverage["studies"].items():
        for claim in study["claims"]:
            assert claim["p_value"] > 0.001, (name, claim)
        if name.startswith("null"):
            assert min(claim["moved"] for claim in study["claims"]) >= 0.5


def test_gains_over_the_incumbent_were_above_the_truth_in_at_most_so_many_runs() -> None:
    over = {name: study for name, study in coverage["studies"].items() if study.get("comparator") == "incumbent"}
    assert set(over) == {name for name in studies() if name.startswith("incumbent: ")}
    for name, study in over.items():
        for claim in study["claims"]:
            assert claim["violations"] <= binom.ppf(0.99, claim["runs"], coverage["delta"]), (name, claim)
        for item in study["together"].values():
            assert item["violations"] <= binom.ppf(0.99, item["runs"], coverage["delta"])


def test_no_gate_handed_over_without_a_gain_more_often_than_promised() -> None:
    for name, item in coverage["gates"].items():
        assert item["wrong"] <= (0 if "equal" in name else binom.ppf(0.99, item["runs"], coverage["delta"])), name
    equal = coverage["gates"]["candidate equal to the incumbent"]
    assert equal["other"] == equal["runs"]  # refused as identical, each of them


def test_bounds_are_as_tight_as_they_should_be() -> None:
    for size, least in LEAST_TIGHT.items():
        assert round(certificates["tight"]["uniform"][f"plain {size}"], 2) >= least  # figures of two digits
    better = [
        name
        for name, item in certificates["tight"].items()
        if all(item[f"robust {size}"] > item[f"plain {size}"] for size in LEAST_TIGHT)
    ]
    assert len(better) >= 2


def test_gains_are_certified_as_early_as_they_should_be() -> None:
    for key, item in certificates["inner"].items():
        legacy, effect = key.split(", ")[0], float(key.split("f_a = ")[1].split(",")[0])
        assert legacy != "uniform" or item["auto"] <= MOST_MEDIANS[effect], key
        assert item["plain"] is None or item["auto"] < item["plain"], key  # over the incumbent, too
    assert len(certificates["inner"]) == 15
    assert all(item["auto"] <= MOST_OUTER for item in certificates["outer"].values())
