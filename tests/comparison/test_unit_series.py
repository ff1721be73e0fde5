"""Estimators against loops over one episode, and their expectations as sums over all episodes that can happen."""

from __future__ import annotations

import numpy as np
import pytest
from comparison_cases import SCOPES, Loops, tiny_measure, tiny_predictions, tiny_view
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_episodes import Tiny

from aegis.comparison.direct_method import switch_values
from aegis.comparison.unit_series import (
    basic_series,
    clipped_gains,
    clipped_values,
    largest_weight,
    model_series,
    particle_series,
)
from aegis.ope import ParticlePolicy, plain_gains, plain_values
from aegis.policies import Hybrid, Mixture
from aegis.problem import Scope
from aegis.worlds import make_world, true_value

SHAPES = {
    1: Tiny(0, contexts=(3,), actions=(3,), most=(2,)),
    2: Tiny(0, contexts=(2, 2), actions=(2, 2), most=(1, 2)),
    3: Tiny(0, contexts=(1, 2, 2), actions=(2, 2, 2), most=(1, 2, 1)),
}
CASES = st.tuples(
    st.integers(0, 40), st.sampled_from([1, 2, 3]), st.integers(0, 2), st.integers(1, 3), st.booleans(), st.booleans()
)


def tiny_of(case: tuple[int, int, int, int, bool, bool]) -> tuple[Tiny, Scope]:
    seed, depth, place, particles, sharp, costs = case
    shape = SHAPES[depth]
    tiny = Tiny(seed, shape.contexts, shape.actions, shape.most, particles, sharp=sharp, goal="minimise" if costs else "maximise")
    scopes = SCOPES[depth]
    return tiny, Scope(scopes[place % len(scopes)])


@settings(max_examples=15, deadline=None)
@given(CASES, st.sampled_from([0.0, 0.7, 1.5, 4.0, np.inf]))
def test_series_are_those_of_plain_loops(case, threshold):
    tiny, scope = tiny_of(case)
    episodes = [episode for _, episode in tiny.episodes()][::5][:40]
    predictions, models = tiny_predictions(tiny, scope)
    view, measure = tiny_view(tiny, episodes, models[[n for n in tiny.names if n in scope][-1]]), tiny_measure(tiny)
    loops = Loops(tiny, scope, models)
    found = {**basic_series(scope, measure, threshold), **model_series(scope, measure, predictions, threshold)}
    computed = {name: compute(view) for name, compute in found.items()}
    for k, episode in enumerate(episodes):
        expected = {
            "value": loops.weighted(episode),
            "gain": loops.weighted(episode, less=1.0),
            "legacy": tiny.unit_reward(episode),
            "lifted gain": loops.weighted(episode, less=1.0),
            "compared best": tiny.unit_reward(episode),
            "weight": loops.weights(episode),
            "clipped": loops.weighted(episode, threshold),
            "clipped gain": loops.weighted(episode, threshold, less=1.0),
            "direct": loops.switched(episode, 0.0),
            "robust": loops.switched(episode, np.inf),
            "switch": loops.switched(episode, threshold),
        }
        assert set(expected) == set(computed)
        for name, number in expected.items():
            assert computed[name][k] == pytest.approx(number, abs=1e-9), name


@settings(max_examples=20, deadline=None)
@given(CASES)
def test_weighted_and_doubly_robust_values_are_unbiased_whatever_the_model(case):
    tiny, scope = tiny_of(case)
    chances, episodes = zip(*tiny.episodes(), strict=True)
    predictions, models = tiny_predictions(tiny, scope)
    view, measure = tiny_view(tiny, list(episodes), models[[n for n in tiny.names if n in scope][-1]]), tiny_measure(tiny)
    truth = tiny.value_of(scope)
    for values in (plain_values(view, scope, measure), switch_values(view, scope, measure, predictions, np.inf)):
        assert np.array(chances) @ values == pytest.approx(truth, abs=1e-9)


