"""Levels and the five forms of a propensity."""

from __future__ import annotations

import math
from typing import Any

import pytest

from aegis.errors import ProblemError
from aegis.problem import Actions, Level, Propensity, parse_problem

TWO = Actions("a", (1, 2))


@pytest.mark.parametrize(
    ("propensity", "full", "columns"),
    [
        (Propensity(column="p"), False, ("p",)),
        (Propensity(columns=("p1", "p2")), True, ("p1", "p2")),
        (Propensity(policy="uniform"), True, ()),
        (Propensity(base="meant", epsilon=0.1), True, ("meant",)),
        (Propensity(shares=(0.6, 0.4)), True, ()),
    ],
)
def test_each_form_says_what_it_knows_and_what_it_reads(propensity: Propensity, full: bool, columns: tuple[str, ...]) -> None:
    assert propensity.full is full
    assert propensity.log_columns == columns


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "exactly one of 'column'"),
        ({"column": "p", "policy": "uniform"}, "exactly one of 'column'"),
        ({"columns": ("p", "q"), "base": "b", "epsilon": 0.1}, "exactly one of 'column'"),
        ({"epsilon": 0.1}, "exactly one of 'column'"),
        ({"shares": (0.5, 0.5), "policy": "uniform"}, "exactly one of 'column'"),
        ({"shares": (0.5, 0.4)}, r"'shares' sum to 0.9, expected 1 \(within 1e-06\); write a third as 0.3333333"),
        ({"shares": (60, 40)}, "found 60; write 60 % as 0.6"),
        ({"shares": (1.0, 0.0)}, "each of 'shares' is a probability above 0 and below 1, found 1.0"),
        ({"shares": (math.nan, 0.5)}, "above 0 and below 1, found nan"),
        ({"base": "b"}, "'base' and 'epsilon' belong together"),
        ({"column": "p", "epsilon": 0.1}, "'base' and 'epsilon' belong together"),
        ({"base": "b", "epsilon": 0.0}, "above 0 and at most 1, found 0.0"),
        ({"base": "b", "epsilon": 1.01}, "above 0 and at most 1, found 1.01"),
        ({"base": "b", "epsilon": math.nan}, "above 0 and at most 1, found nan"),
        ({"columns": ("p", "p")}, "'p' is listed twice"),
        ({"column": "p", "least": 0.0}, "'least', a probability, is a finite number above 0 and at most 1, found 0.0"),
        ({"column": "p", "least": 1.5}, "'least', a probability, is a finite number above 0 and at most 1, found 1.5"),
        ({"column": "p", "least": math.nan}, "'least', a probability, is a finite number above 0 and at most 1, found nan"),
    ],
)
def test_a_wrong_propensity_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Propensity(**arguments)  # type: ignore[arg-type]


def test_shares_are_one_for_each_action_and_none_is_ever_masked() -> None:
    assert Level("dose", TWO, propensity=Propensity(shares=(0.6, 0.4))).propensity
    with pytest.raises(ProblemError, match="one entry per action, in their order: expected 2, found 3"):
        Level("dose", TWO, propensity=Propensity(shares=(0.6, 0.2, 0.2)))
    with pytest.raises(ProblemError, match="'available' masks actions in some"):
        Level("dose", TWO, propensity=Propensity(shares=(0.6, 0.4)), available=("m1", "m2"))


def test_exploring_always_is_allowed() -> None:
    assert Propensity(base="b", epsilon=1).epsilon == 1


def test_what_is_promised_of_every_action_is_at_most_one_in_all() -> None:
    ten = Actions("a", tuple(range(10)))
    assert Level("dose", ten, propensity=Propensity(column="p", least=0.1)).propensity
    with pytest.raises(ProblemError, match=r"promises 0\.11 for each of 10 actions, .* at most 0\.1 here"):
        Level("dose", ten, propensity=Propensity(column="p", least=0.11))
    # With masks there may be a single action to choose from.
    assert Level("dose", TWO, propensity=Propensity(column="p", least=0.9), available=("can_1", "can_2")).propensity


def test_a_level_has_sensible_defaults() -> None:
    level = Level("dose", TWO)
    assert (level.context, level.propensity, level.decision, level.margin, level.masked) == ((), None, None, 0.0, False)
    assert Level("dose", TWO, available=("can_1", "can_2")).masked


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "a level needs a name"),
        ({"available": ("can_1",)}, "one entry per action, in their order: expected 2, found 1"),
        ({"available": ("can_1", "can_1")}, "'can_1' is listed twice"),
        ({"propensity": Propensity(columns=("p1", "p2", "p3"))}, "one entry per action, in their order: expected 2, found 3"),
        ({"margin": math.inf}, "'margin' is a finite number, found inf"),
        ({"margin": math.nan}, "'margin' is a finite number, found nan"),
    ],
)
def test_a_wrong_level_is_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        Level(**({"name": "dose", "actions": TWO} | arguments))  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [{"shares": (0.6, 0.4)}, {"columns": ("p_1", "p_2")}, {"policy": "uniform"}])
def test_an_interval_asks_for_its_density_before_anything_else(given: dict[str, Any]) -> None:
    dose = Actions.interval("dose", 0.0, 2.0, 0.2)
    with pytest.raises(ProblemError, match=r"level 'dose': an action on an interval needs 'propensity: \{column"):
        Level("dose", dose, propensity=Propensity(**given))


def test_what_is_wrong_with_a_propensity_names_its_level() -> None:
    level = "{name: arm, action: {column: a, values: [x, y]}, propensity: {shares: [0.5, 0.4]}}"
    text = f"episode: e\nreward: {{column: r}}\nlevels: [{level}]"
    with pytest.raises(ProblemError, match=r"level 'arm': propensity: 'shares' sum to 0\.9"):
        parse_problem(text)
