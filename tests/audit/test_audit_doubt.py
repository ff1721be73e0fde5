"""Small logs: half of the mass is for the log as a whole, and some evidence is a warning that costs nothing."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from audit_cases import audited, logged, taken_only
from hostile_logs import always_high, one_level, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.audit import Audit
from aegis.audit.checks.calibration import SliceEvidence, SliceShares
from aegis.audit.checks.propensities import DOUBT
from aegis.certificate import Certificate, certify
from aegis.certificate.assumptions import list_assumptions
from aegis.logs import Source
from aegis.ope import reward_measure
from aegis.policies import TargetColumns
from aegis.problem import Scope, parse_problem
from aegis.rng import stream


def part(where: str, log: float) -> SliceEvidence:
    return SliceEvidence("dose", "a = 1", where, log, 10.0, 5.0, 5.0, 1.0, 0.1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 4), st.integers(0, 200))
def test_shares_add_up_to_one(wholes: int, parts: int) -> None:
    slices = [part("", 0.0)] * wholes + [part("x up to 0", 0.0)] * parts
    shares = SliceShares.of(slices)
    assert shares.mean_log(slices) == pytest.approx(0.0, abs=1e-9) if slices else shares.mean_log(slices) == -math.inf
    if wholes and parts:
        assert shares.mean_log(slices[:wholes]) == pytest.approx(math.log(0.5))


def test_what_is_left_out_counts_as_nothing() -> None:
    slices = [part("", math.log(30.0)), part("x up to 0", math.log(8.0)), part("x above 0", 0.0)]
    shares = SliceShares.of(slices)
    assert shares.mean_log(slices) == pytest.approx(math.log(0.5 * 30 + 0.25 * 8 + 0.25))
    assert shares.mean_log(slices[1:2]) == pytest.approx(math.log(2.0))


def left_out(run: int, count: int) -> pa.Table:
    """Return a log in which the failures of the second action are missing, so that it looks good."""
    rng = stream(run, "left out")
    action, reward = rng.integers(0, 2, count), (rng.random(count) < 0.5).astype(np.float64)
    kept = np.flatnonzero((reward > 0) | (action == 0))
    return rows_of(action, reward, x=rng.normal(size=count)).take(pa.array(kept))


def certified(table: pa.Table) -> Certificate:
    problem = one_level()
    return certify(Source(table, problem), always_high(problem), what=("gain",), ledger=False)


def test_rows_that_were_left_out_do_not_pass_in_silence() -> None:
    noticed, warned = 0, 0
    for run in range(12):
        found = certified(left_out(run, 300))
        codes = {item["code"] for item in found.findings}
        checked = next(item.checked for item in found.assumptions if item.code == "propensities")
        if "doubtful-propensities" in codes:
            warned += 1
            assert "some evidence against, too little" in checked and found.verdict.verdict != "refused"
            message = next(item["message"] for item in found.findings if item["code"] == "doubtful-propensities")
            assert " to 1, that actions were not taken" in message
        noticed += bool(codes & {"doubtful-propensities", "miscalibrated-propensities"})
    assert noticed >= 10 and warned >= 2


def test_doubt_begins_at_twenty_and_ends_where_a_log_is_refused() -> None:
    for run in range(8):
        table = left_out(run, 260)
        problem = one_level()
        batch = next(iter(Source(table, problem).batches()))
        evidence = 10.0 ** float(audited(problem, batch).figures["log10_calibration_evidence"])
        if evidence < math.exp(DOUBT):
            continue
        refused = audited(problem, batch, alpha=min(2.01 / evidence, 0.99))
        doubtful = audited(problem, batch, alpha=1.99 / evidence)
        assert _about_propensities(refused) == ["refused miscalibrated-propensities"]
        assert _about_propensities(doubtful) == ["warning doubtful-propensities"]


def _about_propensities(audit: Audit) -> list[str]:
    """Return what was found about propensities; at the large alpha of this test others may find something by chance."""
    return [f"{found.severity} {found.code}" for found in audit.findings if found.code.endswith("-propensities")]


def test_logs_in_order_hardly_ever_have_a_warning() -> None:
    warned, refused, runs = 0, 0, 50
    for run in range(runs):
        problem, batch = logged(("additive", "clinic")[run % 2], "uniform", 30, 700 + run)
        for form in ((problem, batch), taken_only(problem, batch)):
            codes = audited(*form).codes()
            warned += "doubtful-propensities" in codes
            refused += "miscalibrated-propensities" in codes
    # Two forms of one log, two means of evidence, each at least 20 with a probability of 1/20 at most.
    assert refused == 0 and stats.binomtest(warned, 2 * runs, 0.1, alternative="greater").pvalue > 0.001


def test_words_of_the_assumption() -> None:
    problem = one_level()
    measures = [reward_measure(problem)]
    words = {
        codes: list_assumptions(problem, [], [Scope("dose")], measures, codes)[0].checked.rsplit(": ", 1)[1]
        for codes in ((), ("doubtful-propensities",), ("doubtful-propensities", "miscalibrated-propensities"))
    }
    assert list(words.values()) == ["no evidence against", "some evidence against, too little to refuse", "evidence against"]


COLUMNS = """
episode: id
reward: {column: r, range: [0, 1]}
levels:
  - name: dose
    context: [x]
    action: {column: a, values: [0, 1]}
    propensity: {column: p}
"""


@pytest.mark.parametrize(
    ("factor", "count", "refused"), [(1.1, 100, True), (1.02, 400, True), (1.5, 30, True), (1.0, 400, False)]
)
def test_weights_that_are_never_below_one_are_refused(factor: float, count: int, refused: bool) -> None:
    problem = parse_problem(COLUMNS)
    rng = stream(9, "never below", count)
    action = (rng.random(count) < 0.3).astype(np.int64)
    chance = np.where(action == 1, 0.3, 0.7)
    table = rows_of(action, 0.9 + 0.1 * rng.random(count), x=rng.normal(size=count), p=chance, q=np.minimum(factor * chance, 1))
    found = certify(Source(table, problem), TargetColumns(problem, {"dose": "q"}), what=("gain",), ledger=False)
    assert ("those of a policy average one" in found.verdict.sentence) == refused
    assert found.verdict.verdict == "refused" and ("identical" in found.verdict.sentence) == (factor == 1.0)


def test_a_policy_whose_actions_were_nearly_always_taken_is_not_refused() -> None:
    """All weights are above one where the legacy nearly always does what the candidate does: no fault, and no evidence of one."""
    problem = parse_problem(COLUMNS)
    rng = stream(10, "nearly always")
    action = np.ones(60, dtype=np.int64)
    table = rows_of(action, rng.random(60), x=rng.normal(size=60), p=np.full(60, 0.98), q=np.ones(60))
    found = certify(Source(table, problem), TargetColumns(problem, {"dose": "q"}), what=("gain",), ledger=False)
    assert found.verdict.verdict == "not yet"