def test_the_direct_method_is_not_unbiased():
    tiny = Tiny(3)
    scope = Scope("fast")
    chances, episodes = zip(*tiny.episodes(), strict=True)
    predictions, models = tiny_predictions(tiny, scope)
    view = tiny_view(tiny, list(episodes), models["fast"])
    found = np.array(chances) @ switch_values(view, scope, tiny_measure(tiny), predictions, 0.0)
    assert abs(found - tiny.value_of(scope)) > 0.02


@settings(max_examples=15, deadline=None)
@given(CASES)
def test_limits_of_thresholds(case):
    tiny, scope = tiny_of(case)
    episodes = [episode for _, episode in tiny.episodes()][:30]
    predictions, models = tiny_predictions(tiny, scope)
    view, measure = tiny_view(tiny, episodes, models[[n for n in tiny.names if n in scope][-1]]), tiny_measure(tiny)
    assert np.allclose(clipped_values(view, scope, measure, np.inf), plain_values(view, scope, measure), atol=1e-9)
    assert np.allclose(clipped_gains(view, scope, measure, np.inf), plain_gains(view, scope, measure), atol=1e-9)
    assert (clipped_values(view, scope, measure, 0.0) == 0).all()
    series = model_series(scope, measure, predictions, np.inf)
    assert np.array_equal(series["switch"](view), series["robust"](view))
    series = model_series(scope, measure, predictions, 0.0)
    assert np.array_equal(series["switch"](view), series["direct"](view))


def test_particles_average_to_the_mixture_and_each_acts_alone():
    tiny = Tiny(5, particles=3)
    episodes = [episode for _, episode in tiny.episodes()][:50]
    view, measure, scope = tiny_view(tiny, episodes), tiny_measure(tiny), Scope(tiny.names)
    found = particle_series(scope, measure)
    assert found["particles"](view) @ view.weights == pytest.approx(plain_values(view, scope, measure))
    assert found["particle gains"](view) @ view.weights == pytest.approx(plain_gains(view, scope, measure))
    ratios = [view.taken(name, view.batch) / view.batch.levels[name].mu_taken for name in tiny.names]
    products = ratios[0][:, view.batch.levels["fast"].parent] * ratios[1]  # [particles, rows]
    assert largest_weight(view, scope) == pytest.approx(products.max())
    assert products.max() > view.node_weights(scope).max()
    one = ParticlePolicy(view, 1)
    assert one.weights == [1.0]
    assert np.array_equal(one.full("fast", view.batch)[0], view.full("fast", view.batch)[1])


WORLDS = {
    "inner": ("additive", "uniform", ("sign:epsilon=0.6",), ("inner",)),
    "outer": ("additive", "natural:epsilon=0.7", ("uniform",), ("meta",)),
    "mixture at both": ("additive", "uniform", ("sign:epsilon=0.5", "constant:value=1,epsilon=0.5"), ("meta", "inner")),
}


@pytest.mark.parametrize("case", WORLDS)
def test_estimates_agree_with_the_truth_by_integration(case):
    from aegis.certificate import Candidate
    from aegis.comparison.direct_method import fit_action_predictions
    from aegis.comparison.estimators import mean_estimate
    from aegis.ope import CandidateView, reward_measure

    name, legacy_name, members, levels = WORLDS[case]
    world = make_world(name)
    problem, measure, scope = world.problem, reward_measure(world.problem), Scope(levels)
    legacy, candidate = world.legacy(legacy_name), Mixture([world.legacy(member) for member in members])
    prior, log = world.episodes(0, 150, legacy, 91), world.episodes(0, 1500, legacy, 92)
    fitted = fit_action_predictions(problem, Candidate(candidate), scope, measure, prior)
    view = CandidateView(problem, log, candidate, fitted.base)
    truth = float(measure.scaled(np.array([true_value(world, Hybrid(problem, scope, candidate, legacy))]))[0])
    weighted, robust = plain_values(view, scope, measure), switch_values(view, scope, measure, fitted, np.inf)
    for values in (weighted, robust):
        found = mean_estimate(values)
        assert abs(found.value - truth) < 4 * found.error
    assert mean_estimate(robust).error < mean_estimate(weighted).error  # the models are of some use
    direct = mean_estimate(switch_values(view, scope, measure, fitted, 0.0))
    assert abs(direct.value - truth) < 0.03
