"""The stated incumbent as a policy, and legacies without their exploration."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aegis.errors import PolicyError, SettingError
from aegis.policies import (
    Constant,
    Epsilon,
    Legacy,
    Logged,
    Sign,
    StatedIncumbent,
    Uniform,
    known_incumbent,
    stated_levels,
    with_incumbent,
    without_exploration,
)
from aegis.policies.legacy import exploration_rate
from aegis.problem import Actions, Batch, Incumbent, Level, LevelTable, Problem, Propensity, Variable

ACTIONS = Actions.of("dose", (1, 2, 3))
FULL = np.array([[0.2, 0.3, 0.5], [0.6, 0.2, 0.2]])


def problem_of(incumbent: Incumbent | None) -> Problem:
    level = Level("dose", ACTIONS, (Variable("x"),), Propensity(columns=("p1", "p2", "p3")), incumbent=incumbent)
    return Problem((level,))


def batch_of(base: list[int] | None = None, incumbent: np.ndarray | None = None) -> Batch:
    rows = np.arange(2, dtype=np.int32)
    action = np.array([0, 1], dtype=np.int32)
    meant = None if base is None else np.array(base, dtype=np.int32)
    table = LevelTable(rows, {"x": np.array([-1.0, 1.0])}, action, FULL[rows, action], FULL, base=meant, incumbent=incumbent)
    return Batch(np.arange(2), {"dose": table})


@pytest.mark.parametrize(
    ("incumbent", "batch", "expected"),
    [
        (Incumbent(base="meant"), batch_of([2, 1]), [[0, 0, 1], [0, 1, 0]]),
        (Incumbent(action=2), batch_of(), [[0, 1, 0], [0, 1, 0]]),
        (Incumbent(policy="uniform"), batch_of(), np.full((2, 3), 1 / 3)),
        (Incumbent(policy={"kind": "sign", "variable": "x", "size": 3.0}), batch_of(), [[1, 0, 0], [0, 0, 1]]),
        (Incumbent(columns=("a", "b", "c")), batch_of(incumbent=FULL[::-1]), FULL[::-1]),
        (Incumbent(policy="logged"), batch_of(), FULL),
        (None, batch_of(), FULL),
    ],
)
def test_what_it_does(incumbent: Incumbent | None, batch: Batch, expected: np.ndarray) -> None:
    policy = StatedIncumbent(problem_of(incumbent))
    np.testing.assert_allclose(policy.full("dose", batch)[0], expected)
    np.testing.assert_allclose(policy.taken("dose", batch)[0], np.asarray(expected)[[0, 1], [0, 1]])
    assert (policy.levels == {"dose"}) == (incumbent is not None and not incumbent.logged)


@pytest.mark.parametrize("incumbent", [Incumbent(base="meant"), Incumbent(columns=("a", "b", "c"))])
def test_decisions_without_its_column_are_named(incumbent: Incumbent) -> None:
    with pytest.raises(PolicyError, match="do not hold the incumbent's column"):
        StatedIncumbent(problem_of(incumbent)).full("dose", batch_of())


def test_a_rule_that_does_not_fit_its_level_is_refused() -> None:
    with pytest.raises(PolicyError, match="there is no variable 'y'"):
        StatedIncumbent(problem_of(Incumbent(policy={"kind": "sign", "variable": "y", "size": 1.0})))
    with pytest.raises(SettingError, match="rule"):
        StatedIncumbent(problem_of(Incumbent(policy={"kind": "best"})))


def test_the_state_tells_incumbents_apart() -> None:
    one, other = (StatedIncumbent(problem_of(Incumbent(action=value))) for value in (1, 2))
    assert StatedIncumbent.restore(one.state(), one.problem) == one
    with pytest.raises(PolicyError, match="it was made for the incumbent"):
        StatedIncumbent.restore(one.state(), other.problem)


def test_a_legacy_without_its_exploration() -> None:
    problem = problem_of(None)
    explored = Legacy(problem, {"dose": Epsilon(Epsilon(Sign("x", 3.0), 0.2), 0.5)})
    assert exploration_rate(explored.rules["dose"]) == pytest.approx(0.6)
    assert without_exploration(explored).full("dose", batch_of())[0].tolist() == [[1, 0, 0], [0, 0, 1]]  # type: ignore[union-attr]
    stated = with_incumbent(problem, explored)
    assert stated.levels[0].exploration == pytest.approx(0.6) and stated_levels(stated) == {"dose"}
    full = explored.full("dose", batch_of())[0]
    own = StatedIncumbent(stated).full("dose", batch_of())[0]
    np.testing.assert_allclose(full, 0.4 * own + 0.6 / 3)
    bare = Legacy(problem, {"dose": Uniform()})
    assert with_incumbent(problem, bare).levels[0].incumbent == Incumbent(policy="logged")
    assert exploration_rate(Epsilon(Constant(1), 0.3)) == 0.3  # to the last digit, since problem files show it


def test_an_incumbent_that_is_stated_stays_and_one_that_cannot_be_known_is_not_made_up() -> None:
    problem = problem_of(None)
    stated = replace(problem, levels=(replace(problem.levels[0], incumbent=Incumbent(action=2)),))
    explored = Legacy(stated, {"dose": Epsilon(Constant(1), 0.3)})
    assert known_incumbent(stated, explored) is stated
    assert known_incumbent(problem, Logged(problem)) is problem
    with pytest.raises(SettingError, match="is not known"):
        with_incumbent(problem, Logged(problem))
