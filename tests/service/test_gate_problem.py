"""The problem as a live gate logs it: who the incumbent is stays known, and the words say over whom gains are."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from service_cases import small_problem

from aegis.handover import problem_as_logged
from aegis.ope import Comparator
from aegis.problem import Incumbent, Level, Problem, Propensity
from aegis.service.gate_problem import comparators_by_level, live_problem, sends_incumbent, uniform_rates

COLUMNS = ("incumbent_dose_0", "incumbent_dose_1", "incumbent_dose_2")
BASE = Propensity(base="meant", epsilon=0.2)
WROTE = "the policy that wrote the log, exploration included"


def with_dose(problem: Problem | None = None, **changed: Any) -> Problem:
    """Return the small problem with another inner level."""
    found = problem or small_problem()
    return replace(found, levels=(found.levels[0], replace(found.levels[1], **changed)))


def live_dose(**changed: Any) -> Level:
    """Return the inner level as a live gate has it."""
    return live_problem(with_dose(**changed)).level("dose")


# ---- who the incumbent is ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stated",
    [
        Incumbent(action=0.0, epsilon=0.1),
        Incumbent(action=0.0),
        Incumbent(policy="uniform", max_ratio=2.0),
        Incumbent(policy={"kind": "constant", "value": 1.0}, epsilon=0.2),
        Incumbent(policy="logged"),
    ],
)
def test_an_action_or_a_rule_stays_as_it_is(stated: Incumbent) -> None:
    level = live_dose(incumbent=stated)
    assert level.incumbent == stated
    assert not sends_incumbent(level)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"propensity": BASE}, Incumbent(columns=COLUMNS, epsilon=0.2)),
        ({"propensity": BASE, "incumbent": Incumbent(base="meant")}, Incumbent(columns=COLUMNS, epsilon=0.2)),
        ({"propensity": Propensity(base="meant", epsilon=1.0)}, Incumbent(columns=COLUMNS, max_ratio=3.0)),
        ({"incumbent": Incumbent(base="meant")}, Incumbent(columns=COLUMNS)),
        ({"incumbent": Incumbent(base="meant", max_ratio=1.5)}, Incumbent(columns=COLUMNS, max_ratio=1.5)),
        ({"incumbent": Incumbent(base="meant", epsilon=0.3)}, Incumbent(columns=COLUMNS, epsilon=0.3)),
        ({"incumbent": Incumbent(columns=("a", "b", "c"), epsilon=0.3)}, Incumbent(columns=COLUMNS, epsilon=0.3)),
        (
            {"incumbent": Incumbent(columns=("a", "b", "c"), max_product=4.0)},
            Incumbent(columns=COLUMNS, max_product=4.0),
        ),
        (
            {"incumbent": Incumbent(base="meant"), "propensity": Propensity(column="p_dose", least=0.1)},
            Incumbent(columns=COLUMNS, max_ratio=10.0),
        ),
    ],
)
def test_an_incumbent_in_columns_of_a_log_is_sent_with_each_decision(changed: dict[str, Any], expected: Incumbent) -> None:
    level = live_dose(**changed)
    assert level.incumbent == expected
    assert sends_incumbent(level)


def test_a_log_that_says_nothing_of_the_incumbent_has_none() -> None:
    assert live_dose().incumbent is None
    assert Comparator.of(live_problem(small_problem())).policy is None


def test_a_live_problem_is_its_own() -> None:
    for changed in ({"propensity": BASE}, {"incumbent": Incumbent(base="meant", max_ratio=2.0)}):
        once = live_problem(with_dose(**changed))
        assert live_problem(once) == once


def test_only_declared_uniform_exploration_tells_the_incumbent() -> None:
    assert uniform_rates(with_dose(propensity=BASE)) == {"dose": 0.2}
    assert uniform_rates(with_dose(propensity=Propensity(base="meant", epsilon=1.0))) == {}
    assert uniform_rates(with_dose(propensity=BASE, incumbent=Incumbent(action=0.0))) == {}
    assert uniform_rates(with_dose(incumbent=Incumbent(columns=("a", "b", "c"), epsilon=0.2))) == {}


# ---- over whom gains are -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({}, WROTE),
        ({"incumbent": Incumbent(policy="logged")}, f"the incumbent, which is {WROTE}"),
        ({"propensity": BASE}, "the incumbent (as the control system sends it with each decision)"),
        ({"incumbent": Incumbent(action=0.0)}, "the incumbent (always '0.0')"),
    ],
)
def test_words_say_over_whom_gains_are(changed: dict[str, Any], words: str) -> None:
    found = comparators_by_level(live_problem(with_dose(**changed)))
    assert found == {"recipe": WROTE, "dose": words}


def test_a_log_keeps_no_promise_about_a_level_that_was_handed_over() -> None:
    live = live_problem(with_dose(propensity=BASE))
    assert problem_as_logged(live, ()) == live
    assert problem_as_logged(live, {"recipe"}) == live
    assert problem_as_logged(live, {"dose"}).level("dose").incumbent == Incumbent(columns=COLUMNS)
