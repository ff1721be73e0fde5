"""Hosts propose what can be frozen: storable, exact, the same again, and refused by name where it cannot be acted on."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import hypothesis.strategies as st
import numpy as np
import pytest
from host_cases import LEVELS, history_of, leaning_policy, world_of
from hypothesis import given, settings

from aegis.agents import identity_digest
from aegis.errors import PolicyError, SettingError
from aegis.handover import HOSTS, GateSettings, Handover, Proposal
from aegis.handover.hosts.base import capped_steps
from aegis.handover.hosts.external import ExternalHost
from aegis.planning import LikelihoodRanks, load_policy
from aegis.policies import Capped, Floored, capped_probabilities, path_full, policy_digest, save_policy
from aegis.problem import Batch, LevelTable


def make(name, problem):
    return HOSTS[name](leaning_policy(problem)) if name == "external" else HOSTS[name]()


def challengers(history, proposals):
    """Return the policies that a gate would freeze, by level and cap; without a cap it is a policy as it is."""
    found = {}
    for level, proposal in proposals.items():
        for limit, new in capped_steps(history.problem, history.legacy, level, proposal, (1.5, 3.0)).items():
            found[level, limit] = Floored(history.problem, new, history.legacy, 0.05, [level])
    return found


# ---- every host ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HOSTS)
def test_every_host_proposes_distributions_that_can_be_stored_and_come_out_the_same_again(name, tmp_path):
    world = world_of()
    history = history_of(world)
    host = make(name, world.problem)
    policies = challengers(history, host.propose(history, LEVELS, 7))
    caps = {1.5, 3.0, np.inf} if name in ("pb", "external") else {1.5, 3.0}
    assert set(policies) == {(level, limit) for level in LEVELS for limit in caps}
    again = challengers(history, make(name, world.problem).propose(history, LEVELS, 7))
    batch = world.episodes(500, 5, history.legacy, 9)
    for (level, limit), policy in policies.items():
        assert policy_digest(again[level, limit]) == policy_digest(policy)
        chances = path_full(policy, level, batch)
        np.testing.assert_allclose(chances.sum(axis=1), 1.0, atol=1e-12)
        if limit < np.inf:
            assert (chances <= limit * batch.levels[level].mu_full + 1e-12).all()
        place = tmp_path / f"{level}-{limit}"
        save_policy(policy, place)
        np.testing.assert_array_equal(path_full(load_policy(place, world.problem), level, batch), chances)


@pytest.mark.parametrize("name", HOSTS)
def test_a_host_is_known_again_when_a_run_is_resumed(name):
    problem = world_of().problem
    assert identity_digest(make(name, problem)) == identity_digest(make(name, problem))
    assert make(name, problem).name == name


@pytest.mark.parametrize("name", sorted(set(HOSTS) - {"external"}))
def test_hosts_learn_which_actions_are_good(name):
    """In the additive world more is better at both levels: capped steps of every host lean that way."""
    world = world_of(f_a=2.0)
    history = history_of(world, 120)
    proposals = HOSTS[name]().propose(history, LEVELS, 1)
    batch = world.episodes(500, 20, history.legacy, 9)
    for level in LEVELS:
        numbers = world.problem.level(level).actions.numbers
        policy = Capped(world.problem, proposals[level].scores, history.legacy, 2.0, [level])
        assert (path_full(policy, level, batch) @ numbers).mean() > 0.5


@pytest.mark.parametrize("name", ["greedy", "ncts", "ucb", "ids", "pb"])
def test_a_host_that_plans_says_what_to_do_where_planning_does_not_apply(name):
    history = history_of(world_of())
    problem = replace(history.problem, carry_over="within")
    with pytest.raises(SettingError, match=f"host '{name}'.*'external'"):
        HOSTS[name]().propose(replace(history, problem=problem), LEVELS, 1)


# ---- what each of them is -----------------------------------------------------------------------------------------------------


# ---- how likely a policy makes actions -------------------------------------------------------------------------------------


class Fixed:
    """A policy with given probabilities, and a model with given predictions."""

    def __init__(self, values):
        """Take `[n, A]`."""
        self.values, self.weights = values, np.ones(1)

    def full(self, level, batch):
        """Return them."""
        return self.values[None]

    def predict(self, level, batch):
        """Return them."""
        return self.values


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(2, 6), st.integers(0, 10**6), st.booleans())
def test_ranks_go_by_probability_then_by_prediction(count, actions, seed, minimise):
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 4, (count, actions)).astype(float)  # many ties
    chances, predicted = weights / weights.sum(axis=1, keepdims=True), rng.normal(size=(count, actions))
    goal = "minimise" if minimise else "maximise"
    problem = SimpleNamespace(reward=SimpleNamespace(goal=goal))
    batch = Batch(np.arange(count), {"inner": LevelTable.undecided(np.arange(count), {})})
    scores = LikelihoodRanks(problem, Fixed(chances), Fixed(predicted)).predict("inner", batch)
    good = -1.0 if minimise else 1.0
    for row in range(count):
        expected = sorted(range(actions), key=lambda a: (-chances[row, a], -good * predicted[row, a]))
        assert np.argsort(-good * scores[row]).tolist() == expected


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 6), st.integers(0, 10**6))
def test_a_cap_towards_a_policy_fills_its_likeliest_actions_first(actions, seed):
    rng = np.random.default_rng(seed)
    chances, mu = rng.dirichlet(np.ones(actions), 5), rng.dirichlet(np.full(actions, 3.0), 5)
    problem = SimpleNamespace(reward=SimpleNamespace(goal="maximise"))
    batch = Batch(np.arange(5), {"inner": LevelTable.undecided(np.arange(5), {})})
    filled = capped_probabilities(LikelihoodRanks(problem, Fixed(chances)).predict("inner", batch), mu, 2.0)
    top = chances.argmax(axis=1)
    np.testing.assert_allclose(filled[np.arange(5), top], np.minimum(1.0, 2.0 * mu[np.arange(5), top]))


# ---- a host of one's own -----------------------------------------------------------------------------------------------------


class Learner:
    """A user's own learner, which answers what the test wants."""

    def __init__(self, answer):
        """Keep what to answer, or what to raise."""
        self.answer = answer

    def propose(self, history, levels, seed):
        """Answer."""
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


