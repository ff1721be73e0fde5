"""Views of batches: large numbers, scaled rewards, and the first episodes of a large batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import audited, logged
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.audit.batch_view import BatchView, scale_to_unit_range
from aegis.audit.check import Thinning

RANGES = [(0.0, 1.0), (-1e300, 1e300), (-1.7e308, 1.7e308), None]


@pytest.mark.parametrize("size", [1e160, 1e300, 1.7e308])
@pytest.mark.parametrize("limits", RANGES)
@pytest.mark.parametrize("ragged", [False, True])
def test_large_rewards(size: float, limits: tuple[float, float] | None, ragged: bool) -> None:
    problem, batch = logged("clinic" if ragged else "additive", "uniform", 60, 1)
    assert batch.reward is not None
    sign = np.where(np.arange(batch.reward.size) % 3 == 0, -1.0, 1.0)
    problem = replace(problem, reward=replace(problem.reward, range=limits), cluster="line")
    audit = audited(problem, replace(batch, reward=size * sign, cluster=np.arange(60) // 4))
    outside = limits is not None and size > limits[1]
    expected = {"no-reward-range"} if limits is None else {"reward-outside-range"} if outside else set()
    assert set(audit.codes("refused")) == expected


def test_large_contexts() -> None:
    problem, batch = logged("additive", "uniform", 120, 1)
    table = batch.levels["inner"]
    large = batch.with_level("inner", replace(table, context={"Q": table.context["Q"] * 1e300}))
    assert audited(problem, large).verdict == "fit"
    late = np.where(batch.episode_of("inner") >= 60, 1.0, -1.0)
    noise = 1.0 + 0.1 * np.sin(np.arange(late.size) ** 2)
    drifting = batch.with_level("inner", replace(table, context={"Q": late * noise * 1e300}))
    found = audited(problem, drifting).findings
    assert [item.code for item in found] == ["drift"] and found[0].figures["second_half"] == pytest.approx(1e300, rel=0.05)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1e308, 1e308), min_size=1, max_size=20), st.floats(-1e308, 1e308), st.floats(1e-3, 1e308))
def test_scaled_rewards_keep_their_order(values: list[float], low: float, width: float) -> None:
    high = min(low + width, 1e308)
    if not high > low:
        return
    found = scale_to_unit_range(np.array([*values, np.nan, low, high]), (low, high))
    assert np.isnan(found[-3]) and found[-2] == 0.0 and found[-1] == pytest.approx(1.0)
    known = np.delete(found, -3)
    assert ((known >= 0) & (known <= 1)).all()
    order = np.argsort(np.clip([*values, low, high], low, high), kind="stable")
    assert (np.diff(known[order]) >= 0).all()
    free = scale_to_unit_range(np.array(values), None)
    assert (np.abs(free) <= 1).all() and (np.diff(free[np.argsort(values)]) >= 0).all()


def test_thinning_looks_at_the_first_episodes_of_a_large_batch() -> None:
    problem, batch = logged("clinic", "natural", 60, 3)
    view, level = BatchView.of(problem, batch, None), problem.innermost.name
    rows = len(batch.levels[level])
    assert Thinning(rows).part(view, level) is view
    thinning = Thinning(rows // 3)
    part = thinning.part(view, level)
    assert part is not None and part is view.first(level, rows // 3)
    count = len(part.batch)
    assert len(part.batch.levels[level]) <= rows // 3 < len(batch.take_episodes(np.arange(count + 1)).levels[level])
    alone = BatchView.of(problem, batch.take_episodes(np.arange(count)), view.cuts)
    for name in problem.names:
        np.testing.assert_array_equal(part.episodes[name], alone.episodes[name])
        np.testing.assert_array_equal(part.starts[name], alone.starts[name])
        np.testing.assert_array_equal(part.above[name], alone.above[name])
        np.testing.assert_array_equal(part.mean_rewards(name), alone.mean_rewards(name))
    np.testing.assert_array_equal(part.reward, alone.reward)
    assert not part.fresh[: view.cuts.used].any() and part.fresh[view.cuts.used :].all()
    assert len(view.first(level, 0).batch) == 1
    assert [thinning.part(view, level) is None for _ in range(3)] == [True, True, True]
