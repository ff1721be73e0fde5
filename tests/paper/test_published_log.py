"""Algorithm 2 over a recorded log: the same looks as behind the gate, in the order of time, and what a log may leave out."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from host_cases import world_of
from published_cases import WithMargins, flips, published

from aegis.errors import RefusedError, SettingError
from aegis.handover import HOSTS, CausalHost
from aegis.mechanisms import ModelSettings
from aegis.paper import CounterExample, PublishedSettings, judge_log
from aegis.paper.counter_example import LEVEL
from aegis.paper.published_log import AS_PUBLISHED, assume_deterministic
from aegis.planning import Thompson
from aegis.policies import Logged
from aegis.problem import Incumbent

SCALED = {"stride": 10, "rewards": "scaled"}


def without_propensities(batch):
    """Return the log as a deterministic controller would have written it: no probabilities."""
    silent = {name: replace(table, mu_taken=np.full(len(table), np.nan), mu_full=None) for name, table in batch.levels.items()}
    return replace(batch, levels=silent)


def judge(plant, batch, legacy=None, host="ncts", seed=1, **settings):
    return judge_log(plant.problem, batch, HOSTS[host](), PublishedSettings(**settings), legacy, seed)


def test_the_looks_at_the_log_of_a_run_are_those_of_the_run():
    world = world_of(f_a=0.5)
    gate = published(world, world.legacy("uniform"), joint=True, **SCALED)
    gate.advance(61)
    assert not gate.deployed
    outcome = judge(world, gate._episodes(0, 60), gate.explored, joint=True, **SCALED)
    width = gate.algorithm.measure.width
    assert width > 1.0
    assert list(outcome.looks) == [
        replace(look, gain=look.gain * width, margin=look.margin * width, bound=look.bound * width) for look in gate.looks
    ]
    assert outcome.flips == {"inner": None, "meta": None}
    assert outcome.assumed == ()


@pytest.mark.parametrize("known", [True, False])
def test_a_flip_comes_after_the_same_episode_as_behind_the_gate(known):
    """The counter-example's legacy is deterministic: without propensities its log is read as what it is."""
    plant = CounterExample()
    gate = published(plant, plant.legacy, stride=300, refresh=300)
    gate.advance(1800)
    (flip,) = flips(gate)
    log = plant.episodes(0, 1800, plant.legacy, 1)
    outcome = judge(plant, log if known else without_propensities(log), stride=300)
    assert outcome.flips == {LEVEL: flip.episode}
    assert outcome.gains[LEVEL] == pytest.approx(flip.gain_lower * gate.algorithm.measure.width)
    (convinced,) = [look for look in outcome.plain()["looks"] if look["episode"] == flip.episode]
    assert convinced["gain"] == outcome.plain()["levels"][0]["gain"] >= convinced["margin"]
    assert outcome.ids[LEVEL] == str(log.episode[flip.episode - 1])
    assert outcome.assumed == (() if known else (LEVEL,))
    assert f"within 1800 episodes Algorithm 2 would have handed over '{LEVEL}' after episode {flip.episode}." in outcome.sentence
    later = [look for look in outcome.looks if look.episode > flip.episode]
    assert later
    assert {look.units for look in later} == {flip.episode}
    assert not any(look.decides for look in later)


def test_propensities_that_are_there_are_used():
    world = world_of(f_a=2.0)
    log = world.episodes(0, 30, world.legacy("uniform"), 1)
    both = [
        judge(world, batch, world.legacy("uniform"), largest_weight=5.0, **SCALED) for batch in (log, without_propensities(log))
    ]
    assert [outcome.assumed for outcome in both] == [(), ("meta", "inner")]
    assert all(one.gain > other.gain for one, other in zip(both[0].looks, both[1].looks, strict=True))
    ones = assume_deterministic(without_propensities(log))[0]
    assert all((table.mu_taken == 1.0).all() for table in ones.levels.values())
    table = log.levels["inner"]
    broken = replace(
        log, levels={**log.levels, "inner": replace(table, mu_taken=np.where(np.arange(len(table)) == 3, 0.0, table.mu_taken))}
    )
    with pytest.raises(RefusedError, match="row 3"):
        judge(world, broken, world.legacy("uniform"), **SCALED)


