"""Depth-first order and running sums on ragged trees."""

from __future__ import annotations

import numpy as np
import policy_examples as ex
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.policies import sums_before
from aegis.policies.mixture import decision_positions


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(0, 10**6), st.integers(1, 6))
def test_positions_are_a_depth_first_walk(depth, seed, episodes):
    batch = ex.batch(ex.problem(depth), seed, episodes)
    names = list(batch.levels)
    walk = []

    def visit(level, parent):
        if level < len(names):
            for row in np.flatnonzero(batch.levels[names[level]].parent == parent):
                walk.append((names[level], int(row)))
                visit(level + 1, row)

    for episode in range(episodes):
        visit(0, episode)
    found = decision_positions(batch)
    assert [found[name][row] for name, row in walk] == list(range(len(walk)))


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(0, 10**6), st.integers(1, 6))
def test_sums_start_anew_in_every_episode_and_infinity_absorbs(depth, seed, episodes):
    batch = ex.batch(ex.problem(depth), seed, episodes)
    rng = np.random.default_rng(seed)
    values = {
        name: np.where(rng.random((2, len(table))) < 0.1, -np.inf, rng.normal(size=(2, len(table))))
        for name, table in batch.levels.items()
    }
    found = sums_before(batch, values)
    items = [
        (batch.episode_of(name)[row], place, name, row)
        for name, where in decision_positions(batch).items()
        for row, place in enumerate(where)
    ]
    running, previous = np.zeros(2), -1
    for episode, _, name, row in sorted(items):
        running = np.zeros(2) if episode != previous else running
        np.testing.assert_array_equal(found[name][:, row], running)
        running, previous = running + values[name][:, row], episode
