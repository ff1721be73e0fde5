"""Rewards that belong to larger units than the problem says."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import numpy.typing as npt
import pytest
from audit_cases import (
    audited,
    copied_reward,
    logged,
)
from hostile_logs import even, one_level, runs_and_doses, two_levels
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.audit import Finding
from aegis.audit.checks.rewards import FEWEST_ENDS
from aegis.problem import Batch
from aegis.rng import stream

Floats = npt.NDArray[np.float64]


def rows(sizes: npt.ArrayLike, reward: Floats, observed: npt.NDArray[np.bool_] | None = None) -> Batch:
    """Return episodes of these sizes with even propensities."""
    owner = np.repeat(np.arange(len(np.asarray(sizes))), sizes)
    rng = stream(1, "rows", owner.size)
    table = even(owner, rng.integers(0, 2, owner.size), x=rng.normal(size=owner.size))
    return Batch(np.arange(len(np.asarray(sizes))), {"dose": table}, reward, observed)


def ends_of(batch: Batch) -> npt.NDArray[np.bool_]:
    owner = batch.episode_of("dose")
    return np.append(owner[1:] != owner[:-1], True)


def codes(batch: Batch, *more: str) -> tuple[str, ...]:
    return audited(one_level(*more), batch).codes("refused")


@pytest.mark.parametrize("filling", [0.0, 0.5, np.nan])
def test_a_reward_in_the_last_row_only_is_refused(filling: float) -> None:
    rng = stream(1, "at end")
    sizes = rng.integers(1, 6, 120)
    batch = rows(sizes, np.zeros(sizes.sum()))
    last = ends_of(batch)
    reward = np.where(last, rng.random(sizes.sum()), filling)
    log = replace(batch, reward=np.nan_to_num(reward), observed=np.isfinite(reward))
    audit = audited(one_level(), log)
    found = next(item for item in audit.refused if item.code == "reward-at-end")
    assert found.level is None and "per: episode" in found.fix and found.figures["groups"] == (sizes > 1).sum()
    assert ("missing in all" if np.isnan(filling) else f"is {filling:g} in all") in found.message
    # Under 'within' every earlier decision is in the weight; for a whole episode the last row is what counts.
    assert "reward-at-end" not in codes(log, "carry_over: within")
    assert "reward-at-end" not in codes(log, "", ", per: episode")


def test_one_other_row_is_enough_to_be_in_order() -> None:
    rng = stream(2, "at end")
    batch = rows(np.full(200, 4), np.zeros(800))
    reward = np.where(ends_of(batch), rng.random(800), 0.0)
    assert "reward-at-end" in codes(replace(batch, reward=reward))
    reward[401] = 1.0
    assert "reward-at-end" not in codes(replace(batch, reward=reward))


def test_few_groups_and_constant_ends_say_nothing() -> None:
    rng = stream(3, "at end")
    for groups, expected in ((FEWEST_ENDS - 1, False), (FEWEST_ENDS, True)):
        batch = rows(np.full(groups, 5), np.zeros(5 * groups))
        log = replace(batch, reward=np.where(ends_of(batch), rng.random(5 * groups), 0.0))
        assert ("reward-at-end" in codes(log)) == expected
    batch = rows(np.full(100, 3), np.zeros(300))
    assert "reward-at-end" not in codes(replace(batch, reward=ends_of(batch).astype(np.float64)))
    assert "reward-at-end" not in codes(rows(np.ones(100, dtype=int), rng.random(100)))


def test_rare_rewards_that_come_late_by_chance_are_in_order() -> None:
    """Four rewards in groups of two rows are all in the last row once in sixteen logs: no evidence."""
    batch = rows(np.full(200, 2), np.zeros(400))
    reward = np.zeros(400)
    reward[[11, 101, 201, 303]] = 1.0
    assert "reward-at-end" not in codes(replace(batch, reward=reward))
    reward[1:80:4] = 1.0
    assert "reward-at-end" in codes(replace(batch, reward=reward))


def test_awaited_rewards_are_no_filling() -> None:
    rng = stream(4, "at end")
    batch = rows(np.full(100, 3), rng.random(300))
    closed = ends_of(batch)
    assert "reward-at-end" not in codes(replace(batch, closed=closed, observed=closed))


@pytest.mark.parametrize(("level", "per"), [("episode", "episode"), ("recipe", "recipe")])
def test_the_largest_unit_is_named_and_every_scope_is_concerned(level: str, per: str) -> None:
    rng = stream(5, "at end")
    batch = runs_and_doses(rng, 80)
    owner = batch.episode_of("dose") if level == "episode" else batch.levels["dose"].parent
    reward = np.where(np.append(owner[1:] != owner[:-1], True), rng.random(owner.size), 0.0)
    audit = audited(two_levels(), replace(batch, reward=reward), scope=["dose"])
    found = next(item for item in audit.refused if item.code == "reward-at-end")
    assert f"per: {per}" in found.fix and found.level is None


@cache
def rewards_at_end() -> tuple[Batch, Finding]:
    rng = stream(6, "at end")
    batch = rows(np.full(100, 3), np.zeros(300))
    log = replace(batch, reward=np.where(ends_of(batch), rng.random(300).round(1), 0.0))
    return log, next(item for item in audited(one_level(), log).refused if item.code == "reward-at-end")


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 99), min_size=1, max_size=4))
def test_pieces_do_not_matter_at_the_end(cuts: list[int]) -> None:
    log, whole = rewards_at_end()
    pieces = [log.take_episodes(piece) for piece in np.split(np.arange(100), sorted(set(cuts)))]
    found = next(item for item in audited(one_level(), *pieces).refused if item.code == "reward-at-end")
    assert (found.message, found.figures) == (whole.message, whole.figures)


@pytest.mark.parametrize("world", ["additive", "plant", "clinic"])
def test_logs_in_order_are_not_at_end(world: str) -> None:
    problem, batch = logged(world, "uniform", 60, 3)
    assert batch.reward is not None
    for reward in (batch.reward, np.zeros(batch.reward.size), (batch.reward > np.quantile(batch.reward, 0.99)).astype(float)):
        assert "reward-at-end" not in audited(problem, replace(batch, reward=reward)).codes()


@pytest.mark.parametrize(("world", "level", "per"), [("additive", None, "episode"), ("plant", "recipe", "recipe")])
def test_a_reward_copied_to_all_rows_is_refused(world: str, level: str | None, per: str) -> None:
    problem, batch = logged(world, "uniform", 60, 9)
    fault = copied_reward(batch, level)
    found = [item for item in audited(problem, fault).refused if item.code == "reward-repeated"]
    assert len(found) == 1 and f"per: {per}" in found[0].fix
    declared = replace(problem, reward=replace(problem.reward, per=per))
    assert "reward-repeated" not in audited(declared, fault).codes()


def test_rare_and_constant_rewards_are_not_taken_for_repeated_ones() -> None:
    problem, batch = logged("additive", "uniform", 200, 10)
    assert batch.reward is not None
    rare = (stream(2, "rare").random(batch.reward.size) < 0.002).astype(np.float64)
    for reward in (rare, np.zeros(rare.size)):
        assert "reward-repeated" not in audited(problem, replace(batch, reward=reward)).codes()