def test_episodes_are_judged_in_the_order_of_time():
    world = world_of(f_a=0.5)
    problem = replace(world.problem, time="when")
    log = replace(world.episodes(0, 30, world.legacy("uniform"), 1), time=np.arange(30.0))
    shuffled = log.take_episodes(np.random.default_rng(1).permutation(30))
    settings, legacy = PublishedSettings(**SCALED), replace(world.legacy("uniform"), problem=problem)
    one, other, untimed = (
        judge_log(asked, batch, HOSTS["greedy"](), settings, replace(legacy, problem=asked))
        for asked, batch in ((problem, log), (problem, shuffled), (world.problem, shuffled))
    )
    assert one == other != untimed


def test_after_the_first_flip_a_level_is_judged_beside_the_legacy_that_went_on():
    world = WithMargins.of(world_of("unified"), inner=-1e3, meta=1e3)
    legacy = world.legacy("uniform")
    log = world.episodes(0, 30, legacy, 1)
    outcome = judge(world, log, legacy, **SCALED)
    assert outcome.flips == {"inner": 10, "meta": None}
    assert "handed over 'inner' after episode 10, 'meta' never" in outcome.sentence
    alone = judge(world, log, legacy, levels=("meta",), **SCALED)
    assert [look for look in outcome.looks if look.level == "meta"] == list(alone.looks)
    assert [look.units for look in alone.looks] == [10, 20, 30]
    frozen = judge(world, log, legacy, freeze_at_first_flip=True, **SCALED)
    assert [look.units for look in frozen.looks if look.level == "meta"] == [10, 10, 10]


def test_a_level_above_an_unknown_legacy_is_left_out_with_the_reason():
    world = world_of()
    log = world.episodes(0, 20, world.legacy("uniform"), 1)
    outcome = judge_log(world.problem, log, HOSTS["ncts"](), PublishedSettings(joint=True, **SCALED), Logged(world.problem))
    assert set(outcome.left_out) == {"meta"}
    needed = "state the incumbent of 'inner' in the problem file, or name the policy that wrote the log (--legacy)"
    assert outcome.left_out["meta"] == f"its plan needs what the legacy does below: {needed}"
    assert {look.level for look in outcome.looks} == {"inner", "meta + inner"}
    assert set(outcome.flips) == {"inner", "meta"}  # all levels together need no legacy
    with pytest.raises(SettingError, match="'meta' cannot be judged"):
        judge(world, log, Logged(world.problem), levels=("meta",))


def test_what_the_problem_states_of_the_legacy_is_enough_to_plan_above_it():
    world = world_of()
    levels = tuple(replace(level, incumbent=Incumbent(policy="uniform")) for level in world.problem.levels)
    stated = replace(world.problem, levels=levels)
    log = world.episodes(0, 20, world.legacy("uniform"), 1)
    outcome = judge_log(stated, log, HOSTS["greedy"](), PublishedSettings(**SCALED))
    assert outcome.left_out == {}
    assert {look.level for look in outcome.looks} == {"inner", "meta"}


def test_models_with_length_scales_set_the_first_episodes_aside():
    world = world_of()
    host = CausalHost("mine", Thompson(2), {"mine": ModelSettings(features="fourier", count=16)})
    log = world.episodes(0, 45, world.legacy("uniform"), 1)
    outcome = judge_log(world.problem, log, host, PublishedSettings(**SCALED), world.legacy("uniform"))
    assert outcome.aside == 20
    assert [(look.episode, look.units) for look in outcome.looks if look.level == "inner"] == [(30, 10), (40, 20)]


def test_it_says_what_it_is_and_is_plain_data():
    world = world_of()
    outcome = judge(world, world.episodes(0, 12, world.legacy("uniform"), 1), world.legacy("uniform"), **SCALED)
    plain = json.loads(json.dumps(outcome.plain(), allow_nan=False))
    assert plain["label"] == AS_PUBLISHED == "as published, not a certificate"
    assert plain["certificate"] is False
    assert [look["level"] for look in plain["looks"]] == ["inner", "meta"]
    assert plain["levels"][0] == {"level": "inner", "flip": None, "id": None, "gain": None}
    few = judge(world, world.episodes(0, 9, world.legacy("uniform"), 1), world.legacy("uniform"), **SCALED)
    assert few.sentence == "As published, not a certificate: 9 episodes are too few for a look."


def test_what_cannot_judge_a_log_is_refused():
    world = world_of()
    log = world.episodes(0, 20, world.legacy("uniform"), 1)
    with pytest.raises(SettingError, match="found 'pb'"):
        judge(world, log, host="pb")
    with pytest.raises(SettingError, match="there is no gate"):
        judge(world, log, progressive_handover=False)
    with pytest.raises(SettingError, match="did you mean 'inner'"):
        judge(world, log, levels=("iner",))
