"""Actions on an interval: in the problem file, as windows around points, as cells, at atoms."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from aegis.errors import ProblemError
from aegis.problem import (
    Actions,
    Batch,
    LevelTable,
    Propensity,
    augmented_context,
    concat,
    decision_hashes,
    dump_problem,
    episode_hashes,
    hypothetical_batch,
    is_atom,
    nearest_points,
    parse_problem,
    window_density,
    window_ends,
)
from aegis.worlds import make_world

FILE = """
episode: course
reward: {column: benefit, range: [0, 1]}
levels:
  - name: dose
    context: [marker]
    action: {column: dose, interval: [0, 10], bandwidth: 0.5, points: 11, atoms: [0, 10], lipschitz: 0.2}
    propensity: {column: p_dose, density: true}
"""


def test_a_file_with_an_interval_is_read_and_written_back() -> None:
    problem = parse_problem(FILE)
    actions = problem.innermost.actions
    assert actions == Actions.interval("dose", 0.0, 10.0, 0.5, 11, (0.0, 10.0), 0.2)
    assert actions.continuous and actions.numeric and actions.count == 11 and actions.limits == (0.0, 10.0)
    assert problem.innermost.propensity == Propensity(column="p_dose", density=True) and not problem.innermost.propensity.full
    assert parse_problem(yaml.safe_dump(dump_problem(problem))) == problem
    assert parse_problem(FILE.replace(", points: 11, atoms: [0, 10], lipschitz: 0.2", "")).innermost.actions.count == 21


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("bandwidth: 0.5, ", "", "needs a 'bandwidth'"),
        ("bandwidth: 0.5", "bandwidth: 0", "above 0 and at most its length 10, found 0"),
        ("bandwidth: 0.5", "bandwidth: 11", "at most its length 10, found 11"),
        (
            "bandwidth: 0.5",
            "bandwidth: 1.0e-13",
            "to the nearest 1.78e-15; it is at least 1000 times that (1.78e-12)",
        ),
        ("interval: [0, 10]", "interval: [10, 0]", "finite low < high"),
        ("interval: [0, 10]", "grid: {low: 0, high: 10, points: 11}", "belongs to an 'interval"),
        ("interval: [0, 10]", "interval: [0, 10], values: [1, 2]", "either 'values' or a 'grid'"),
        ("atoms: [0, 10]", "atoms: [0, 11]", "an atom lies in the interval [0, 10], found 11"),
        ("atoms: [0, 10]", "atoms: [0, 0]", "listed twice"),
        ("lipschitz: 0.2", "lipschitz: -1", "a finite number from 0"),
        (", density: true", "", "needs 'propensity: {column: ..., density: true}'"),
        ("{column: p_dose, density: true}", "{policy: uniform}", "of a uniform draw it is 0.1 throughout"),
        ("{column: p_dose, density: true}", "{policy: uniform, density: true}", "'density' is for a 'column'"),
        ("density: true", "density: true, least: 0.1", "it has no 'least'"),
        ("    propensity", "    available: [a, b, c, d, e, f, g, h, i, j, k]\n    propensity", "has no 'available' columns"),
    ],
)
def test_what_an_interval_cannot_be(old: str, new: str, words: str) -> None:
    with pytest.raises(ProblemError, match=re.escape(words)):
        parse_problem(FILE.replace(old, new))


def test_a_density_goes_with_an_interval_only() -> None:
    finite = FILE.replace("interval: [0, 10], bandwidth: 0.5, points: 11, atoms: [0, 10], lipschitz: 0.2", "values: [1, 2]")
    with pytest.raises(ProblemError, match="'density: true' goes with an action on an 'interval'"):
        parse_problem(finite)
    with pytest.raises(ProblemError, match="belong to an 'interval'"):
        Actions("dose", (0.0, 1.0), "grid", bandwidth=0.5)


def actions_of(low: float, length: float, share: float, points: int) -> Actions:
    return Actions.interval("a", low, low + length, share * length, points)


INTERVALS = st.builds(
    actions_of, st.floats(-100, 100), st.floats(0.01, 1000), st.floats(0.01, 0.99), st.integers(min_value=2, max_value=40)
)


@given(INTERVALS, st.floats(0, 1))
def test_a_window_is_cut_to_the_interval_and_holds_its_centre(actions: Actions, share: float) -> None:
    low, high = actions.limits
    centre = np.array([low + share * (high - low)])
    lower, upper = window_ends(actions, centre)
    assert low <= lower[0] <= centre[0] + 1e-9 and centre[0] - 1e-9 <= upper[0] <= high
    # Never shorter than the bandwidth: one side is whole unless the interval ends on both.
    assert upper[0] - lower[0] >= min(actions.bandwidth or 0.0, high - low) * (1 - 1e-9) - 1e-9


@given(INTERVALS, st.floats(0, 1))
def test_the_density_of_a_window_integrates_to_one(actions: Actions, share: float) -> None:
    low, high = actions.limits
    lower, upper = window_ends(actions, np.array([low + share * (high - low)]))
    inside = np.linspace(lower[0], upper[0], 7)[1:-1]
    heights = window_density(actions, np.array([low + share * (high - low)]), inside)
    assert heights == pytest.approx(1 / (upper[0] - lower[0]))
    assert heights[0] * (upper[0] - lower[0]) == pytest.approx(1.0)
    outside = np.array([lower[0] - 0.01 * (high - low), upper[0] + 0.01 * (high - low)])
    assert (window_density(actions, np.array([low + share * (high - low)]), outside) == 0).all()


def test_windows_meet_without_overlap_but_for_the_end() -> None:
    actions = Actions.interval("a", 0.0, 4.0, 0.5, 5)
    value = np.array([0.5, 1.5, 4.0])
    found = np.array([window_density(actions, np.array([centre]), value) for centre in (0.0, 1.0, 2.0, 4.0)])
    assert found.tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2]]  # the last window is half as long


@given(INTERVALS, st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_the_nearest_point_is_nearest(actions: Actions, shares: list[float]) -> None:
    low, high = actions.limits
    value = low + np.array(shares) * (high - low)
    index = nearest_points(actions, value)
    distance = np.abs(actions.numbers[None] - value[:, None])
    assert distance[np.arange(value.size), index] == pytest.approx(distance.min(axis=1), abs=1e-9 * (high - low))


def test_atoms_are_known_up_to_round_off_and_have_no_density() -> None:
    actions = Actions.interval("a", 0.0, 10.0, 1.0, 11, (0.0, 2.0))
    value = np.array([0.0, 2.0 + 5e-9, 2.001, 10.0])
    assert is_atom(actions, value).tolist() == [True, True, False, False]
    assert window_density(actions, np.array([1.5]), value).tolist() == [0.0, 0.0, 0.5, 0.0]


def table(value: list[float]) -> LevelTable:
    actions, numbers = make_world("dosing").problem.innermost.actions, np.array(value)
    mu = np.full(numbers.size, 0.1)
    return LevelTable(
        np.arange(numbers.size, dtype=np.int32),
        {"marker": np.zeros(numbers.size)},
        nearest_points(actions, numbers),
        mu,
        value=numbers,
    )


def batch(value: list[float]) -> Batch:
    problem = make_world("dosing").problem
    count = len(value)
    outer = LevelTable(
        np.arange(count, dtype=np.int32), {"severity": np.zeros(count)}, np.zeros(count, dtype=np.int32), np.ones(count)
    )
    return Batch(np.arange(count), {problem.names[0]: outer, "dose": table(value)}, reward=np.zeros(count))


def test_exact_actions_survive_taking_joining_and_hiding() -> None:
    whole = batch([1.0, 1.01, 9.99])
    assert whole.take_episodes([2, 0]).levels["dose"].value.tolist() == [9.99, 1.0]  # type: ignore[union-attr]
    assert concat([whole, batch([3.0])]).levels["dose"].value.tolist() == [1.0, 1.01, 9.99, 3.0]  # type: ignore[union-attr]
    hidden = whole.before("dose").levels["dose"]
    assert hidden.value is not None and np.isnan(hidden.value).all() and (hidden.action == -1).all()
    assert whole.before("dose", taken=True).levels["dose"].value is whole.levels["dose"].value
    lost = whole.with_level("dose", replace(whole.levels["dose"], value=None))
    with pytest.raises(ProblemError, match="exact actions of level 'dose'"):
        concat([whole, lost])


def test_models_see_exact_actions_and_hashes_tell_them_apart() -> None:
    problem, whole = make_world("dosing").problem, batch([1.0, 1.01])
    assert augmented_context(problem, whole, "dose", with_action=True)["dose"].tolist() == [1.0, 1.01]
    assert whole.levels["dose"].action[0] == whole.levels["dose"].action[1]  # the same point
    hashes = decision_hashes(whole)["dose"]
    assert hashes[0] != hashes[1]
    assert episode_hashes(whole)[0] != episode_hashes(whole)[1]


def test_hypothetical_decisions_below_an_interval_know_its_numbers() -> None:
    problem = parse_problem(FILE)
    two = replace(problem, levels=(problem.levels[0], replace(make_world("dosing").problem.levels[0], name="after")))
    rows = {"marker": np.zeros(2), "severity": np.zeros(2)}
    by_point = hypothetical_batch(two, "after", 2, rows, {"dose": np.array([0, 10])})
    by_number = hypothetical_batch(two, "after", 2, rows, {"dose": np.array([0.2, 9.9])})
    assert augmented_context(two, by_point, "after")["dose"].tolist() == [0.0, 10.0]
    assert augmented_context(two, by_number, "after")["dose"].tolist() == [0.2, 9.9]
    assert by_number.levels["dose"].action.tolist() == [0, 10]