class Curious:
    """A learner that remembers which seeds it was given."""

    def __init__(self):
        """Begin with none."""
        self.seeds, self.name = [], "curious"

    def propose(self, history, levels, seed):
        """Propose nothing."""
        self.seeds.append(seed)
        return {}


@pytest.mark.parametrize("wrapped", [True, False])
def test_code_of_a_user_s_does_not_get_the_seed_that_the_plant_draws_its_future_from(wrapped):
    world, seeds = world_of(), {}
    for seed in (0, 7):
        learner = Curious()
        Handover(
            world, world.legacy("uniform"), ExternalHost(learner) if wrapped else learner, GateSettings(first=6), seed
        ).advance(20)
        assert len(learner.seeds) == 2 and len(set(learner.seeds)) == 1  # and the same again, so that a run can be resumed
        (seeds[seed],) = set(learner.seeds)
        ahead = np.random.default_rng(seed).random(8)
        assert not np.isin(np.random.default_rng(seeds[seed]).random(8), ahead).any()
        known = world.episodes(6, 6, world.legacy("uniform"), seeds[seed]).reward
        assert not np.isclose(known, world.episodes(6, 6, world.legacy("uniform"), seed).reward).any()
    assert seeds[0] != seeds[7] and seeds[7] != 7


class Scores:
    """Scores that the test chooses."""

    def __init__(self, values):
        """Take a number or the shape's tail."""
        self.values = values

    def predict(self, level, batch):
        """Return `[n, A]`, or what the test wants instead."""
        if isinstance(self.values, Exception):
            raise self.values
        return np.full((len(batch.levels[level]), 5), self.values) if np.ndim(self.values) == 0 else self.values


def test_predictions_that_are_not_finite_are_refused_too():
    history = history_of(world_of())
    whole = HOSTS["greedy"]().propose(history, ["inner"], 1)["inner"]
    with pytest.raises(PolicyError, match="level 'inner', row 0: the prediction of action 0 is inf"):
        ExternalHost(Learner({"inner": Proposal(whole.scores, Scores(np.inf))})).propose(history, LEVELS, 1)
