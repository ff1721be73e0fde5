"""Exploration while data are collected: exact probabilities, plans that know the past only, and no more false handovers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from host_cases import history_of, leaning_policy, world_of
from scipy import stats

from aegis.errors import SettingError
from aegis.handover import (
    HOSTS,
    AuditNote,
    AuditResponse,
    ExternalHost,
    Flipped,
    Frozen,
    GateSettings,
    Handover,
    OperatorAction,
    Paused,
    make_gate,
    summarise_run,
    verify_events,
)
from aegis.handover.exploration import check_exploration, explored_legacy, with_explored_incumbent
from aegis.handover.stream_audit import SILENT
from aegis.planning import SpreadChoice
from aegis.planning.information_rules import IdsChoice
from aegis.policies import Epsilon, Sign, StatedIncumbent, path_full
from aegis.problem import Incumbent, Plant, Policy, concat

SHARE = 0.2
SETTINGS = GateSettings(explore=SHARE, upgrades=False, first=8)


def gate(world, legacy="uniform", host="ucb", settings=SETTINGS, seed=1):
    return Handover(world, world.legacy(legacy), HOSTS[host](), settings, seed)


@pytest.fixture(scope="module")
def run():
    """A run that has explored, and has handed a level over."""
    made = gate(world_of(f_a=2.0))
    made.advance(64)
    return made


def flips(made):
    return [event for event in made.events if isinstance(event, Flipped)]


def test_every_logged_probability_is_that_of_the_mixture_that_acted(run):
    """The first phase is taken apart by its freezes: each plan is made anew from the episodes before, and mixed by hand."""
    world, first_flip = run.plant, flips(run)[0].episode
    whole = run.history.everything()
    freezes = [event.episode for event in run.events if isinstance(event, Frozen) and event.episode < first_flip]
    bounds = [0, *freezes, first_flip]
    moved = 0.0
    for start, stop in pairwise(bounds):
        batch = whole.take_episodes(np.arange(start, stop))
        for level in world.problem.names:
            legacy = path_full(run.legacy, level, batch)
            expected = legacy
            if start:
                known = history_of(world)
                part = whole.take_episodes(np.arange(start))
                known = replace(known, legacy=run.legacy, acting=run.legacy, batches=(part,), arms=("agent",) * start)
                plan = HOSTS["ucb"]().explore(known, ["inner", "meta"], 1)
                assert isinstance(plan.choice, SpreadChoice) and plan.choice.kappa == 1.0
                expected = (1.0 - SHARE) * legacy + SHARE * path_full(plan, level, batch)
                moved = max(moved, float(np.abs(expected - legacy).max()))
            table = batch.levels[level]
            np.testing.assert_allclose(table.mu_full, expected, atol=1e-12)
            np.testing.assert_allclose(table.mu_taken, expected[np.arange(len(table)), table.action], atol=1e-12)
    assert len(freezes) >= 1 and moved > 0.1


def test_actions_are_taken_as_often_as_the_log_says(run):
    batch = run.history.everything().take_episodes(np.arange(8, flips(run)[0].episode))
    for table in batch.levels.values():
        taken = np.zeros_like(table.mu_full)
        taken[np.arange(len(table)), table.action] = 1.0
        z = (taken - table.mu_full).sum(axis=0) / np.sqrt((table.mu_full * (1.0 - table.mu_full)).sum(axis=0))
        assert np.abs(z).max() < 4.5


def test_the_mixture_keeps_what_the_declared_exploration_promises(run):
    whole, first = run.history.everything(), flips(run)[0]
    for level, table in whole.levels.items():
        incumbent = path_full(StatedIncumbent(run.compared), level, whole)
        rows = whole.episode_of(level) < (first.episode if level == first.level else len(whole))
        assert (incumbent[rows] <= table.mu_full[rows] / (1.0 - SHARE) + 1e-12).all()


def test_gains_are_over_the_legacy_without_any_exploration():
    world = world_of()
    explored = gate(world)
    assert explored.comparator.levels == {"inner", "meta"} and set(explored.comparator.rates.values()) == {SHARE}
    legacy = world.legacy("uniform")
    rule = Epsilon(Sign("T", 1.0), 0.3)
    stated = with_explored_incumbent(world.problem, replace(legacy, rules={**legacy.rules, "inner": rule}), SHARE)
    assert stated.level("inner").comparator.policy == Sign("T", 1.0).describe()
    assert stated.level("inner").comparator.epsilon == pytest.approx(1.0 - 0.8 * 0.7)
    assert stated.level("meta").comparator.epsilon == SHARE


def test_the_verdict_says_that_the_gate_explored_and_warns_of_nothing_it_did_itself(run):
    sentence = summarise_run(run)["sentence"]
    assert "a share 0.2 of the decisions follows the host's exploring plan" in sentence
    assert "while the other levels act as they did then, exploration included." in sentence
    assert "a legacy that changes" not in sentence and "capped by it" not in sentence


def test_a_gate_that_explores_notes_its_own_exploration_and_does_not_compare_with_what_it_earned():
    """Half of the decisions follow the plan, which earns more than the small step that is handed over."""
    made = gate(world_of(f_a=2.0), settings=GateSettings(explore=0.5, upgrades=False, first=8, caps=(1.2,)))
    made.advance(140)
    rewards = summarise_run(made)["rewards"]
    assert flips(made) and rewards["now"] < rewards["before_first_flip"] - 1.0
    assert "Since the handover the mean reward" not in summarise_run(made)["sentence"]
    (note,) = [event for event in made.events if isinstance(event, AuditNote)]
    assert (
        note.why
        == "the logged probabilities at level 'meta' follow the exploration of this gate, which is planned anew at each freeze"
    )
    assert note.fix is not None and note.fix.startswith("none for a gain over the legacy without exploration")


def test_a_run_is_taken_up_where_it_was_and_its_events_hold(run):
    again = gate(run.plant)
    again.restore(run.events)
    assert again.events == run.events
    assert again.collecting.state().settings == run.collecting.state().settings
    batches = [made.plant.episodes(64, 1, made._policy("agent"), 5) for made in (again, run)]
    np.testing.assert_array_equal(batches[0].levels["meta"].mu_full, batches[1].levels["meta"].mu_full)
    assert verify_events(run.events).episode == 64


def test_a_pause_ends_the_exploration():
    made = gate(world_of())
    made.advance(20)
    assert made.collecting is not made.legacy
    made.say(Paused(20, "no data"))
    made.advance(30)
    latest = made.history.everything().take_episodes(np.arange(20, 30))
    for level, table in latest.levels.items():
        np.testing.assert_allclose(table.mu_full, path_full(made.legacy, level, latest), atol=1e-12)


@dataclass(frozen=True)
class Silent:
    """A plant that reports no reward of 32 episodes in a row, after the first `since`."""

    plant: Plant
    since: int

    @property
    def problem(self):
        return self.plant.problem

    def episodes(self, first, count, policy, seed):
        batch = self.plant.episodes(first, count, policy, seed)
        episode = batch.episode[batch.episode_of(self.problem.innermost.name)]
        silent = (episode >= self.since) & (episode < self.since + SILENT)
        return replace(batch, reward=np.where(silent, np.nan, batch.reward))


@dataclass(frozen=True)
class Forgetful:
    """A plant that leaves the plan out in eight episodes after the first `since`, as the log shows."""

    plant: Plant
    since: int
    legacy: Policy

    @property
    def problem(self):
        return self.plant.problem

    def episodes(self, first, count, policy, seed):
        parts = np.split(np.arange(first, first + count), np.clip([self.since - first, self.since + 8 - first], 0, count))
        policies = (policy, self.legacy, policy)
        runs = zip(parts, policies, strict=True)
        return concat([self.plant.episodes(int(part[0]), part.size, one, seed) for part, one in runs if part.size])


class Refusing:
    """An audit that refuses what the first decision would rest on."""

    def asked(self, batch=None, place=0, deciding=True, before=None):
        """Return the pause that follows from a refusal."""
        return AuditResponse(Paused(0, "the audit refuses what it counts", "carry-over", "inner", "mend it"))

    def start(self, segment):
        """Begin a new segment."""

    def add(self, batch, place):
        """Add an episode."""


def silent_gate():
    world = world_of(f_a=0.0)
    return Handover(Silent(world, 33), world.legacy("uniform"), HOSTS["ucb"](), SETTINGS, 1)


def forgetful_gate():
    world = world_of(f_a=0.0)
    legacy = world.legacy("uniform")
    return Handover(Forgetful(world, 40, legacy), legacy, HOSTS["ucb"](), SETTINGS, 1)


def audited_gate():
    made = gate(world_of(f_a=2.0))
    made._audit = Refusing()
    return made


@pytest.mark.parametrize("make", [silent_gate, forgetful_gate, audited_gate])
def test_a_pause_ends_the_exploration_at_once_and_the_run_can_be_taken_up(make):
    """The rest of the block was run with the plan; it is run again under the legacy, as a run that is restored does."""
    made = make()
    made.advance(140)
    paused = next(event.episode for event in made.events if isinstance(event, Paused))
    explored, rest = (made.history.everything().take_episodes(part) for part in np.split(np.arange(8, 140), [paused - 8]))
    assert 16 < paused < 128 and made.state.episode == len(made.rewards) == 140
    for level, table in rest.levels.items():
        np.testing.assert_allclose(table.mu_full, path_full(made.legacy, level, rest), atol=1e-12)
    for level, table in explored.levels.items():
        assert np.abs(table.mu_full - path_full(made.legacy, level, explored)).max() > 0.01
    again = make()
    again.restore(made.events)
    assert again.events == made.events
    np.testing.assert_array_equal(again.rewards, made.rewards)
    again.say(OperatorAction("resume", "ann", "it was looked after", 140))
    again.advance(160)
    assert again.state.paused is None and again.collecting is not again.legacy


def test_without_the_setting_nothing_explores():
    world, settings = world_of(), GateSettings(upgrades=False, first=8)
    made = gate(world, settings=settings)
    made.advance(20)
    assert made.collecting is made.legacy and made.compared == gate(world, settings=settings).compared
    assert explored_legacy(HOSTS["ucb"](), made.history, [], SHARE, 1) is made.legacy


@pytest.mark.parametrize("host", ["greedy", "ids", "d-optimal", "pessimistic", "aegis_handover"])
def test_every_host_that_learns_mechanisms_can_explore(host):
    world = world_of()
    check_exploration(world.problem, world.legacy("uniform"), HOSTS[host]())
    plan = HOSTS[host]().explore(history_of(world), ["inner", "meta"], 1)
    batch = world.episodes(500, 4, world.legacy("uniform"), 9)
    np.testing.assert_allclose(path_full(plan, "inner", batch).sum(axis=1), 1.0)
    assert isinstance(plan.choice, IdsChoice if host == "ids" else SpreadChoice)


def test_a_run_that_explores_by_information_logs_the_exact_mixture_and_can_be_taken_up():
    made = gate(world_of(), host="ids")
    made.advance(16)
    whole = made.history.everything()
    batch = whole.take_episodes(np.arange(8, 16))
    known = replace(history_of(made.plant), legacy=made.legacy, acting=made.legacy)
    known = replace(known, batches=(whole.take_episodes(np.arange(8)),), arms=("agent",) * 8)
    plan = HOSTS["ids"]().explore(known, ["inner", "meta"], 1)
    for level, table in batch.levels.items():
        expected = (1.0 - SHARE) * path_full(made.legacy, level, batch) + SHARE * path_full(plan, level, batch)
        np.testing.assert_allclose(table.mu_full, expected, atol=1e-12)
    again = gate(made.plant, host="ids")
    again.restore(made.events)
    assert again.events == made.events


def test_what_cannot_explore_is_refused_with_the_reason():
    world = world_of()
    uniform = world.legacy("uniform")
    with pytest.raises(SettingError, match="host 'pb' has none to explore by"):
        gate(world, host="pb")
    with pytest.raises(SettingError, match="not known of a Function"):
        Handover(world, leaning_policy(world.problem), HOSTS["ucb"](), SETTINGS, 1)
    levels = tuple(replace(level, incumbent=Incumbent(policy="uniform")) for level in world.problem.levels)
    with pytest.raises(SettingError, match="the problem states its incumbent"):
        check_exploration(replace(world.problem, levels=levels), uniform, HOSTS["ucb"]())
    for name in ("published", "pac-bayes"):
        with pytest.raises(SettingError, match=f"the gate '{name}' has no 'explore'"):
            make_gate(name, world, uniform, HOSTS["ucb"](), GateSettings(explore=SHARE), 1)


@dataclass(frozen=True)
class Indifferent:
    """A plant in which nothing that is done changes the reward, which varies with the context: every gain is exactly 0."""

    plant: Plant

    @property
    def problem(self):
        return self.plant.problem

    def episodes(self, first, count, policy, seed):
        batch = self.plant.episodes(first, count, policy, seed)
        low, high = self.problem.reward.range
        chance = np.random.default_rng([seed, first]).random(batch.reward.size)
        return replace(batch, reward=np.where(chance < 0.5, low, high))


class Wasteful:
    """Explores by the worst action, and challenges with the legacy itself."""

    name = "wasteful"

    def __init__(self, world):
        """Take the plant whose worst action is known."""
        self.legacy, self.worst = world.legacy("uniform"), world.legacy("constant:value=-2.0")

    def propose(self, history, levels, seed):
        """Propose the legacy."""
        return ExternalHost(self.legacy).propose(history, levels, seed)

    def explore(self, history, levels, seed):
        """Explore where it costs most."""
        return self.worst


def test_no_longer_exploring_is_no_gain():
    """The legacy earns more than the log, which explores by the worst action; over itself its gain is exactly 0."""
    world = world_of(f_a=2.0)
    settings = GateSettings(explore=0.5, upgrades=False, first=8, floor=0.0, caps=(math.inf,))
    made = Handover(world, world.legacy("uniform"), Wasteful(world), settings, 1)
    made.advance(160)
    assert not flips(made)
    assert np.nanmean(made.rewards[8:]) < np.nanmean(made.rewards[:8]) - 0.02


def false_handovers(explore, runs):
    world = Indifferent(world_of(inner_steps=1))
    settings = GateSettings(explore=explore, upgrades=False, first=8, delta=0.2, patience=1.0)
    found = 0
    for seed in range(runs):
        made = Handover(world, world.plant.legacy("uniform"), HOSTS["greedy"](), settings, seed)
        made.advance(128)
        found += bool(flips(made))
    return found


@pytest.mark.ci
def test_at_an_exact_null_a_gate_that_explores_hands_over_no_more_often_than_its_risk():
    """The plan follows rewards that are noise, so that what the host wants is what was lucky."""
    runs = 60
    wrong, plain = false_handovers(SHARE, runs), false_handovers(0.0, runs)
    assert stats.binomtest(wrong, runs, 0.2, alternative="greater").pvalue > 0.05
    assert stats.fisher_exact([[wrong, runs - wrong], [plain, runs - plain]]).pvalue > 0.01
