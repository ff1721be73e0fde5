"""The page on coverage and the tables say what the stored results say, and the results keep what was promised."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

from certificates import LEAST_TIGHT, MOST_MEDIANS, MOST_OUTER  # noqa: E402
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


def test_no_claim_was_violated_more_often_than_promised() -> None:
    for name, study in coverage["studies"].items():
        for claim in study["claims"]:
            assert claim["p_value"] > 0.001, (name, claim)
        if name.startswith("null"):
            assert min(claim["moved"] for claim in study["claims"]) >= 0.5


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
        assert item["auto"] <= MOST_MEDIANS[legacy][effect], key
    assert len(certificates["inner"]) == 9
    assert all(item["auto"] <= MOST_OUTER for item in certificates["outer"].values())
