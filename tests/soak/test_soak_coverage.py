"""A thousand replications of every study of coverage, run by `make soak`; interrupted ones go on where they were.

Single runs are kept in `build/coverage`; `python benchmarks/coverage.py --table` turns them into the tables of results.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from aegis.validation import excess, rates, together
from coverage import DELTA, FOLDER, replicate_all, stored
from coverage_studies import studies

pytestmark = pytest.mark.soak
RUNS = 1000
SIGNIFICANT = 0.001  # some two hundred claims are tested


@pytest.mark.parametrize("name", studies())
def test_no_bound_exceeds_the_truth_more_often_than_promised(name: str) -> None:
    replicate_all([name], RUNS, FOLDER, workers=1)
    outcomes = [outcome for outcome in stored(name, FOLDER) if outcome.run < RUNS]
    found = rates(outcomes, DELTA)
    assert {rate.runs for rate in found} == {RUNS}
    for rate in found:
        assert rate.p_value > SIGNIFICANT, rate
    for violations, runs in together(outcomes).values():
        assert excess(violations, runs, DELTA) > SIGNIFICANT
    if name.startswith("additive"):
        inner = next(rate for rate in found if (rate.method, rate.scope, rate.what) == ("auto", ("inner",), "value"))
        assert inner.bound > 0.3 * inner.truth
