"""Batches: trees of decisions as arrays, against loops over the tree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problem_cases import nested, same, tree, trees

from aegis.errors import ProblemError
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Variable, augmented_context, hypothetical_batch

FEW = settings(max_examples=30, deadline=None)
# two episodes; the first has one level-2 decision with three below, the second two with one and two below
SMALL = tree([[1, 2], [3, 1, 2]])


def children(batch: Batch, depth: int, row: int) -> list[int]:
    """Rows at `depth` (0 = outermost level) below row `row` of the table above, found one by one."""
    parent = list(batch.levels.values())[depth].parent
    return [i for i in range(len(parent)) if parent[i] == row]


def leaves(batch: Batch, depth: int, row: int) -> list[int]:
    if depth == len(batch.levels):
        return [row]
    return [leaf for child in children(batch, depth, row) for leaf in leaves(batch, depth + 1, child)]


def mean_below(batch: Batch, values: np.ndarray, depth: int, row: int) -> float:
    if depth == len(batch.levels):
        return float(values[row])
    below = [mean_below(batch, values, depth + 1, child) for child in children(batch, depth, row)]
    return sum(below) / len(below) if below else float("nan")


# ---- the tree --------------------------------------------------------------------------------------------------------


def test_a_small_tree_by_hand() -> None:
    np.testing.assert_array_equal(SMALL.levels["l1"].parent, [0, 0, 0, 1, 2, 2])
    above = SMALL.ancestors("l1")
    assert list(above) == ["l1", "l2"]
    np.testing.assert_array_equal(above["l1"], np.arange(6))
    np.testing.assert_array_equal(above["l2"], [0, 0, 0, 1, 2, 2])
    np.testing.assert_array_equal(SMALL.episode_of("l1"), [0, 0, 0, 1, 1, 1])
    np.testing.assert_array_equal(SMALL.episode_of("l2"), [0, 1, 1])
    np.testing.assert_array_equal(SMALL.first_rows("l2"), [0, 3, 4])
    np.testing.assert_array_equal(SMALL.first_rows("l1"), np.arange(6))
    values = np.array([1.0, 2.0, 6.0, 10.0, 0.0, 4.0])
    np.testing.assert_allclose(SMALL.episode_means(values), [3.0, (10.0 + 2.0) / 2])  # a flat mean would say 14/3
    np.testing.assert_allclose(SMALL.episode_sums(values), [9.0, 14.0])
    assert len(SMALL) == 2 and len(SMALL.levels["l1"]) == 6


@FEW
@given(trees())
def test_ancestors_and_episodes_are_those_found_by_walking_up(batch: Batch) -> None:
    names = list(batch.levels)
    for position, name in enumerate(names):
        above = batch.ancestors(name)
        assert list(above) == names[position::-1]
        for row in range(len(batch.levels[name])):
            here = row
            for outer in names[position::-1]:
                assert above[outer][row] == here
                here = int(batch.levels[outer].parent[here])
            assert batch.episode_of(name)[row] == here


@FEW
@given(trees(least=0))
def test_nested_means_and_sums_are_those_of_nested_loops(batch: Batch) -> None:
    values = np.asarray(batch.reward)
    expected = [mean_below(batch, values, 0, k) for k in range(len(batch))]
    np.testing.assert_allclose(batch.episode_means(values), np.array(expected), rtol=1e-12, atol=1e-12)
    sums = [sum(values[leaf] for leaf in leaves(batch, 0, k)) for k in range(len(batch))]
    np.testing.assert_allclose(batch.episode_sums(values), np.array(sums), rtol=1e-12, atol=1e-12)


@FEW
@given(trees())
def test_first_rows_are_the_first_leaves(batch: Batch) -> None:
    for depth, (name, table) in enumerate(batch.levels.items()):
        expected = [leaves(batch, depth + 1, row)[0] for row in range(len(table))]
        np.testing.assert_array_equal(batch.first_rows(name), np.array(expected, dtype=int))


def test_episodes_and_decisions_without_anything_below() -> None:
    batch = tree([[1, 0, 2], [2, 0, 1]])
    np.testing.assert_array_equal(np.isnan(batch.episode_means(np.ones(3))), [False, True, True])
    np.testing.assert_array_equal(batch.episode_sums(np.ones(3)), [2.0, 0.0, 1.0])
    with pytest.raises(ProblemError, match="1 decisions have none at 'l1' below, first 1"):
        batch.first_rows("l2")


def test_an_unknown_level_is_refused() -> None:
    for ask in (SMALL.ancestors, SMALL.episode_of, SMALL.first_rows):
        with pytest.raises(ProblemError, match=r"no level 'l9' \(did you mean '.*'\?\); it has l2, l1"):
            ask("l9")


# ---- choosing episodes -----------------------------------------------------------------------------------------------


@FEW
@given(trees(), st.data())
def test_taking_episodes_keeps_each_of_them_whole(batch: Batch, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.integers(0, len(batch) - 1), max_size=6)) if len(batch) else []
    taken = batch.take_episodes(rows)
    np.testing.assert_array_equal(taken.episode, batch.episode[rows])
    np.testing.assert_array_equal(np.asarray(taken.cluster), np.asarray(batch.cluster)[rows])
    np.testing.assert_array_equal(np.asarray(taken.time), np.asarray(batch.time)[rows])
    wanted = [leaf for row in rows for leaf in leaves(batch, 0, row)]
    for name in ("reward", "observed", "outcome", "closed"):
        np.testing.assert_array_equal(getattr(taken, name), getattr(batch, name)[wanted])
    np.testing.assert_array_equal(taken.guards["scrap"], batch.guards["scrap"][wanted])
    np.testing.assert_array_equal(taken.extra["note"], batch.extra["note"][wanted])
    for position, (name, table) in enumerate(taken.levels.items()):
        source = batch.levels[name]
        order = np.array(_rows_at(batch, position, rows), dtype=int)
        assert np.all(np.diff(table.parent) >= 0) and table.parent.dtype == np.int32
        for field in ("action", "mu_taken", "mu_full", "available"):
            np.testing.assert_array_equal(getattr(table, field), getattr(source, field)[order])
        index = len(batch.levels) - position
        np.testing.assert_array_equal(table.context[f"c{index}"], source.context[f"c{index}"][order])
        assert table.version == source.version
    if rows:
        expected = batch.episode_means(np.asarray(batch.reward))[rows]
        np.testing.assert_allclose(taken.episode_means(np.asarray(taken.reward)), expected)


def _rows_at(batch: Batch, depth: int, above: list[int]) -> list[int]:
    for level in range(depth + 1):
        above = [child for row in above for child in children(batch, level, row)]
    return above


@FEW
@given(trees())
def test_taking_all_episodes_changes_nothing(batch: Batch) -> None:
    assert same(batch.take_episodes(np.arange(len(batch))), batch)


def test_a_mask_takes_the_episodes_where_it_is_true() -> None:
    batch = tree([[1, 2, 1]])
    assert same(batch.take_episodes(np.array([True, False, True])), batch.take_episodes([0, 2]))
    assert same(batch.take_episodes([False, False, True]), batch.take_episodes([2]))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([-1], "from 0 to 1, found -1 to -1"),
        ([0, 2], "from 0 to 1, found 0 to 2"),
        ([True], r"a mask of episodes has shape \(2,\)"),
    ],
)
def test_wrong_episode_rows_are_refused(rows: list[object], message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        SMALL.take_episodes(rows)  # type: ignore[arg-type]


# ---- what is known at a decision -------------------------------------------------------------------------------------


@FEW
@given(trees())
def test_the_augmented_context_is_all_contexts_and_the_actions_above(batch: Batch) -> None:
    depth = len(batch.levels)
    problem = nested(depth)
    for index in range(1, depth + 1):
        level = f"l{index}"
        rows = augmented_context(problem, batch, level)
        expected = [name for i in range(depth, index, -1) for name in (f"c{i}", f"a{i}")] + [f"c{index}"]
        assert list(rows) == expected
        with_action = augmented_context(problem, batch, level, with_action=True)
        assert list(with_action) == [*expected, f"a{index}"]
        above = batch.ancestors(level)
        for i in range(depth, index - 1, -1):
            table, at = batch.levels[f"l{i}"], above[f"l{i}"]
            np.testing.assert_array_equal(rows[f"c{i}"], table.context[f"c{i}"][at])
            np.testing.assert_array_equal(with_action[f"a{i}"], np.array([0.5, 1.5, 2.5])[table.action[at]])


def test_the_augmented_context_of_an_outer_level_of_a_batch_under_construction() -> None:
    batch = Batch(np.arange(2), {"l2": LevelTable.undecided([0, 1], {"c2": np.array([3.0, 4.0])})})
    rows = augmented_context(nested(2), batch, "l2")
    assert list(rows) == ["c2"]
    with pytest.raises(ProblemError, match="-1 marks a decision without an action"):
        augmented_context(nested(2), batch, "l2", with_action=True)


@FEW
@given(trees(depth=3), st.sampled_from(["l3", "l2", "l1"]))
def test_a_chain_is_asked_the_same_question(batch: Batch, level: str) -> None:
    problem = nested(3)
    above = batch.ancestors(level)
    rows = augmented_context(problem, batch, level)
    chosen = {name: batch.levels[name].action[at] for name, at in above.items() if name != level}
    count = len(batch.levels[level])
    masks = {name: np.asarray(batch.levels[name].available)[at] for name, at in above.items()}
    asked = hypothetical_batch(problem, level, count, rows, chosen, masks)
    assert len(asked) == count
    found = augmented_context(problem, asked, level)
    assert list(found) == list(rows)
    for name in rows:
        np.testing.assert_array_equal(found[name], rows[name])
    for name, mask in masks.items():
        np.testing.assert_array_equal(asked.levels[name].available, mask)
    np.testing.assert_array_equal(asked.levels[level].action, np.full(count, -1))
    assert np.all(np.isnan(asked.levels[level].mu_taken))
    np.testing.assert_array_equal(asked.episode_of(level), np.arange(count))


def test_vectors_and_labels_pass_through_a_chain() -> None:
    outer = Level("ward", Actions.of("drug", ("x", "y", "z")), (Variable("patient", "vector", ("age", "weight")),))
    inner = Level("visit", Actions("dose", (1, 2)), (Variable("mood", "categorical", values=("low", "high")),))
    problem = Problem((outer, inner))
    patient = np.array([[1.0, 2.0], [3.0, 4.0]])
    rows = {"patient": patient, "mood": np.array([1, 0], dtype=np.int32)}
    found = augmented_context(problem, hypothetical_batch(problem, "visit", 2, rows, {"ward": np.array([2, 0])}), "visit")
    assert list(found) == ["patient", "drug", "mood"]
    np.testing.assert_array_equal(found["patient"], patient)
    np.testing.assert_array_equal(found["drug"], [2, 0])
    assert found["drug"].dtype == np.int32


def test_deciding_fills_in_a_table_and_leaves_the_old_one() -> None:
    mask = np.array([[True, False, True]])
    table = LevelTable.undecided([0], {"c1": np.array([1.0])}, mask)
    full = np.array([[0.5, 0.0, 0.5]])
    decided = table.decided([2], np.array([0.5]), full)
    assert table.action[0] == -1 and decided.action[0] == 2 and decided.action.dtype == np.int32
    assert decided.mu_taken[0] == 0.5 and decided.mu_full is full and decided.available is mask
    batch = Batch(np.arange(1), {"l1": table}).with_level("l1", decided)
    assert batch.levels["l1"] is decided
