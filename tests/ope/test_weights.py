"""Weights are right on average: expectations over all episodes of tiny problems, against what the hybrid earns when it acts."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from tiny_episodes import Tiny, TinyPolicy

from aegis.ope import (
    CandidateView,
    RewardModels,
    guard_measures,
    legacy_values,
    level_weights,
    plain_gains,
    plain_values,
    reward_measure,
)
from aegis.problem import Scope

TWO = Tiny(0, (1, 2), (2, 2), (2, 2))
THREE = Tiny(0, (1, 1, 2), (2, 2, 2), (1, 2, 2))
CASES = {
    "two levels": TWO,
    "two levels, mixture": replace(TWO, particles=2),
    "two levels, masks": replace(TWO, actions=(3, 3), contexts=(1, 1), masks=True),
    "two levels, minimise": replace(TWO, goal="minimise"),
    "two levels, per slow": replace(TWO, per="slow"),
    "two levels, per episode": replace(TWO, per="episode", particles=2),
    "two levels, carry over": replace(TWO, carry=True),
    "two levels, carry over, mixture": replace(TWO, carry=True, particles=3),
    "two levels, carry over, per slow, mixture": replace(TWO, carry=True, per="slow", particles=2),
    "two levels, carry over, per episode": replace(TWO, carry=True, per="episode"),
    "three levels": THREE,
    "three levels, mixture": replace(THREE, particles=3),
    "three levels, per middle, mixture": replace(THREE, per="middle", particles=2),
    "three levels, per slow": replace(THREE, per="slow"),
    "three levels, per episode, mixture": replace(THREE, per="episode", particles=2),
    "three levels, carry over, mixture": replace(THREE, carry=True, particles=2),
    "three levels, carry over, per middle": replace(THREE, carry=True, per="middle", goal="minimise"),
}


def scopes(tiny: Tiny) -> list[Scope]:
    names = tiny.names
    return [Scope(part) for size in range(1, len(names) + 1) for part in itertools.combinations(names, size)]


@pytest.mark.parametrize("case", CASES)
def test_units_are_unbiased_at_every_scope(case: str) -> None:
    tiny = replace(CASES[case], seed=1)
    listed = tiny.episodes()
    chance = np.array([p for p, _ in listed])
    assert chance.sum() == pytest.approx(1.0, abs=1e-12)
    view = CandidateView(tiny.problem, tiny.batch([episode for _, episode in listed]), TinyPolicy(tiny), RewardModels())
    measure = reward_measure(tiny.problem)
    legacy = tiny.value_of(Scope())
    assert chance @ legacy_values(view, measure) == pytest.approx(legacy, abs=1e-12)
    gaps = []
    for scope in scopes(tiny):
        value = tiny.value_of(scope)
        gaps.append(abs(value - legacy))
        assert chance @ plain_values(view, scope, measure) == pytest.approx(value, abs=1e-11)
        assert chance @ plain_gains(view, scope, measure) == pytest.approx(value - legacy, abs=1e-11)
    assert max(gaps) > 0.005  # the candidate differs, so that weights of one would not pass


def test_numbers_of_decisions_differ() -> None:
    for tiny in (TWO, THREE):
        sizes = {len(node.children) for _, episode in replace(tiny, seed=1).episodes() for node in episode}
        assert sizes == {1, 2}


def test_a_product_of_means_over_particles_would_be_wrong() -> None:
    tiny = replace(TWO, seed=3, particles=2)
    listed = tiny.episodes()
    chance = np.array([p for p, _ in listed])
    view = CandidateView(tiny.problem, tiny.batch([episode for _, episode in listed]), TinyPolicy(tiny), RewardModels())
    both = Scope(tiny.names)
    right = view.node_weights(both)
    rows = view.batch.ancestors("fast")["slow"]
    wrong = level_weights(view, view.batch, "fast") * level_weights(view, view.batch, "slow")[rows]
    reward = view.observed(reward_measure(tiny.problem)).low
    value = tiny.value_of(both)
    assert chance @ view.batch.episode_means(right * reward) == pytest.approx(value, abs=1e-12)
    assert abs(chance @ view.batch.episode_means(wrong * reward) - value) > 1e-3


def test_flat_means_would_be_wrong() -> None:
    """The number of decisions depends on the path, so that a mean over all rows of an episode is another quantity."""
    tiny = replace(TWO, seed=1)
    listed = tiny.episodes()
    chance = np.array([p for p, _ in listed])
    view = CandidateView(tiny.problem, tiny.batch([episode for _, episode in listed]), TinyPolicy(tiny), RewardModels())
    weighted = view.node_weights(Scope(tiny.names)) * view.observed(reward_measure(tiny.problem)).low
    owner = view.batch.episode_of("fast")
    flat = np.bincount(owner, weights=weighted) / np.bincount(owner)
    assert abs(chance @ flat - tiny.value_of(Scope(tiny.names))) > 1e-3


def test_an_action_that_is_never_logged_lowers_the_value_at_most() -> None:
    for seed in range(4):
        tiny = replace(TWO, seed=seed, holes=True)
        listed = tiny.episodes()
        chance = np.array([p for p, _ in listed])
        view = CandidateView(tiny.problem, tiny.batch([episode for _, episode in listed]), TinyPolicy(tiny), RewardModels())
        measure = reward_measure(tiny.problem)
        legacy = tiny.value_of(Scope())
        for scope in scopes(tiny):
            value = tiny.value_of(scope)
            assert chance @ plain_values(view, scope, measure) <= value + 1e-12
            assert chance @ plain_gains(view, scope, measure) <= value - legacy + 1e-12


def test_ignoring_carry_over_would_be_wrong() -> None:
    tiny = replace(TWO, seed=5, carry=True)
    listed = tiny.episodes()
    chance = np.array([p for p, _ in listed])
    batch = tiny.batch([episode for _, episode in listed])
    blind = CandidateView(replace(tiny.problem, carry_over="none"), batch, TinyPolicy(tiny), RewardModels())
    value = tiny.value_of(Scope(tiny.names))
    assert abs(chance @ plain_values(blind, Scope(tiny.names), reward_measure(tiny.problem)) - value) > 1e-3


@pytest.mark.parametrize("case", [name for name in CASES if "per " in name] + ["two levels", "two levels, carry over"])
def test_guards_count_on_every_row_whatever_the_reward_belongs_to(case: str) -> None:
    tiny = replace(CASES[case], seed=1, particles=1)
    listed = tiny.episodes()
    chance = np.array([p for p, _ in listed])
    view = CandidateView(tiny.problem, tiny.batch([episode for _, episode in listed]), TinyPolicy(tiny), RewardModels())
    (guard,) = guard_measures(tiny.problem)
    legacy = tiny.value_of(Scope(), tiny.unit_guard)
    for scope in scopes(tiny):
        value = tiny.value_of(scope, tiny.unit_guard)
        assert chance @ plain_values(view, scope, guard) == pytest.approx(value, abs=1e-11)
        assert chance @ plain_gains(view, scope, guard) == pytest.approx(value - legacy, abs=1e-11)
