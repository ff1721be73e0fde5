"""Means over the tree of decisions against loops, and their three ways with missing and tiny values."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.errors import SettingError
from aegis.problem import (
    Batch,
    LevelTable,
    group_means,
    has_next_sibling,
    means_below,
    nested_means,
    parent_means,
    sibling_positions,
    subtree_means,
)
from aegis.problem.means import plain_means

OUTER = np.array([0, 0, 1], dtype=np.int32)  # decisions of two episodes
INNER = np.array([0, 0, 1, 2, 2, 2], dtype=np.int32)  # decisions below them
VALUES = np.array([1.0, 3.0, 8.0, 0.0, 3.0, 6.0])


def tree(reward: np.ndarray | None = None, observed: np.ndarray | None = None) -> Batch:
    levels = {name: LevelTable.undecided(parent, {}) for name, parent in (("slow", OUTER), ("fast", INNER))}
    return Batch(np.arange(2), levels, reward, observed)


def test_a_nested_mean_weighs_decisions_not_rows() -> None:
    batch = tree()
    assert nested_means(batch, "fast", VALUES).tolist() == [(2.0 + 8.0) / 2, 3.0]
    assert batch.episode_means(VALUES).tolist() == [5.0, 3.0]
    assert nested_means(batch, "slow", np.array([2.0, 8.0, 3.0])).tolist() == [5.0, 3.0]
    assert nested_means(batch, None, np.array([2.0, 8.0])).tolist() == [2.0, 8.0]
    assert means_below(batch, "slow", VALUES).tolist() == [2.0, 8.0, 3.0]


def test_missing_values_spread_or_are_left_out() -> None:
    batch, values = tree(), np.array([np.nan, 3.0, 8.0, np.nan, np.nan, np.nan])
    np.testing.assert_array_equal(nested_means(batch, "fast", values), [np.nan, np.nan])
    np.testing.assert_array_equal(nested_means(batch, "fast", values, plain_means), [np.nan, np.nan])
    np.testing.assert_array_equal(nested_means(batch, "fast", values, group_means), [5.5, np.nan])


def test_parents_without_children_have_no_mean() -> None:
    for mean in (parent_means, plain_means, group_means):
        np.testing.assert_array_equal(mean(np.array([0, 2]), np.array([1.0, 4.0]), 4), [1.0, np.nan, 4.0, np.nan])


def test_plain_means_keep_values_below_the_grid_of_exact_sums() -> None:
    tiny = np.array([1e-14, 3e-14])
    assert plain_means(np.zeros(2, np.int32), tiny, 1)[0] == pytest.approx(2e-14, rel=1e-12)
    assert parent_means(np.zeros(2, np.int32), tiny, 1)[0] == 0.0


def test_a_mean_of_numbers_whose_sum_is_no_float() -> None:
    assert group_means(np.zeros(2, np.int32), np.array([1.5e308, 1.5e308]), 1)[0] == pytest.approx(1.5e308)


def test_subtree_means_leave_out_what_was_not_observed() -> None:
    observed = np.array([True, False, True, False, False, False])
    means = subtree_means(tree(VALUES, observed))
    np.testing.assert_array_equal(means["fast"], np.where(observed, VALUES, np.nan))
    np.testing.assert_array_equal(means["slow"], [1.0, 8.0, np.nan])
    with pytest.raises(SettingError, match="holds no rewards"):
        subtree_means(tree())


def test_siblings() -> None:
    assert has_next_sibling(INNER).tolist() == [True, False, False, True, True, False]
    assert sibling_positions(INNER).tolist() == [0, 1, 0, 0, 1, 2]
