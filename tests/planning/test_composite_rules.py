"""Rules by level, and the coin: one draw serves the whole episode, and the logged probabilities are the mixture's."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import planning_cases as cases
import pytest
import rule_cases

from aegis.errors import SettingError
from aegis.planning import RULES, BernoulliMix, ByLevel, DOptimal, Greedy, Ids, States, Thompson, TopK, Ucb, plan_policy
from aegis.planning.composite_rules import ByLevelChoice, particle_pairs
from aegis.policies import path_taken
from aegis.problem import Scope
from aegis.rng import stream


def three_levels(episodes=5, masks=False):
    problem = cases.real_problem(3)
    rng = stream(1, "by level")
    belief = cases.learned(problem, rng)
    return problem, belief, cases.random_batch(problem, rng, episodes, 1, masks)


def test_the_coin_mixes_d_optimal_and_thompson():
    problem, belief, batch = three_levels(masks=True)
    policy = plan_policy(belief, BernoulliMix(0.3, 4), stream(2, "coin"))
    thompson = plan_policy(belief, Thompson(4), stream(2, "coin"))
    design = plan_policy(belief, DOptimal(), stream(2, "coin"))
    np.testing.assert_allclose(policy.weights, [0.3, 0.175, 0.175, 0.175, 0.175])
    for level in problem.names:
        full = policy.full(level, batch)
        np.testing.assert_array_equal(full[:1], design.full(level, batch))
        np.testing.assert_array_equal(full[1:], thompson.full(level, batch))


@pytest.mark.parametrize("name", sorted(RULES))
def test_outer_levels_follow_one_rule_and_the_innermost_another(name):
    problem, belief, batch = three_levels(masks=True)
    outer = RULES[name]()
    policy = plan_policy(belief, ByLevel(outer, Thompson(8)), stream(3, "levels"))
    assert policy.weights.sum() == pytest.approx(1.0)
    theta = policy.theta
    inner = policy.full("l1", batch)
    draws = policy.choice.plays
    assert set(draws) == set(range(8))
    best = np.where(rule_cases.open_rows(problem, batch, "l1"), policy.values("l1", batch), -np.inf).argmax(axis=-1)
    np.testing.assert_array_equal(inner.argmax(axis=-1), best[draws])  # each particle is the best under its own draw
    for draw in range(8):
        assert policy.weights[draws == draw].sum() == pytest.approx(1 / 8)
    alone = outer.prepare(belief, stream(3, "levels"), 0, None, theta)
    if outer.particles:
        assert policy.choice.at("l2").theta is policy.choice.at("l1").theta
    elif name != "greedy" and name != "d_optimal":
        return  # takes draws of its own, after the shared ones
    for level in ("l3", "l2"):
        states = policy.states(level, States.of(problem, batch, level))
        values = policy.values(level, batch)
        wanted = alone.probabilities(level, states, lambda values=values: values, rule_cases.open_rows(problem, batch, level))
        full = policy.full(level, batch)
        np.testing.assert_allclose(np.tensordot(policy.weights, full, 1), np.tensordot(alone.weights, wanted, 1), atol=1e-12)


def test_one_draw_serves_all_levels():
    """Thompson above Thompson is Thompson, whichever asks for more particles."""
    problem, belief, batch = three_levels()
    whole = plan_policy(belief, Thompson(6), stream(4, "one"))
    for outer, inner in ((6, 6), (2, 6), (6, 1)):
        policy = plan_policy(belief, ByLevel(Thompson(outer), Thompson(inner)), stream(4, "one"))
        np.testing.assert_allclose(policy.weights, np.full(6, 1 / 6))
        for level in problem.names:
            np.testing.assert_array_equal(policy.full(level, batch), whole.full(level, batch))


class Weighted:
    """A choice with given weights and draws, over S draws."""

    def __init__(self, weights, plays, count):
        self.weights, self.plays = np.array(weights, dtype=float), np.array(plays)
        self.theta = type("Draws", (), {"count": count})()


@pytest.mark.parametrize(
    ("outer", "inner"),
    [
        (([1 / 3] * 3, [0, 1, 2]), ([1 / 3] * 3, [0, 1, 2])),
        (([1.0], [-1]), ([1 / 3] * 3, [0, 1, 2])),
        (([1 / 4, 1 / 4, 1 / 4, 1 / 4], [-1, 0, 1, 2]), ([1 / 3] * 3, [0, 1, 2])),
        (([1 / 4, 1 / 4, 1 / 4, 1 / 4], [-1, 0, 1, 2]), ([1 / 2, 1 / 6, 1 / 6, 1 / 6], [-1, 2, 1, 0])),
        (([0.5, 0.5], [-1, -1]), ([1.0], [-1])),
    ],
)
def test_pairs_against_the_experiment_itself(outer, inner):
    """Draw s, then each side's particle given s: its weight among those that play s or none."""
    first, second = Weighted(*outer, 3), Weighted(*inner, 3)
    members, weights = particle_pairs(first, second)
    found = {(int(one), int(other)): weight for (one, other), weight in zip(members, weights, strict=True)}
    wanted: dict[tuple[int, int], Fraction] = {}
    for draw in range(3):
        shares = []
        for side in (outer, inner):
            fits = {i: Fraction(w).limit_denominator() for i, w in enumerate(side[0]) if side[1][i] in (draw, -1)}
            fits = {i: w * (3 if side[1][i] >= 0 else 1) for i, w in fits.items()}
            assert sum(fits.values()) == 1
            shares.append(fits)
        for one, other in itertools.product(*shares):
            wanted[one, other] = wanted.get((one, other), Fraction(0)) + shares[0][one] * shares[1][other] / 3
    assert set(found) == set(wanted)
    for pair, weight in wanted.items():
        assert found[pair] == pytest.approx(float(weight))
    assert weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("outer", [BernoulliMix(0.4, 3), TopK(2, 3), DOptimal(), Ids(4)])
