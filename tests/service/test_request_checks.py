"""Checks of requests against the problem: values come out as arrays hold them, and every mistake names its field."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from service_cases import result, small_problem

from aegis.problem import Problem
from aegis.service.gate_problem import live_problem
from aegis.service.http_errors import WrongRequest
from aegis.service.request_checks import (
    LONGEST,
    LegacyChecks,
    check_context,
    check_mask,
    check_operator,
    check_result,
    check_taken,
    find_action,
    find_level,
    quote_json,
)
from aegis.service.schemas import Legacy, Report

PROBLEM = live_problem(small_problem())
RECIPE, DOSE = PROBLEM.levels
SENT = LegacyChecks(uniform=False, rates={})
UNIFORM = LegacyChecks(uniform=True, rates={})


def report(**changed: Any) -> Report:
    """Return the result of a dose."""
    return Report(**result("e", **changed))


def test_what_fits_comes_out_as_arrays_hold_it() -> None:
    assert find_level(PROBLEM, "dose") is DOSE
    assert check_context(RECIPE, {"task": "hard"}) == {"task": 1}
    assert check_context(DOSE, {"temperature": 20}) == {"temperature": 20.0}
    assert (check_mask(RECIPE, [True, False, True]), check_mask(DOSE, None)) == ((True, False, True), None)
    assert [find_action(RECIPE, "fast", "used"), find_action(DOSE, 0, "used"), find_action(DOSE, 1.0 + 1e-12, "used")] == [
        1,
        1,
        2,
    ]
    read = check_result(PROBLEM, report(reward=4))
    assert (read.reward, read.outcome, read.guards) == (4.0, None, {"scrap": 0.5})
    assert check_result(PROBLEM, report(reward=None, missing=True)).reward is None


WRONG: dict[str, Callable[[], object]] = {
    "level: there is no 'doze' .*did you mean 'dose'": lambda: find_level(PROBLEM, "doze"),
    "context: level 'dose' has no 'heat'": lambda: check_context(DOSE, {"heat": 1}),
    "context: 'temperature' is missing": lambda: check_context(DOSE, {}),
    "context: 'temperature': a finite number, found true": lambda: check_context(DOSE, {"temperature": True}),
    """context: 'task' is one of \\["easy", "hard"\\], found 1""": lambda: check_context(RECIPE, {"task": 1}),
    "available: every action of level 'dose' is always available": lambda: check_mask(DOSE, [True] * 3),
    "available: one true or false for each of the 3 actions, found 2": lambda: check_mask(RECIPE, [True] * 2),
    "available: .*at least one available": lambda: check_mask(RECIPE, [False] * 3),
    "used: an action of level 'dose' is one of -1.0, 0.0, 1.0, found 0.5": lambda: find_action(DOSE, 0.5, "used"),
    "used: the legacy says that it never takes": lambda: check_taken(DOSE, 1.0, (0.5, 0.5, 0.0), "used"),
    "reward: a number; or say 'missing: true'": lambda: check_result(PROBLEM, report(reward=None)),
    "missing: a reward that is there": lambda: check_result(PROBLEM, report(missing=True)),
    "reward: 11 lies outside the declared range": lambda: check_result(PROBLEM, report(reward=11)),
    "guards: 'scrap' is missing": lambda: check_result(PROBLEM, report(guards={})),
    "guards: there is no 'crap' .*did you mean 'scrap'": lambda: check_result(PROBLEM, report(guards={"crap": 1})),
    "outcome: this problem has none": lambda: check_result(PROBLEM, report(outcome=1)),
    "legacy: say what the legacy would do": lambda: SENT.legacy(DOSE, None, None),
    "legacy.epsilon: say at which rate": lambda: SENT.legacy(DOSE, Legacy(action=0), None),
    "legacy.epsilon: a rate of exploration above 0": lambda: SENT.legacy(DOSE, Legacy(action=0, epsilon=0), None),
    "legacy.distribution: probabilities sum to 1, found 0.9": lambda: SENT.legacy(DOSE, Legacy(distribution=[0.3] * 3), None),
    "legacy.distribution: -0.1 is not a probability": lambda: SENT.legacy(DOSE, Legacy(distribution=[1.1, -0.1, 0][::-1]), None),
    "legacy.distribution: .*draws uniformly": lambda: UNIFORM.legacy(DOSE, Legacy(distribution=[0.5, 0.5, 0]), None),
    "legacy.incumbent: the problem file states no incumbent": lambda: SENT.incumbent(DOSE, Legacy(incumbent=0), (1, 0, 0), None),
    "action: one of .*found 'stop'": lambda: check_operator(["dose"], "stop", "x", None),
    "why: say in a few words": lambda: check_operator(["dose"], "pause", " ", None),
    "level: say which one to approve": lambda: check_operator(["dose"], "approve", "x", None),
}


@pytest.mark.parametrize("words", list(WRONG))
def test_a_mistake_names_its_field(words: str) -> None:
    with pytest.raises(WrongRequest, match=f"^{words}"):
        WRONG[words]()


def test_a_legacy_explores_uniformly_over_what_is_available() -> None:
    mask, epsilon = (True, False, True), 0.3
    expected = [epsilon / 2 + (1 - epsilon), 0.0, epsilon / 2]
    assert SENT.legacy(RECIPE, Legacy(action="slow", epsilon=epsilon), mask) == pytest.approx(expected)
    assert UNIFORM.legacy(RECIPE, None, mask) == (0.5, 0.0, 0.5)
    with pytest.raises(WrongRequest, match=r'^legacy\.action: "fast" is not available'):
        SENT.legacy(RECIPE, Legacy(action="fast", epsilon=epsilon), mask)


def test_an_incumbent_follows_from_the_legacy_and_its_rate() -> None:
    rate, own = 0.4, np.array([0.1, 0.0, 0.9])
    level = live_problem(_with_base(small_problem())).level("dose")
    checks = LegacyChecks(uniform=False, rates={"dose": rate})
    legacy = tuple((1 - rate) * own + rate / 3)
    assert checks.incumbent(level, None, legacy, None) == pytest.approx(own)
    with pytest.raises(WrongRequest, match=r"^legacy\.distribution: the problem file declares uniform exploration at the rate"):
        checks.incumbent(level, None, (0.9, 0.1, 0.0), None)


def _with_base(problem: Problem) -> Problem:
    recipe, dose = problem.levels
    assert dose.propensity is not None
    return replace(
        problem, levels=(recipe, replace(dose, propensity=replace(dose.propensity, column=None, base="b", epsilon=0.4)))
    )


def test_what_is_long_is_cut() -> None:
    assert quote_json(None) == "null"
    assert quote_json("x" * 200) == '"' + "x" * (LONGEST - 1) + "..."
