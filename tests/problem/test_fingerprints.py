"""Hashes of content: what counts, what does not, and that order and blocks make no difference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import PolicyError
from aegis.problem import (
    Batch,
    EpisodeFingerprints,
    LevelTable,
    content_digest,
    decision_hashes,
    episode_hashes,
    parse_problem,
    row_hashes,
)
from aegis.problem.fingerprints import MOST_FINGERPRINTS

TEXT = """
episode: batch
reward: {column: margin, range: [0, 1]}
levels:
  - name: outer
    context: [x]
    action: {column: a, values: [0, 1]}
  - name: inner
    context: [{name: y, columns: [y1, y2]}]
    action: {column: b, values: [0, 1, 2]}
"""


def made(seed: int = 1, episodes: int = 12, steps: int = 3) -> Batch:
    rng = np.random.default_rng(seed)
    rows = episodes * steps
    outer = LevelTable(
        np.arange(episodes, dtype=np.int32),
        {"x": rng.normal(size=episodes)},
        rng.integers(0, 2, episodes).astype(np.int32),
        np.full(episodes, 0.5),
    )
    inner = LevelTable(
        np.repeat(np.arange(episodes, dtype=np.int32), steps),
        {"y": rng.normal(size=(rows, 2))},
        rng.integers(0, 3, rows).astype(np.int32),
        np.full(rows, 0.25),
    )
    return Batch(np.arange(episodes), {"outer": outer, "inner": inner}, rng.random(rows), np.ones(rows, dtype=bool))


def with_inner(batch: Batch, **changes: Any) -> Batch:
    return batch.with_level("inner", replace(batch.levels["inner"], **changes))


def shuffled(batch: Batch, seed: int) -> Batch:
    """Return the same episodes, the rows of each in another order."""
    inner = batch.levels["inner"]
    order = np.lexsort((np.random.default_rng(seed).random(len(inner)), inner.parent))
    assert batch.reward is not None
    return replace(batch.with_level("inner", inner.take(order, inner.parent)), reward=batch.reward[order])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100), st.integers(1, 4))
def test_neither_order_nor_names_nor_blocks_count(seed: int, steps: int) -> None:
    batch = made(seed, steps=steps)
    whole = episode_hashes(batch)
    assert np.array_equal(episode_hashes(replace(shuffled(batch, seed), episode=np.array([f"e{k}" for k in range(12)]))), whole)
    order = np.random.default_rng(seed).permutation(12)
    assert np.array_equal(episode_hashes(batch.take_episodes(order)), whole[order])
    assert np.unique(whole).size == 12


def test_every_context_action_and_reward_counts() -> None:
    batch = made()
    inner = batch.levels["inner"]
    assert batch.reward is not None
    before = episode_hashes(batch)
    other = inner.context["y"].copy()
    other[0, 1] += 1e-3
    reward = batch.reward.copy()
    reward[0] += 1e-3
    action = inner.action.copy()
    action[0] = (action[0] + 1) % 3
    outer = batch.levels["outer"]
    above = outer.context["x"].copy()
    above[0] += 1e-3
    for changed in (
        with_inner(batch, context={"y": other}),
        with_inner(batch, action=action),
        replace(batch, reward=reward),
        batch.with_level("outer", replace(outer, context={"x": above})),
    ):
        assert (episode_hashes(changed) != before).tolist() == [True] + [False] * 11
    # two numbers that change places are something else
    assert episode_hashes(with_inner(batch, context={"y": inner.context["y"][:, ::-1]}))[0] != before[0]


def test_single_precision_and_odd_numbers() -> None:
    """Many an export keeps 32 bits; 0 is -0, a missing reward is a missing reward, and 1e300 is no reason to warn."""
    batch = made()
    inner = batch.levels["inner"]
    assert batch.reward is not None
    rounded = replace(
        with_inner(batch, context={"y": inner.context["y"].astype(np.float32).astype(np.float64)}),
        reward=batch.reward.astype(np.float32).astype(np.float64),
    )
    assert np.array_equal(episode_hashes(rounded), episode_hashes(batch))
    assert not np.array_equal(row_hashes(rounded), row_hashes(batch))
    for one, other, same in ((0.0, -0.0, True), (np.nan, -np.nan, True), (1e300, 2.0, False), (np.nan, 0.0, False)):
        pair = [episode_hashes(replace(batch, reward=np.full(36, value))) for value in (one, other)]
        assert np.array_equal(*pair) == same


def test_rows_count_with_all_that_is_known_of_them() -> None:
    batch = made()
    before = row_hashes(batch)
    assert np.unique(before).size == 36
    seen = batch.observed
    assert seen is not None
    other = seen.copy()
    other[5] = False
    assert np.flatnonzero(row_hashes(replace(batch, observed=other)) != before).tolist() == [5]
    propensities = batch.levels["inner"].mu_taken.copy()
    propensities[7] = 0.3
    assert np.flatnonzero(row_hashes(with_inner(batch, mu_taken=propensities)) != before).tolist() == [7]
    ids = [np.arange(12, dtype=np.uint64)]
    assert np.flatnonzero(row_hashes(batch, ids) != row_hashes(batch, [ids[0] + (ids[0] == 2)])).tolist() == [6, 7, 8]


def test_decisions_count_with_those_above_them() -> None:
    batch = made()
    outer = batch.levels["outer"]
    flipped = batch.with_level("outer", replace(outer, action=1 - outer.action))
    for level in ("outer", "inner"):
        assert not (decision_hashes(flipped)[level] == decision_hashes(batch)[level]).any()


def test_what_was_hashed_has_a_digest() -> None:
    problem = parse_problem(TEXT)
    assert content_digest(parse_problem(TEXT.replace("batch", "other"))) == content_digest(problem)
    for old, new in (
        ("[x]", "[z]"),
        ("[0, 1]}\n  - name: inner", "[1, 0]}\n  - name: inner"),
        ("[y1, y2]", "[y2, y1]"),
        ("margin", "m"),
    ):
        assert content_digest(parse_problem(TEXT.replace(old, new))) != content_digest(problem)


def test_what_was_seen_goes_into_a_record_and_back() -> None:
    rng = np.random.default_rng(2)
    hashes = rng.integers(0, 2**64, 3 * MOST_FINGERPRINTS, dtype=np.uint64)
    seen = EpisodeFingerprints.among([hashes, hashes[:10], hashes[:3]], "c")
    assert (seen.episodes, seen.distinct, seen.single, seen.double) == (
        3 * MOST_FINGERPRINTS + 13,
        3 * MOST_FINGERPRINTS,
        3 * MOST_FINGERPRINTS - 10,
        7,
    )
    assert seen.sampled and seen.hashes.size == MOST_FINGERPRINTS
    assert np.array_equal(seen.hashes, np.sort(hashes[10:])[:MOST_FINGERPRINTS])
    again = EpisodeFingerprints.of(seen.plain())
    assert again.plain() == seen.plain() and np.array_equal(again.hashes, seen.hashes)
    assert seen.plain()["threshold"] == f"{int(seen.hashes[-1]):016x}"
    assert EpisodeFingerprints.among([], "c").chance == 1.0
    for damage in ({}, {**seen.plain(), "hashes": "xyz"}, {**seen.plain(), "single": "many"}):
        with pytest.raises(PolicyError, match="fingerprints cannot be read"):
            EpisodeFingerprints.of(damage)


def test_the_chance_of_meeting_one_again_covers_what_happens() -> None:
    """Of episodes of few kinds most come again; the chance that is stated is not below what is found in other episodes.

    It is an estimate: of 255 logs one in a hundred may have more of them again than five standard deviations allow.
    """
    beyond = 0
    for seed in range(51):
        for kinds in (3, 30, 300, 3000, 10**6):
            rng = np.random.default_rng(seed)
            drawn = rng.geometric(1.0 / kinds, 800).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            seen = EpisodeFingerprints.among([drawn[:400]], "c")
            hits = np.isin(drawn[400:], seen.hashes).sum()
            beyond += int(hits > 400 * seen.chance + 5 * np.sqrt(400 * seen.chance) + 1)
            different = np.isin(seen.hashes, drawn[400:]).sum()  # what a certificate counts
            assert different <= 400 * seen.chance + 5 * np.sqrt(400 * seen.chance) + 1
    assert beyond <= 2