def test_path_probabilities_are_those_of_the_whole_mixture(outer):
    """Episodes played by a particle: the product of conditional probabilities is the mean over particles of products."""
    problem, belief, batch = three_levels(40)
    policy = plan_policy(belief, ByLevel(outer, Thompson(3)), stream(5, "paths"))
    player = np.arange(40) % policy.weights.size
    for level in problem.names:
        action = policy.full(level, batch)[player, np.arange(40)].argmax(axis=-1)
        batch = batch.with_level(level, batch.levels[level].decided(action, np.ones(40)))
    product = np.prod([path_taken(policy, level, batch) for level in problem.names], axis=0)
    every = np.prod([policy.taken(level, batch) for level in problem.names], axis=0)
    np.testing.assert_allclose(product, policy.weights @ every, rtol=1e-10)
    assert (product > 0).all()


def test_only_the_rule_that_has_a_level_in_scope_is_prepared():
    problem, belief, batch = three_levels()
    legacy = cases.looking_legacy(problem)
    rule = ByLevel(BernoulliMix(0.5, 2), Thompson(4))
    assert not isinstance(plan_policy(belief, rule, stream(6, "s"), ["l1"], legacy).choice, ByLevelChoice)
    inner = plan_policy(belief, rule, stream(6, "s"), ["l1"], legacy)
    np.testing.assert_array_equal(
        inner.full("l1", batch), plan_policy(belief, Thompson(4), stream(6, "s"), ["l1"], legacy).full("l1", batch)
    )
    outer = plan_policy(belief, rule, stream(6, "s"), ["l3", "l2"], legacy)
    alone = plan_policy(belief, BernoulliMix(0.5, 2), stream(6, "s"), ["l3", "l2"], legacy)
    np.testing.assert_array_equal(outer.full("l3", batch), alone.full("l3", batch))
    assert plan_policy(belief, rule, stream(6, "s"), legacy=legacy, commit="flat").scope == Scope("l1")
    shallow = cases.real_problem(1)
    belief = cases.learned(shallow, stream(7, "s"))
    assert plan_policy(belief, rule, stream(7, "s")).weights.size == 4


def test_rules_without_particles_have_one_together():
    problem, belief, batch = three_levels()
    policy = plan_policy(belief, ByLevel(Ucb(draws=3), Greedy()), stream(8, "none"))
    assert policy.weights.tolist() == [1.0]
    assert policy.values("l2", batch).shape[0] == 3
    assert policy.values("l1", batch).shape[0] == 1
    greedy = plan_policy(belief, Greedy(), stream(8, "none"))
    np.testing.assert_array_equal(policy.full("l1", batch), greedy.full("l1", batch))
    assert problem.names == ("l3", "l2", "l1")


def test_settings_of_the_coin_are_checked():
    for wrong in (-0.1, 1.1, "often"):
        with pytest.raises(SettingError, match="mix: 'p' is a finite number from 0 to 1"):
            BernoulliMix(wrong)
    with pytest.raises(SettingError, match="'particles' is a whole number from 1"):
        BernoulliMix(particles=0)
    np.testing.assert_array_equal(BernoulliMix(1.0, 2).prepare(three_levels()[1], stream(9, "p"), 0).weights, [1.0, 0.0, 0.0])
