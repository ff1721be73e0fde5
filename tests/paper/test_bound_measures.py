"""What measures of bounds share: divergences, values of draws with weights cut, and the largest weight of a design."""

from __future__ import annotations

import numpy as np
import pytest
from bench_cases import ADDITIVE, SETTINGS

from aegis.agents import make_online
from aegis.errors import SettingError
from aegis.mechanisms import build_belief
from aegis.ope import reward_measure
from aegis.paper.bound_measures import divergence, draw_values, largest_weight, logged_means, particle_views
from aegis.paper.run_measures import unit_agent, unit_legacy, unit_world
from aegis.planning import Thompson, plan_policy
from aegis.problem import Scope
from aegis.rng import stream
from aegis.worlds import make_world, true_value


def test_a_belief_has_no_divergence_from_itself() -> None:
    settings = SETTINGS["online"]
    world = unit_world(settings)
    prior = make_online(world, unit_agent(settings), 0, unit_legacy(settings, world)).prior()
    scope = world.problem.scope(None)
    after = prior.update(world.episodes(0, 5, world.legacy("uniform"), 1))
    assert divergence(prior, prior, scope) == pytest.approx(0.0, abs=1e-9)
    assert after.kl(scope) > 0 and divergence(after, prior, scope) == pytest.approx(after.kl(scope))


def test_the_largest_weight_knows_the_coverage_of_the_legacy_and_not_what_it_earns() -> None:
    world = unit_world({"world": ADDITIVE})
    inner = Scope(["inner"])
    earned, largest = zip(
        *[
            (true_value(world, legacy), largest_weight(world.problem, legacy, inner))
            for legacy in (world.legacy(f"constant:value={value},epsilon=0.25") for value in (-2.0, 0.0, 2.0))
        ],
        strict=True,
    )
    assert earned[0] < earned[1] - 1 < earned[2] - 2
    assert set(largest) == {world.problem.level("inner").actions.count / 0.25}


def test_weights_are_cut_and_not_the_values_of_episodes() -> None:
    """Against a loop over decisions: cut the weight of each, multiply by its reward, then average over the episode."""
    world = make_world("additive", inner_steps=3)
    problem, legacy = world.problem, world.legacy("uniform")
    belief = build_belief(problem, unit_agent(SETTINGS["online"]).model).update(world.episodes(100, 10, legacy, 1))
    batch, measure = world.episodes(0, 40, legacy, 2), reward_measure(problem)
    for scope in (Scope(["inner"]), problem.scope(None)):
        plan = plan_policy(belief, Thompson(2), stream(3, "plan"), scope, legacy)
        views = particle_views(problem, batch, plan)
        actions = {name: plan.full(name, batch).argmax(axis=2) for name in scope}
        for cut in (1.0, np.inf):
            expected = np.zeros((40, 2))
            for n in range(2):
                for row in range(120):
                    episode, weight = row // 3, 1.0
                    for name in scope:
                        place = row if name == "inner" else episode
                        same = actions[name][n, place] == batch.levels[name].action[place]
                        weight *= float(same) * problem.level(name).actions.count
                    expected[episode, n] += min(weight, cut) * measure.scaled(batch.reward[row]) / 3
            np.testing.assert_allclose(draw_values(views, scope, measure, cut), expected, rtol=1e-9)
        whole = draw_values(views, scope, measure)
        assert (draw_values(views, scope, measure, 1.0) < np.minimum(whole, 1.0)).any()  # what was done before: values were cut


def test_logged_means_are_means_of_scaled_rewards() -> None:
    world = make_world("additive", inner_steps=3)
    batch, measure = world.episodes(0, 4, world.legacy("uniform"), 0), reward_measure(world.problem)
    np.testing.assert_allclose(
        logged_means(world.problem, batch, measure), measure.scaled(batch.reward.reshape(4, 3)).mean(axis=1)
    )


def test_the_largest_weight_follows_from_the_exploration_of_the_legacy() -> None:
    world = unit_world({"world": ADDITIVE})
    problem, inner = world.problem, Scope(["inner"])
    actions = problem.level("inner").actions.count
    assert largest_weight(problem, world.legacy("uniform"), inner) == actions
    assert largest_weight(problem, world.legacy("constant:value=1,epsilon=0.25"), inner) == pytest.approx(actions / 0.25)
    both = largest_weight(problem, world.legacy("constant:value=1,epsilon=0.25"), problem.scope(None))
    assert both == pytest.approx(actions / 0.25 * problem.level("meta").actions.count)
    with pytest.raises(SettingError, match="does not explore"):
        largest_weight(problem, world.legacy("constant:value=1,epsilon=0"), inner)


def test_no_weight_of_a_log_is_above_the_largest() -> None:
    world = unit_world({"world": ADDITIVE})
    problem, legacy, scope = world.problem, world.legacy("constant:value=1,epsilon=0.5"), Scope(["inner"])
    belief = build_belief(problem, unit_agent(SETTINGS["online"]).model)
    plan = plan_policy(belief, Thompson(16), stream(0, "plan"), scope, legacy)
    views = particle_views(problem, world.episodes(0, 200, legacy, 0), plan)
    seen = max(float(view.node_weights(scope).max()) for view in views)
    assert seen == pytest.approx(largest_weight(problem, legacy, scope))
