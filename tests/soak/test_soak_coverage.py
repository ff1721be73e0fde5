"""A thousand replications of every study of coverage, run by `make soak`; interrupted ones go on where they were.

Single runs are kept in `build/coverage`; `python benchmarks/coverage.py --table` turns them into the tables of results. The
short form runs thirty of each anew: a bound with a wrong formula fails in most of them. A threshold that is off by a factor is
found by the mutations of `tests/mutation`, since betting bounds are cautious.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from scipy.stats import binom
from soak_size import SHORT, choose

from aegis.validation import excess_p_value, stored_runs
from coverage import DELTA, FOLDER, replicate_all, stored
from coverage_gates import gates
from coverage_studies import studies
from coverage_study import joint_violations, violation_rates

pytestmark = pytest.mark.soak
RUNS = choose(1000, 30)
SIGNIFICANT = 0.001  # some three hundred claims are tested
MOST = int(binom.ppf(0.99, RUNS, DELTA))  # 66 of a thousand, 4 of thirty


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where runs are kept: the short form starts anew."""
    return tmp_path_factory.mktemp("coverage") if SHORT else FOLDER


@pytest.mark.parametrize("name", studies())
def test_no_bound_exceeds_the_truth_more_often_than_promised(name: str, folder: Path) -> None:
    replicate_all([name], RUNS, folder, workers=1)
    outcomes = [outcome for outcome in stored(name, folder) if outcome.run < RUNS]
    found = violation_rates(outcomes, DELTA)
    assert {rate.runs for rate in found} == {RUNS}
    for rate in found:
        assert rate.p_value > SIGNIFICANT, rate
    for violations, runs in joint_violations(outcomes).values():
        assert excess_p_value(violations, runs, DELTA) > SIGNIFICANT
    if name.startswith("additive"):
        inner = next(rate for rate in found if (rate.method, rate.scope, rate.what) == ("auto", ("inner",), "value"))
        assert inner.bound > 0.3 * inner.truth


@pytest.mark.parametrize("name", [name for name in studies() if name.startswith("incumbent: ")])
def test_gains_over_the_incumbent_exceed_the_truth_in_at_most_so_many_runs(name: str, folder: Path) -> None:
    replicate_all([name], RUNS, folder, workers=1)
    outcomes = [outcome for outcome in stored(name, folder) if outcome.run < RUNS]
    for rate in violation_rates(outcomes, DELTA):
        assert rate.runs == RUNS and rate.violations <= MOST, rate
    assert all(violations <= MOST for violations, _ in joint_violations(outcomes).values())


@pytest.mark.parametrize("name", gates())
def test_nothing_is_handed_over_without_a_gain_over_the_incumbent(name: str, folder: Path) -> None:
    replicate_all([name], RUNS, folder, workers=1)
    found = [item for run, items in stored_runs(name, gates()[name].key, folder).items() if run < RUNS for item in items]
    assert len(found) == RUNS
    assert sum(item["wrong"] for item in found) <= (0 if "equal" in name else MOST)
    if "equal" in name:
        assert all(item["other"] for item in found)
