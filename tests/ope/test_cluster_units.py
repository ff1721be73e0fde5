"""Units: nested means of ragged trees against loops, and clusters of episodes by mean and by total."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import RefusedError
from aegis.ope import ClusterUnits, unit_word
from aegis.problem import Array, Batch, LevelTable, nested_means, parent_means, parse_problem

NAMES = ("slow", "middle", "fast")
counts = st.lists(st.integers(0, 3), min_size=0, max_size=3)
trees = st.lists(st.lists(counts, min_size=1, max_size=3), min_size=1, max_size=4)  # episodes of outer decisions of inner ones


def ragged(tree: list[list[list[int]]]) -> Batch:
    """Return a batch whose k-th episode has decisions as the lists say: outer, middle, and how many innermost below each."""
    parents: dict[str, list[int]] = {name: [] for name in NAMES}
    for number, episode in enumerate(tree):
        for outer in episode:
            parents["slow"].append(number)
            for inner in outer:
                parents["middle"].append(len(parents["slow"]) - 1)
                parents["fast"] += [len(parents["middle"]) - 1] * inner
    levels = {}
    for name, found in parents.items():
        size = len(found)
        levels[name] = LevelTable(np.array(found, dtype=np.int32), {}, np.zeros(size, dtype=np.int32), np.ones(size))
    return Batch(np.arange(len(tree)), levels)


def mean(values: list[Any]) -> Any:
    return sum(values) / len(values) if values else math.nan


@settings(max_examples=80, deadline=None)
@given(trees, st.integers(0, 5), st.integers(0, 2))
def test_nested_means_against_loops(tree: list[list[list[int]]], seed: int, width: int) -> None:
    batch = ragged(tree)
    shape = (len(batch.levels["fast"]),) if width == 0 else (len(batch.levels["fast"]), width)
    values = np.random.default_rng(seed).normal(size=shape)
    rest = iter(values)
    expected = [mean([mean([mean([next(rest) for _ in range(n)]) for n in outer]) for outer in episode]) for episode in tree]
    found = nested_means(batch, "fast", values)
    assert found.shape == (len(tree), *shape[1:])
    for row, value in zip(found, expected, strict=True):
        np.testing.assert_allclose(row, value, rtol=1e-12, atol=1e-12)


def test_values_of_episodes_and_of_outer_decisions() -> None:
    batch = ragged([[[1], [2, 1]], [[1]]])
    np.testing.assert_array_equal(nested_means(batch, None, np.array([3.0, 4.0])), [3.0, 4.0])
    np.testing.assert_allclose(nested_means(batch, "slow", np.array([1.0, 3.0, 5.0])), [2.0, 5.0])
    np.testing.assert_allclose(nested_means(batch, "middle", np.array([1.0, 2.0, 4.0, 5.0])), [2.0, 5.0])


def test_parents_without_children_are_unknown_not_zero() -> None:
    found = parent_means(np.array([0, 0, 2], dtype=np.int32), np.array([1.0, 3.0, 5.0]), 4)
    np.testing.assert_array_equal(found, [2.0, math.nan, 5.0, math.nan])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-1, 1)), min_size=1, max_size=30), st.integers(1, 4), st.booleans())
def test_clusters_against_loops(episodes: list[tuple[int, float]], pieces: int, totals: bool) -> None:
    ids = np.array([f"c{key}" for key, _ in episodes], dtype=object)
    values = np.array([[x, 2 * x] for _, x in episodes])
    bases, most = np.array([0.5, -1.0]), 30 if totals else None
    clusters = ClusterUnits(bases, most, "machine")
    for part in np.array_split(np.arange(len(ids)), pieces):
        if part.size:
            clusters.add(ids[part], values[part])
    expected: dict[str, Array] = {}
    for key in dict.fromkeys(ids):
        own = values[ids == key]
        expected[key] = bases + ((own - bases).sum(axis=0) / most if most else (own - bases).mean(axis=0))
    found = clusters.units()
    assert len(found) == len(expected)
    for key, row in clusters.rows.items():
        np.testing.assert_allclose(found[row], expected[key], atol=1e-12)


def test_a_cluster_of_one_episode_is_that_episode_and_half_of_it_if_two_were_possible() -> None:
    one, two = ClusterUnits(np.array([1.0]), None, "m"), ClusterUnits(np.array([1.0]), 2, "m")
    for clusters in (one, two):
        clusters.add(np.array([7]), np.array([[3.0]]))
    assert one.units().tolist() == [[3.0]]
    assert two.units().tolist() == [[2.0]]


def test_more_episodes_than_declared_are_refused_with_the_cluster() -> None:
    clusters = ClusterUnits(np.zeros(1), 2, "machine")
    clusters.add(np.array(["a", "b", "b"], dtype=object), np.ones((3, 1)))
    clusters.units()
    clusters.add(np.array(["b"], dtype=object), np.ones((1, 1)))
    with pytest.raises(RefusedError, match=r"'machine': cluster 'b' has 3 episodes, but at most 2"):
        clusters.units()


def test_words() -> None:
    text = "episode: e\n{}reward: {{column: r}}\nlevels: [{{name: a, action: {{column: x, values: [1, 2]}}}}]"
    assert unit_word(parse_problem(text.format(""))) == "episodes"
    assert unit_word(parse_problem(text.format("cluster: m\n"))) == "clusters"
