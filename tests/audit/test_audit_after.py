"""What comes after what: pairs of decisions and of episodes, and the tests on them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audit_cases import audited, logged, taken_only, with_taken
from hostile_logs import even, one_level, runs_and_doses, two_levels
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.audit import Auditor
from aegis.audit.batch_view import BatchView
from aegis.audit.betting import Choices, EpisodeBets
from aegis.audit.checks.carry_over import decision_pairs
from aegis.audit.slices import Cuts
from aegis.problem import Batch
from aegis.rng import stream

FORMS = pytest.mark.parametrize("taken", [False, True])


def refused(batch: Batch, taken: bool, alpha: float = 0.001) -> list[tuple[str, str | None]]:
    problem, log = taken_only(two_levels(), batch) if taken else (two_levels(), batch)
    return [(item.code, item.level) for item in audited(problem, log, alpha=alpha).refused]


@FORMS
def test_a_dose_that_affects_the_next_run_is_refused(taken: bool) -> None:
    batch = runs_and_doses(stream(1, "next run"), 500)
    assert refused(batch, taken) == []
    last = np.flatnonzero(np.diff(np.append(batch.levels["dose"].parent, 10**6)))
    before = np.where(np.arange(1500) % 3 == 0, 0, np.roll(batch.levels["dose"].action[last], 1))
    assert batch.reward is not None
    lower = replace(batch, reward=batch.reward - 0.3 * before[batch.levels["dose"].parent])
    assert refused(lower, taken) == [("carry-over", "dose")]
    recipe = batch.levels["recipe"]
    shifted = batch.with_level("recipe", replace(recipe, context={"c": recipe.context["c"] - 1.5 * before}))
    assert refused(shifted, taken) == [("carry-over", "dose")]
    dose = batch.levels["dose"]
    warm = np.where(np.arange(3000) % 2 == 0, before[dose.parent], 0)  # the first dose of the next run
    warmer = batch.with_level("dose", replace(dose, context={"x": dose.context["x"] + 1.5 * warm}))
    assert refused(warmer, taken) == [("carry-over", "dose")]


@FORMS
def test_what_carries_over_with_a_lag_of_two_is_refused(taken: bool) -> None:
    batch = runs_and_doses(stream(2, "lag"), 300, 1, 6)
    action = batch.levels["dose"].action
    place = np.arange(action.size) % 6
    assert batch.reward is not None and refused(batch, taken) == []
    later = replace(batch, reward=batch.reward - 0.3 * np.where(place < 2, 0, np.roll(action, 2)))
    assert refused(later, taken) == [("carry-over", "dose")]


def test_what_happens_within_the_unit_of_a_reward_does_not_matter() -> None:
    rng = stream(3, "units")
    owner = np.repeat(np.arange(400), 4)
    action = rng.integers(0, 2, 1600)
    context = rng.normal(size=1600) + 2.0 * np.where(np.arange(1600) % 4 == 0, 0, np.roll(action, 1))
    total = np.bincount(owner, weights=action)[owner] / 8 + 0.5 * rng.random(400)[owner]
    batch = Batch(np.arange(400), {"dose": even(owner, action, x=context)}, total)
    assert audited(one_level(reward=", per: episode"), batch).verdict == "fit"
    rewards = rng.random(1600)
    assert [item.code for item in audited(one_level(), replace(batch, reward=rewards)).refused] == ["carry-over"]
    stops = np.cumsum(action) - action  # nothing follows a high action
    kept = np.flatnonzero(stops - stops[owner * 4] == 0)
    table = batch.levels["dose"].take(kept, owner[kept])
    short = replace(batch, levels={"dose": table}, reward=total[kept])
    assert audited(one_level(reward=", per: episode"), short).verdict == "fit"
    assert "size-follows-action" in audited(one_level(), replace(short, reward=rewards[kept])).codes("refused")


@FORMS
@pytest.mark.parametrize("carry_over", ["none", "within"])
def test_an_episode_that_affects_the_next_one_is_refused(taken: bool, carry_over: str) -> None:
    rng = stream(4, "episodes")
    action = rng.integers(0, 2, 600)
    reward = 0.4 * action + 0.5 * rng.random(600)
    x = rng.normal(size=600)
    problem = one_level(f"carry_over: {carry_over}")
    for changed in ((reward - 0.3 * np.roll(action, 1) + 0.3) / 1.3, reward):
        context = x if changed is not reward else x + 1.5 * np.roll(action, 1)
        batch = Batch(np.arange(600), {"dose": even(np.arange(600), action, x=context)}, changed)
        form = taken_only(problem, batch) if taken else (problem, batch)
        assert audited(*form).codes("refused") == ("episodes-interfere",)
        pieces = [form[1].take_episodes(part) for part in np.array_split(np.arange(600), 60)]
        assert audited(form[0], *pieces).codes("refused") == ("episodes-interfere",)
        timed = replace(form[0], time="t"), replace(form[1], time=np.arange(600)).take_episodes(rng.permutation(600))
        assert audited(*timed).codes("refused") == ("episodes-interfere",)
    fine = Batch(np.arange(600), {"dose": even(np.arange(600), action, x=x)}, reward)
    assert audited(problem, fine).verdict == "fit"


@FORMS
@pytest.mark.parametrize("machines", [1, 3, 8])
def test_held_actions_are_found_also_where_machines_take_turns(taken: bool, machines: int) -> None:
    rng = stream(5, "turns")
    action = rng.integers(0, 2, (40, 1, machines)).repeat(6, axis=1).reshape(-1)  # each keeps its setting for six episodes
    batch = Batch(np.arange(action.size), {"dose": even(np.arange(action.size), action, x=rng.normal(size=action.size))})
    batch = replace(batch, reward=rng.random(action.size))
    form = taken_only(one_level(), batch) if taken else (one_level(), batch)
    found = audited(*form).refused
    assert [item.code for item in found] == ["actions-held"] and found[0].figures["lag"] == machines
    pieces = [form[1].take_episodes(part) for part in np.array_split(np.arange(action.size), 80)]
    assert audited(form[0], *pieces).codes("refused") == ("actions-held",)


def test_episodes_are_neighbours_across_batches() -> None:
    rng = stream(8, "batches")
    action = np.repeat(rng.integers(0, 2, 12), 8)
    batch = Batch(np.arange(96), {"dose": even(np.arange(96), action, x=rng.normal(size=96))}, rng.random(96))
    pieces = [batch.take_episodes([episode]) for episode in range(96)]
    assert audited(one_level(), *pieces).codes("refused") == ("actions-held",)


def test_the_last_action_of_an_episode_must_not_affect_the_next_one() -> None:
    batch = runs_and_doses(stream(9, "last"), 500, 1, 4)
    after = np.roll(batch.levels["dose"].action[3::4], 1)
    recipe = batch.levels["recipe"]
    shifted = batch.with_level("recipe", replace(recipe, context={"c": recipe.context["c"] + 2.0 * after}))
    assert refused(batch, False) == [] and refused(shifted, False) == [("episodes-interfere", "dose")]


def test_actions_that_alternate_are_not_fresh_draws() -> None:
    rng = stream(6, "alternating")
    batch = Batch(np.arange(200), {"dose": even(np.arange(200), np.arange(200) % 2, x=rng.normal(size=200))}, rng.random(200))
    assert "actions-held" in audited(one_level(), batch).codes("refused")


def test_wrong_propensities_are_not_called_held_actions() -> None:
    problem, batch = taken_only(*logged("additive", "uniform", 400, 1))
    halved = with_taken(batch, "meta", batch.levels["meta"].mu_taken / 2)
    assert audited(problem, halved).codes("refused") == ("miscalibrated-propensities",)


@pytest.mark.parametrize("by", ["reward", "action"])
def test_a_log_that_is_sorted_by_a_result_has_no_order(by: str) -> None:
    rng = stream(7, "sorted")
    action = rng.integers(0, 2, 300)
    reward = 0.3 * action + 0.5 * rng.random(300)
    batch = Batch(np.arange(300), {"dose": even(np.arange(300), action, x=rng.normal(size=300))}, reward)
    order = np.argsort(reward if by == "reward" else action, kind="stable")
    found = audited(one_level(), batch.take_episodes(order))
    assert found.codes() == ("order-unknown", "drift") and found.findings[0].column == ("r" if by == "reward" else "a")
    timed = replace(batch, time=np.arange(300)).take_episodes(order)
    assert audited(one_level("time: t"), timed).verdict == "fit"


def test_clusters_that_end_after_a_success_do_not_look_like_interference() -> None:
    problem = one_level("cluster: {column: m, most: 200}")
    alarms = 0
    for run in range(10):
        rng = stream(run, "clusters")
        action = rng.integers(0, 2, 400)
        reward = (rng.random(400) < 0.2 + 0.5 * action).astype(float)
        batch = Batch(np.arange(400), {"dose": even(np.arange(400), action, x=rng.normal(size=400))}, reward)
        batch = replace(batch, cluster=np.cumsum(np.concatenate([[0], reward[:-1]])))
        alarms += audited(problem, batch, alpha=0.05).verdict == "refused"
    assert alarms <= 2


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 4))
def test_pairs_by_hand(seed: int, runs: int, doses: int) -> None:
    rng = np.random.default_rng(seed)
    batch = runs_and_doses(rng, 3, runs, doses)
    kept = np.sort(rng.permutation(3 * runs * doses)[: max(1, runs * doses)])
    table = batch.levels["dose"]
    assert batch.reward is not None
    batch = replace(batch, levels={**batch.levels, "dose": table.take(kept, table.parent[kept])}, reward=batch.reward[kept])
    view = BatchView.of(two_levels(), batch, Cuts(0, {"recipe": (), "dose": ()}, {"recipe": 0.0, "dose": 0.0}))
    parent = batch.levels["dose"].parent
    found = list(decision_pairs(two_levels(), view, "dose"))
    for lag, pairs in zip((1, 2), found[:2], strict=True):
        expected = [(row, row + lag) for row in range(len(parent) - lag) if parent[row] == parent[row + lag]]
        assert list(zip(pairs.rows.tolist(), pairs.later.tolist(), strict=True)) == expected
    after = []
    for run in range(3 * runs - 1):
        here, there = np.flatnonzero(parent == run), np.flatnonzero(parent == run + 1)
        if run // runs == (run + 1) // runs and here.size and there.size:
            after.append((here[-1], run + 1, there[0]))
    assert list(zip(found[2].rows.tolist(), found[2].later.tolist(), found[2].below.tolist(), strict=True)) == after


@FORMS
def test_single_choices_give_the_same_bets(taken: bool) -> None:
    problem, batch = logged("clinic", "natural", 120, 2)
    level = problem.level("dose")
    table = batch.levels["dose"]
    rows = np.searchsorted(batch.episode_of("dose"), np.arange(120))
    table = table.take(rows, rows)
    choices = Choices.of(level, replace(table, mu_full=None) if taken else table)
    sign = stream(1, "sign").integers(-1, 2, 120).astype(float)
    one, other = EpisodeBets(choices.sets), EpisodeBets(choices.sets)
    one.add(choices, sign, np.arange(120), 120)
    other.add_single(choices, sign)
    np.testing.assert_allclose(one.logs, other.logs, atol=1e-9)


def test_honest_logs_pass_at_level_alpha() -> None:
    alarms = dict.fromkeys(("carry-over", "episodes-interfere", "actions-held"), 0)
    for run in range(40):
        batch = runs_and_doses(stream(run, "honest"), 60)
        auditor = Auditor(two_levels(), alpha=0.05)
        for part in np.array_split(np.arange(60), 1 + run % 3):
            auditor.add(batch.take_episodes(part))
        for code in auditor.result().codes("refused"):
            alarms[code] = alarms.get(code, 0) + 1
    assert max(alarms.values()) <= 7  # of 40 at 0.05: more has a chance below 0.001
