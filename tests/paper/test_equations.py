"""Each numbered equation of the paper against plain loops that import nothing from the package, at L = 1, 2, 3."""

from __future__ import annotations

import itertools

import naive
import naive_posterior
import numpy as np
import pytest
import setting

from aegis.mechanisms import NIG, ModelSettings, build_belief
from aegis.planning import Greedy, Integration, Recursion, States, Thompson, plan_policy
from aegis.problem import Scope, augmented_context
from aegis.rng import stream
from aegis.worlds import make_world

DEPTHS = (1, 2, 3)
NODES = {1: 12, 2: 12, 3: 3}


def scopes(problem):
    names = problem.names
    for size in range(1, len(names) + 1):
        for chosen in itertools.combinations(names, size):
            yield Scope(chosen)


@pytest.mark.parametrize("depth", DEPTHS)
def test_definition_1_mechanisms_parents_and_samples(depth):
    problem = setting.make_problem(depth)
    below = [f"c{i}" for i in range(depth - 1, 0, -1)]
    assert list(problem.mechanisms()) == [*below, "y", "r"]
    assert problem.graph.parents[f"c{depth}"] == ()
    assert len(problem.graph.parents["r"]) == 2 * depth + 1
    batch = setting.make_batch(problem, stream(1, "def1"), episodes=3, children=2)
    assert len(batch.reward) == 3 * 2**depth  # N_L = prod I_l samples in each of 3 episodes


@pytest.mark.parametrize("depth", DEPTHS)
def test_definition_2_scope(depth):
    problem = setting.make_problem(depth)
    for scope in scopes(problem):
        assert list(problem.mechanisms(scope)) == naive.phi_scope(setting.plain_levels(problem), "y", "r", scope)


