"""Episodes that hold actions or affect the next one are refused; honest logs pass at level alpha."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from audit_cases import audited, logged, taken_only, with_taken
from hostile_logs import (
    FORMS,
    certified,
    codes_of,
    even,
    one_level,
    refused,
    rows_of,
    runs_and_doses,
    two_levels,
)
from scipy.stats import binom

from aegis.audit import Auditor
from aegis.problem import Batch
from aegis.rng import stream


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
        pieces = [form[1].take_episodes(part) for part in np.array_split(np.arange(600), 7)]
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
    pieces = [form[1].take_episodes(part) for part in np.array_split(np.arange(action.size), 7)]
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


@pytest.mark.parametrize("runs", [8, pytest.param(80, marks=pytest.mark.ci)])
def test_honest_logs_pass_at_level_alpha(runs: int) -> None:
    alarms = dict.fromkeys(("carry-over", "episodes-interfere", "actions-held"), 0)
    for run in range(runs):
        batch = runs_and_doses(stream(run, "honest"), 60)
        auditor = Auditor(two_levels(), alpha=0.05)
        for part in np.array_split(np.arange(60), 1 + run % 3):
            auditor.add(batch.take_episodes(part))
        for code in auditor.result().codes("refused"):
            alarms[code] = alarms.get(code, 0) + 1
    assert max(alarms.values()) <= binom.ppf(0.999, runs, 0.05)


@pytest.mark.parametrize("timed", [False, True])
def test_actions_that_are_held_over_episodes_are_refused(timed: bool) -> None:
    problem = one_level("time: t" if timed else "")
    for run in range(6):
        rng = stream(run, "held")
        machine = np.repeat(np.arange(100), 20)
        action, reward = rng.permutation(np.arange(100) % 2)[machine], rng.integers(0, 2, 100)[machine].astype(float)
        table = rows_of(action, reward, x=rng.normal(size=2000), t=np.arange(2000))
        if timed:
            table = table.take(pa.array(rng.permutation(2000)))
        found = certified(problem, table)
        assert found.verdict.verdict == "refused" and "actions-held" in codes_of(found)
        assert "cluster" in found.verdict.next_step


def test_a_cluster_makes_up_for_actions_that_are_held() -> None:
    rng = stream(1, "held in clusters")
    machine = np.repeat(np.arange(200), 10)
    table = rows_of(
        rng.integers(0, 2, 200)[machine], rng.integers(0, 2, 200)[machine].astype(float), x=rng.normal(size=2000), m=machine
    )
    assert certified(one_level("cluster: m"), table).verdict.verdict == "not yet"
