"""Traces of decisions: what rounding leaves of them, what counts, and that blocks and order make no difference."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import PolicyError
from aegis.problem import OFFSETS, Batch, LevelTable, TraceCollector, Traces, coarse_path_hashes, parse_problem, path_digest
from aegis.problem.traces import MOST_TRACES, steps_of

TEXT = """
episode: batch
reward: {column: margin, range: [0, 1]}
levels:
  - name: outer
    context: [{column: w, values: [u, v]}]
    action: {column: a, values: [0, 1]}
  - name: inner
    context: [{name: y, columns: [y1, y2, y3]}]
    action: {column: b, values: [0, 1, 2]}
"""


def made(seed: int = 1, episodes: int = 100, steps: int = 3, spread: float = 1.0) -> Batch:
    rng = np.random.default_rng(seed)
    rows = episodes * steps
    parents = np.arange(episodes, dtype=np.int32), np.repeat(np.arange(episodes, dtype=np.int32), steps)
    codes = {"w": rng.integers(0, 2, episodes).astype(np.int32)}
    numbers = {"y": spread * rng.normal(size=(rows, 3))}
    outer = LevelTable(parents[0], codes, rng.integers(0, 2, episodes).astype(np.int32), np.full(episodes, 0.5))
    inner = LevelTable(parents[1], numbers, rng.integers(0, 3, rows).astype(np.int32), np.full(rows, 1 / 3))
    return Batch(np.arange(episodes), {"outer": outer, "inner": inner}, rng.random(rows))


def changed(batch: Batch, level: str, action: Any = None, **context: Any) -> Batch:
    table = batch.levels[level]
    new = LevelTable(table.parent, {**table.context, **context}, table.action if action is None else action, table.mu_taken)
    return batch.with_level(level, new)


def traced(*batches: Batch) -> Traces:
    tracing = TraceCollector("c")
    for batch in batches:
        tracing.add(batch)
    return tracing.done()


def on_either_grid(one: Batch, other: Batch) -> float:
    """Return the share of inner decisions that are the same on one of the grids."""
    steps = steps_of(one)
    pairs = [[coarse_path_hashes(batch, steps, offset)["inner"] for batch in (one, other)] for offset in OFFSETS]
    return float(np.mean(np.any([first == second for first, second in pairs], axis=0)))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 50), st.sampled_from([1e-6, 1.0, 1e9]))
def test_rounded_numbers_are_mostly_the_same(seed: int, spread: float) -> None:
    batch = made(seed, spread=spread)
    values = batch.levels["inner"].context["y"]
    for digits, least in ((3, 0.9), (2, 0.5)):
        assert on_either_grid(batch, changed(batch, "inner", y=np.round(values / spread, digits) * spread)) > least
    assert on_either_grid(batch, changed(batch, "inner", y=values[::-1].copy())) < 0.05


def test_the_second_grid_finds_what_falls_over_an_edge() -> None:
    batch = made()
    width = np.asarray(steps_of(batch)["inner"]["y"])
    at_edges = changed(batch, "inner", y=np.round(batch.levels["inner"].context["y"] / width) * width + 1e-6 * width)
    below = changed(batch, "inner", y=at_edges.levels["inner"].context["y"] - 2e-6 * width)
    found = [
        np.mean(np.equal(*(coarse_path_hashes(item, steps_of(batch), offset)["inner"] for item in (at_edges, below))))
        for offset in OFFSETS
    ]
    assert found[0] == 0.0 and found[1] == 1.0


def test_what_counts() -> None:
    """Categories and actions above; neither the action itself, nor rewards, nor ids."""
    batch = made()
    steps = steps_of(batch)
    before = coarse_path_hashes(batch, steps, 0.0)
    outer, inner = batch.levels["outer"], batch.levels["inner"]
    for other in (changed(batch, "outer", 1 - outer.action), changed(batch, "outer", w=1 - outer.context["w"])):
        assert not np.any(coarse_path_hashes(other, steps, 0.0)["inner"] == before["inner"])
    same = changed(Batch(batch.episode + 7, batch.levels, None), "inner", (inner.action + 1) % 3)
    assert np.array_equal(coarse_path_hashes(same, steps, 0.0)["inner"], before["inner"])


def test_only_what_occurred_once_is_kept_with_its_action() -> None:
    batch = made()
    found = traced(batch)
    assert [kept.hashes.size for kept in found.levels["outer"]] == [0, 0] and not found.empty  # four kinds of episodes
    for kept, offset in zip(found.levels["inner"], OFFSETS, strict=True):
        hashes = coarse_path_hashes(batch, found.steps, offset)["inner"]
        order = np.argsort(hashes)
        assert np.array_equal(kept.hashes, hashes[order])
        assert np.array_equal(kept.actions, batch.levels["inner"].action[order])
    assert traced(batch, batch).empty and traced(batch, batch, batch).empty and traced().empty


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 20))
def test_blocks_make_no_difference_and_memory_is_bounded(seed: int) -> None:
    batch = made(seed, 7000)  # more decisions than are held
    head, *rest = (batch.take_episodes(part) for part in np.array_split(np.arange(7000), 5))
    many, one = traced(head, *rest), TraceCollector("c")
    one.add(head.take_episodes(np.zeros(0, dtype=np.int64)))
    assert one.steps is None
    one.add(head)  # the first block that is not empty tells the widths
    one.add(batch.take_episodes(np.arange(len(head), 7000)))
    assert one.done().plain() == many.plain()
    assert [kept.hashes.size for kept in many.levels["inner"]] == [MOST_TRACES, MOST_TRACES]


def test_numbers_without_spread_do_not_count_and_odd_ones_do_no_harm() -> None:
    batch = made()
    values = batch.levels["inner"].context["y"].copy()
    values[:, 0], values[3, 1], values[4, 1], values[5, 2] = 2.0, np.nan, np.inf, 1e300
    found = traced(changed(batch, "inner", y=values))
    assert found.steps["inner"]["y"][0] == np.inf and all(np.isfinite(found.steps["inner"]["y"][1:]))
    again = Traces.of(json.loads(json.dumps(found.plain(), allow_nan=False)))
    assert again.plain() == found.plain() and again.steps == found.steps


def test_a_few_large_numbers_do_not_widen_the_cells() -> None:
    batch = made()
    values = batch.levels["inner"].context["y"].copy()
    values[:5] *= 1e6
    assert np.allclose(steps_of(changed(batch, "inner", y=values))["inner"]["y"], steps_of(batch)["inner"]["y"], rtol=0.2)


def test_exact_numbers_of_an_interval_are_kept_whatever_the_blocks() -> None:
    batch = made()
    inner, numbers = batch.levels["inner"], np.random.default_rng(2).random(300)
    batch = batch.with_level("inner", replace(inner, value=numbers))
    found = traced(batch)
    for kept, offset in zip(found.levels["inner"], OFFSETS, strict=True):
        order = np.argsort(coarse_path_hashes(batch, found.steps, offset)["inner"])
        assert kept.values is not None and np.array_equal(kept.values, numbers[order])
    assert found.levels["outer"][0].values is None
    assert Traces.of(json.loads(json.dumps(found.plain()))).plain() == found.plain()


def test_a_damaged_record_is_told() -> None:
    plain = traced(made()).plain()
    own = plain["levels"]["inner"][0]
    short, few = {"hashes": own["hashes"], "actions": ""}, {**own, "values": "00" * 8}
    for damage in (
        {},
        {**plain, "levels": {}},
        {**plain, "steps": 3},
        {**plain, "levels": {**plain["levels"], "inner": [short] * 2}},
        {**plain, "levels": {**plain["levels"], "inner": [few] * 2}},
    ):
        with pytest.raises(PolicyError, match="traces cannot be read"):
            Traces.of(damage)


def test_the_reward_is_not_part_of_what_is_compared() -> None:
    problem = parse_problem(TEXT)
    assert path_digest(parse_problem(TEXT.replace("margin, range: [0, 1]", "m, range: [0, 100]"))) == path_digest(problem)
    for old, new in (("y3", "z"), ("[u, v]", "[v, u]"), ("[0, 1, 2]", "[2, 1, 0]"), ("column: b", "column: c")):
        assert path_digest(parse_problem(TEXT.replace(old, new))) != path_digest(problem)
