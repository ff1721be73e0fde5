"""The measure of bounds on half of a run, and the three loggers of that run."""

from __future__ import annotations

import numpy as np
import pytest
from bench_cases import SETTINGS

from aegis.agents import make_online
from aegis.errors import SettingError
from aegis.evidence import published_bound
from aegis.ope import reward_measure
from aegis.paper.bound_measures import divergence, draw_values, particle_views
from aegis.paper.run_measures import unit_agent, unit_legacy, unit_world
from aegis.paper.split_measures import SPLIT_LISTS, measure_split, prior_places
from aegis.planning import Thompson, plan_policy
from aegis.problem import Batch, concat
from aegis.rng import stream


def logged(seed: int) -> tuple[object, object, Batch]:
    settings = SETTINGS["split"]
    world = unit_world(settings)
    online = make_online(world, unit_agent(settings).with_particles(2), seed, unit_legacy(settings, world))
    return world, online, concat([own for own, _ in online.steps(online.prior(), 0, 12)])


def test_a_split_run_has_one_bound_for_every_point() -> None:
    (run,) = measure_split(SETTINGS["split"], [3])
    for name in SPLIT_LISTS:
        assert len(run[name]) == 2
    assert run["bound"] == run["published"][-1] and run["certified"] == run["ours"][-1]
    assert run["share"] == pytest.approx(run["ours"][-1] / run["value"])
    assert run["covered"] == int(run["ours"][-1] <= run["value"])
    assert run["handed"] == 0
    with pytest.raises(SettingError, match="the first bound comes after 8"):
        measure_split({**SETTINGS["split"], "episodes": 5}, [0])


def test_the_random_split_is_nested() -> None:
    """The paper's table is 'under nested random split': the parts at k = 500 contain those at 200."""
    for seed in range(3):
        whole = prior_places(seed, 2000, 0.5)
        np.testing.assert_array_equal(prior_places(seed, 200, 0.5), whole[:200])
        assert 0.45 < whole.mean() < 0.55
    assert (prior_places(0, 50, 0.5) != prior_places(1, 50, 0.5)).any()


def test_the_biased_number_is_prism_on_the_rewards_as_they_came() -> None:
    (run,) = measure_split(SETTINGS["split"], [3])
    world, online, batch = logged(3)
    measure = reward_measure(world.problem)
    rewards = measure.scaled(np.asarray(batch.episode_means(batch.reward)))
    kl = online.prior().update(batch).kl(world.problem.scope(None))
    expected = published_bound(rewards, 0.05, "root", 1.0, kl)
    assert run["biased"][-1] == pytest.approx(measure.value(expected.value), rel=1e-6)


@pytest.mark.parametrize("lam", ["root", "temper"])
def test_the_published_number_is_prism_on_the_episodes_that_p0_did_not_see(lam: str) -> None:
    settings = {**SETTINGS["split"], "options": {**SETTINGS["split"]["options"], "lam": lam}, "model": {"temper": 0.5}}
    (run,) = measure_split(settings, [3])
    world = unit_world(settings)
    online = make_online(world, unit_agent(settings).with_particles(2), 3, unit_legacy(settings, world))
    batch = concat([own for own, _ in online.steps(online.prior(), 0, 12)])
    scope, measure = world.problem.scope(None), reward_measure(world.problem)
    for point, place in zip((8, 12), (0, 1), strict=True):
        chosen = prior_places(3, 12, 0.5)[:point]
        reference = online.prior().update(batch.take_episodes(np.flatnonzero(chosen)))
        last = online.prior().update(batch.take_episodes(np.arange(point)))
        plan = plan_policy(last, Thompson(2), stream(3, "split", "Q", point), scope, online.legacy)
        rest = batch.take_episodes(np.flatnonzero(~chosen))
        values = draw_values(particle_views(world.problem, rest, plan), scope, measure, 1.0)
        kl = divergence(last, reference, scope)
        expected = published_bound(values, 0.05, 0.5 if lam == "temper" else "root", 1.0, kl)
        assert run["published"][place] == pytest.approx(measure.value(expected.value), rel=1e-6)
        assert run["kl"][place] == pytest.approx(kl)
        assert run["estimate"][place] == pytest.approx(measure.value(values.mean()), rel=1e-6)
        assert run["slack"][place] == pytest.approx(run["estimate"][place] - run["published"][place]) and run["slack"][place] > 0
        root = published_bound(values, 0.05, "root", 1.0, kl)
        assert run["root"][place] == pytest.approx(measure.value(root.value), rel=1e-6)


def test_the_log_of_a_gate_is_bounded_like_any_other() -> None:
    options = {**SETTINGS["split"]["options"], "logger": "gate", "gate_settings": {"stride": 4}}
    settings = {**SETTINGS["split"], "legacy": "sign:epsilon=0.0", "options": options}
    (run,) = measure_split(settings, [3])
    assert len(run["published"]) == 2 and run["handed"] == 0
    at_once = {**settings, "options": {**options, "gate_settings": {"stride": 4, "progressive_handover": False}}}
    (other,) = measure_split(at_once, [3])
    assert other["handed"] == 2 and other["reward"] > run["reward"]
    with pytest.raises(SettingError, match=r"options\.gate_settings.*stride"):
        measure_split({**settings, "options": {**options, "gate_settings": {"stride": 0}}}, [])