@pytest.mark.parametrize("features", ["linear", "polynomial"])
@pytest.mark.parametrize("depth", DEPTHS)
def test_scm_forward_and_r_recursion(depth, features):
    problem = setting.make_problem(depth)
    rng = stream(2, "recursion", depth)
    belief = setting.make_belief(problem, features, rng)
    theta = belief.draw(rng, 2)
    legacy, plain = setting.make_legacy(problem), setting.plain_legacy(problem)
    batch = setting.make_batch(problem, rng, episodes=1, children=1)
    nodes = NODES[depth]
    for scope in scopes(problem):
        recursion = Recursion(problem, theta, scope, legacy, False, Integration("quadrature", nodes))
        for position, level in enumerate(problem.levels):
            values = recursion.values(level.name, States.of(problem, batch, level.name))
            known = setting.known_row(problem, batch, level.name, 0)
            for particle in range(2):
                model = setting.plain_model(problem, theta, particle, features)
                expected = naive.r_recursion(setting.plain_levels(problem), position, known, model, scope, plain, nodes)
                np.testing.assert_allclose(values[particle, 0], expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("depth", DEPTHS)
def test_pi_ell_ts_policy_and_ck_ts(depth):
    problem = setting.make_problem(depth)
    rng = stream(3, "policy", depth)
    belief = setting.make_belief(problem, "polynomial", rng)
    legacy, plain = setting.make_legacy(problem), setting.plain_legacy(problem)
    batch = setting.make_batch(problem, rng, episodes=2, children=1)
    integration = Integration("quadrature", NODES[depth])
    for scope in scopes(problem):
        policy = plan_policy(belief, Thompson(3), stream(4, "theta"), scope, legacy, integration=integration)
        theta = policy.theta
        for position, level in enumerate(problem.levels):
            full = policy.full(level.name, batch)
            taken = policy.taken(level.name, batch)
            for particle in range(3):
                model = setting.plain_model(problem, theta, particle, "polynomial")
                for row in range(2):
                    known = setting.known_row(problem, batch, level.name, row)
                    wanted = naive.pi_ell(setting.plain_levels(problem), position, known, model, scope, plain, integration.nodes)
                    np.testing.assert_allclose(full[particle, row], wanted, atol=1e-12)
                    assert taken[particle, row] == full[particle, row, batch.levels[level.name].action[row]]


def test_one_belief_is_held_for_the_whole_episode_and_redrawn_for_the_next():
    problem = setting.make_problem(2)
    belief = setting.make_belief(problem, "linear", stream(5, "hold"))
    first, again, other = (plan_policy(belief, Thompson(1), stream(6, "agent", k)) for k in (0, 0, 1))
    batch = setting.make_batch(problem, stream(7, "hold"))
    for name in problem.names:
        np.testing.assert_array_equal(first.values(name, batch), again.values(name, batch))
        assert not np.array_equal(first.values(name, batch), other.values(name, batch))


@pytest.mark.parametrize("temper", [1.0, 0.25])
def test_nig_update(temper):
    rng = stream(8, "nig")
    features, targets = rng.standard_normal((7, 3)), rng.standard_normal((7, 2))
    prior = NIG.prior(3, 2, 0.1, 2.0, 1.0)
    moments = prior.update(features[:4], targets[:4], temper).update(features[4:], targets[4:], temper).moments()
    for q in range(2):
        mean, precision, a, b = naive_posterior.nig_update(
            [0.0] * 3, (0.1 * np.eye(3)).tolist(), 2.0, 1.0, features.tolist(), targets[:, q].tolist(), temper
        )
        np.testing.assert_allclose(moments.mean[:, q], mean, rtol=1e-9)
        np.testing.assert_allclose(moments.factor @ moments.factor.T, precision, rtol=1e-9)
        assert moments.shape == pytest.approx(a)
        assert moments.rate[q] == pytest.approx(b)


@pytest.mark.parametrize("depth", DEPTHS)
def test_mechanism_update_uses_the_right_rows(depth):
    """p_k(theta_X) ~ p(D_k^(X) | theta_X, Pa(X)) p_(k-1)(theta_X): each mechanism sees its own rows and parents only."""
    problem = setting.make_problem(depth)
    batch = setting.make_batch(problem, stream(9, "rows", depth), episodes=4, children=None)
    belief = build_belief(problem).update(batch)
    levels, tables = setting.plain_levels(problem), setting.plain_tables(batch)
    for name in naive.phi_scope(levels, "y", "r", {"l1", f"l{depth}"}):
        pairs = naive.mechanism_data(levels, tables, batch.outcome.tolist(), batch.reward.tolist(), name)
        features, values = [x for x, _ in pairs], [value for _, value in pairs]
        mean, precision, a, b = naive_posterior.nig_update(*naive_posterior.nig_prior(len(features[0])), features, values)
        moments = belief.states[name].moments()
        np.testing.assert_allclose(moments.mean[:, 0], mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(belief.states[name].precision, precision, rtol=1e-9)
        assert moments.shape == pytest.approx(a)
        assert moments.rate[0] == pytest.approx(b)


@pytest.mark.parametrize("depth", DEPTHS)
def test_the_augmented_context_is_what_lies_on_the_path(depth):
    """c~^(l) = (C^(L), a^(L), ..., a^(l+1), C^(l)), for every decision of a ragged tree."""
    problem = setting.make_problem(depth)
    batch = setting.make_batch(problem, stream(14, "path", depth), episodes=3, children=None)
    levels, tables = setting.plain_levels(problem), setting.plain_tables(batch)
    for position, level in enumerate(problem.names):
        for own_action in (False, True):
            found = augmented_context(problem, batch, level, with_action=own_action)
            rows = [naive.known(levels, tables, position, row, own_action) for row in range(len(batch.levels[level]))]
            assert {name: values.tolist() for name, values in found.items()} == {
                name: [row[name] for row in rows] for name in rows[0]
            }


@pytest.mark.parametrize("depth", DEPTHS)
def test_causal_kl_is_the_sum_over_the_mechanisms_of_the_scope(depth):
    problem = setting.make_problem(depth)
    belief = setting.make_belief(problem, "linear", stream(10, "kl", depth))
    pieces = {}
    for name in problem.mechanisms():
        p, q = belief.states[name].moments(), belief.prior[name].moments()
        pieces[name] = naive_posterior.nig_kl(
            p.mean[:, 0].tolist(), belief.states[name].precision.tolist(), p.shape, float(p.rate[0]),
            q.mean[:, 0].tolist(), belief.prior[name].precision.tolist(), q.shape, float(q.rate[0]),
        )  # fmt: skip
        assert belief.kl_by_mechanism()[name] == pytest.approx(pieces[name], rel=1e-9)
    assert belief.kl() == pytest.approx(sum(pieces.values()))
    for scope in scopes(problem):
        names = naive.phi_scope(setting.plain_levels(problem), "y", "r", scope)
        assert belief.kl(scope) == pytest.approx(sum(pieces[name] for name in names))


def test_greedy_plans_with_the_posterior_mean():
    problem = setting.make_problem(1)
    belief = setting.make_belief(problem, "linear", stream(11, "greedy"))
    policy = plan_policy(belief, Greedy(), stream(12, "unused"))
    batch = setting.make_batch(problem, stream(13, "greedy"))
    values = policy.values("l1", batch)
    model = setting.plain_model(problem, policy.theta, 0, "linear")
    for name in ("y", "r"):
        np.testing.assert_allclose(policy.theta.functions[name].drawn.weights[0, :, 0], belief.states[name].moments().mean[:, 0])
    known = setting.known_row(problem, batch, "l1", 2)
    expected = naive.r_recursion(setting.plain_levels(problem), 0, known, model, {"l1"}, None, 3)
    np.testing.assert_allclose(values[0, 2], expected, rtol=1e-9)


@pytest.mark.parametrize(
    ("right", "wrong", "hit"),
    [
        ("true", "permuted context", {"Q"}),
        ("true", "permuted outcome", {"Y"}),
        ("true", "permuted", {"Q", "Y"}),
        ("paper", "paper, permuted", {"Q"}),
    ],
)
def test_under_a_wrong_graph_the_terms_of_the_divergence_that_have_wrong_parents_change_and_no_other(right, wrong, hit):
    """Each mechanism sees its own parents only, so that the sum over mechanisms falls apart at the wrong ones alone."""
    world, other = (make_world("unified", graph=name, sigma_q=0.5) for name in (right, wrong))
    log = world.episodes(0, 60, world.legacy("uniform"), 5)
    here, there = (build_belief(own.problem, ModelSettings(features="polynomial")).update(log) for own in (world, other))
    pieces, changed = here.kl_by_mechanism(), there.kl_by_mechanism()
    assert {name for name in pieces if pieces[name] != pytest.approx(changed[name])} == hit
    assert there.kl() == pytest.approx(sum(changed.values()))
    for name in hit:  # what the true parents explain is noise to the wrong ones
        assert there.states[name].moments().rate[0] > 1.5 * here.states[name].moments().rate[0]


@pytest.mark.parametrize(("sigma_q", "least", "most"), [(0.5, 4.0, np.inf), (3.0, 1.0, 1.6)])
def test_with_the_wrong_parent_of_q_no_lever_is_better_than_another_and_noise_hides_it(sigma_q, least, most):
    """The truncated factorisation P(Q | do(M)) no longer knows M. At sigma_Q = 3 the fit of Q hardly tells the graphs apart."""
    values, noise = {}, {}
    for name in ("true", "permuted context"):
        world = make_world("unified", graph=name, sigma_q=sigma_q, eta=0.0)
        belief = build_belief(world.problem).update(world.episodes(0, 100, world.legacy("uniform"), 5))
        batch = world.episodes(200, 5, world.legacy("uniform"), 5)
        policy = plan_policy(belief, Greedy(), stream(1, "graph"))
        values[name] = np.ptp(policy.values("meta", batch), axis=-1).max()
        noise[name] = belief.states["Q"].moments().rate[0] / (belief.states["Q"].moments().shape - 1)
    assert values["permuted context"] == pytest.approx(0.0, abs=1e-9) and values["true"] > 0.01
    assert least < noise["permuted context"] / noise["true"] < most
