"""From runs to verdicts: rates, p-values, what counts against which bound, and what stands apart."""

from __future__ import annotations

import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from aegis.errors import RefusedError
from aegis.validation import Validation, judge_runs
from aegis.validation.bound_validation import median_with_infinity
from aegis.validation.trial import BoundOutcome

GOOD = BoundOutcome("plain", "gain", True, "anytime", "certificate", 200, 0.05, 0.1, False, False, 40, True, False)
FIXED = replace(GOOD, bound="Hoeffding", validity="fixed time", label="certificate at one number of units, fixed beforehand")
GUESS = replace(GOOD, bound="Student t", validity="approximate", certificate=False, label="not a certificate: right only ...")


def validation(*runs: list[BoundOutcome], about: dict[str, Any] | None = None) -> Validation:
    return judge_runs({run: [asdict(item) for item in found] for run, found in enumerate(runs)}, 0.05, about or {})


def test_rates_and_medians() -> None:
    found = validation(
        [replace(GOOD, above=10)], [replace(GOOD, above=None, value=0.0)], [replace(GOOD, at_end=True, ever=True, value=0.2)]
    )
    row = found.row("plain")
    assert (row.runs, row.at_end, row.ever, row.units) == (3, 1, 1, 40)
    assert row.ever_p == pytest.approx(1 - 0.95**3)
    assert row.width == pytest.approx(0.05) and row.truth == pytest.approx(0.1)
    assert (row.nulls, row.false, row.false_p, row.verdict) == (0, 0, 1.0, "holds")


def test_a_certificate_that_is_wrong_too_often_is_violated() -> None:
    wrong = replace(GOOD, ever=True)
    for number, verdict in ((5, "holds"), (12, "violated")):
        found = validation(*[[wrong] for _ in range(number)], *[[GOOD] for _ in range(60 - number)])
        assert found.row("plain").ever_p == pytest.approx(binom.sf(number - 1, 60, 0.05))
        assert (found.row("plain").verdict, found.exit_code) == (verdict, 0 if verdict == "holds" else 4)
        assert found.holds == (verdict == "holds")


def test_a_promise_for_one_number_of_units_is_judged_there() -> None:
    on_the_way = validation(*[[replace(FIXED, ever=True)] for _ in range(20)])
    assert on_the_way.row("Hoeffding").verdict == "holds" and on_the_way.row("Hoeffding").ever == 20
    in_the_end = validation(*[[replace(FIXED, ever=True, at_end=True)] for _ in range(20)])
    assert in_the_end.row("Hoeffding").verdict == "violated"


def test_false_gains_count_at_nulls_only() -> None:
    null = replace(GOOD, null=True)
    assert validation(*[[GOOD] for _ in range(20)]).holds  # certified, and there is a gain
    found = validation(*[[null] for _ in range(20)])
    assert (found.row("plain").false, found.row("plain").nulls, found.exit_code) == (20, 20, 4)
    crossed = replace(null, ends_above=False)
    assert validation(*[[crossed] for _ in range(20)]).row("plain").false == 20  # once certified is enough
    once = replace(crossed, bound="Hoeffding", validity="fixed time")
    assert validation(*[[once] for _ in range(20)]).row("Hoeffding").false == 0
    values = replace(null, claim="value", above=None, ends_above=False)
    assert validation(*[[values] for _ in range(20)]).row("plain", "value").nulls == 0


def test_what_is_no_certificate_stands_apart_and_never_fails() -> None:
    found = validation(*[[replace(GUESS, ever=True, at_end=True), GOOD] for _ in range(30)], about={"plant": "x"})
    assert [row.bound for row in found.rows] == ["plain", "Student t"]
    assert found.row("Student t").verdict is None and found.holds
    shown = found.to_json()
    assert [row["bound"] for row in shown["certificates"]] == ["plain"]
    assert [row["bound"] for row in shown["not_certificates"]] == ["Student t"]
    assert (shown["plant"], shown["verdict"], shown["runs"]) == ("x", "holds", 30)


def test_one_run_without_its_conditions_makes_no_certificate() -> None:
    outside = replace(GOOD, certificate=False, label="not a certificate: values lie in [0, 3], B is 2")
    row = validation([GOOD], [outside]).row("plain")
    assert (row.certificate, row.verdict, row.label) == (False, None, outside.label)


def test_refused_runs_are_told() -> None:
    found = judge_runs({0: [asdict(GOOD)], 1: [{"refused": "reward 3 lies outside"}]}, 0.05, {})
    assert found.refused == ("run 1: reward 3 lies outside",) and found.rows[0].runs == 1
    with pytest.raises(RefusedError, match="run 0: no range"):
        judge_runs({0: [{"refused": "no range"}]}, 0.05, {})
    with pytest.raises(RefusedError, match="no bound applies"):
        judge_runs({0: []}, 0.05, {})


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=9), st.integers(0, 12))
def test_medians_with_infinite_ones(finite: list[float], infinite: int) -> None:
    found = median_with_infinity([*finite, *[math.inf] * infinite])
    if infinite >= len(finite):
        assert math.isinf(found)
    else:
        assert found == pytest.approx(np.median([*finite, *[1e9] * infinite]))
    assert validation([replace(GOOD, above=None)]).row("plain").plain()["units"] is None


def test_too_few_runs_never_hold() -> None:
    """Two runs that are both wrong have a p-value of 0.0025: nothing could have been called violated."""
    for number, verdict in ((1, "too few runs"), (2, "too few runs"), (3, "holds")):
        found = validation(*[[GOOD, GUESS] for _ in range(number)])
        assert (found.row("plain").verdict, found.verdict, found.to_json()["verdict"]) == (verdict, verdict, verdict)
        assert found.holds == (verdict == "holds") and found.exit_code == 0
        assert found.row("Student t").verdict is None
    wrong = replace(GOOD, ever=True)
    assert validation([wrong], [wrong]).verdict == "too few runs"
    assert validation([wrong], [wrong], [wrong]).verdict == "violated"
    # One bound has a number in one run only, the others in all of them.
    some = validation([GOOD, FIXED], [GOOD], [GOOD])
    assert some.row("plain").verdict == "holds" and some.row("Hoeffding").verdict == some.verdict == "too few runs"


def test_how_often_the_worst_may_be_wrong() -> None:
    found = validation(*[[replace(GOOD, ever=number < 2), replace(FIXED, ever=True)] for number in range(60)])
    assert found.worst is not None and found.worst.bound == "plain" and found.worst.wrong == 2
    limit = found.worst.wrong_at_most
    assert binom.cdf(2, 60, limit) == pytest.approx(0.05)  # Clopper and Pearson
    assert found.row("plain").plain()["wrong_at_most"] == limit
    assert found.row("Hoeffding").wrong == 0  # on the way does not count against it
    assert found.row("Hoeffding").wrong_at_most == pytest.approx(1 - 0.05 ** (1 / 60))
    assert validation(*[[replace(GOOD, ever=True)] for _ in range(5)]).row("plain").wrong_at_most == 1.0
    assert validation(*[[GUESS] for _ in range(5)]).worst is None
