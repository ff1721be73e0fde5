"""Measures of lower bounds: on half of a run, and from a legacy's log alone."""

from __future__ import annotations

import numpy as np
import pytest
from bench_cases import SETTINGS

from aegis.agents import make_online
from aegis.errors import SettingError
from aegis.evidence import published_bound
from aegis.ope import reward_measure
from aegis.paper.bound_measures import divergence, measure_offline, measure_split
from aegis.paper.run_measures import unit_agent, unit_legacy, unit_world
from aegis.problem import concat


def test_a_split_run_has_one_bound_for_every_point() -> None:
    (run,) = measure_split(SETTINGS["split"], [3])
    for name in ("published", "biased", "sharp", "ours", "kl"):
        assert len(run[name]) == 2
    assert run["bound"] == run["published"][-1] and run["certified"] == run["ours"][-1]
    assert run["share"] == pytest.approx(run["ours"][-1] / run["value"])
    assert run["covered"] == int(run["ours"][-1] <= run["value"])
    with pytest.raises(SettingError, match="the first bound comes after 8"):
        measure_split({**SETTINGS["split"], "episodes": 5}, [0])


def test_the_biased_number_is_prism_on_the_rewards_as_they_came() -> None:
    settings = SETTINGS["split"]
    (run,) = measure_split(settings, [3])
    world = unit_world(settings)
    online = make_online(world, unit_agent(settings).with_particles(2), 3, unit_legacy(settings, world))
    batch = concat([own for own, _ in online.steps(online.prior(), 0, 12)])
    measure = reward_measure(world.problem)
    rewards = measure.scaled(np.asarray(batch.episode_means(batch.reward)))
    kl = online.prior().update(batch).kl(world.problem.scope(None))
    expected = published_bound(rewards, 0.05, "root", 1.0, kl)
    assert run["biased"][-1] == pytest.approx(measure.value(expected.value), rel=1e-6)


def test_a_belief_has_no_divergence_from_itself() -> None:
    settings = SETTINGS["online"]
    world = unit_world(settings)
    prior = make_online(world, unit_agent(settings), 0, unit_legacy(settings, world)).prior()
    scope = world.problem.scope(None)
    after = prior.update(world.episodes(0, 5, world.legacy("uniform"), 1))
    assert divergence(prior, prior, scope) == pytest.approx(0.0, abs=1e-9)
    assert after.kl(scope) > 0 and divergence(after, prior, scope) == pytest.approx(after.kl(scope))


def test_what_an_offline_run_certifies_fits_together() -> None:
    (run,) = measure_offline(SETTINGS["offline"], [0])
    assert run["certified"] == int(run["gain_lower"] > 0)
    assert run["width"] == pytest.approx(run["value"] - run["value_lower"]) and run["width"] > 0
    assert run["gain_lower"] < run["gain"] and run["kl"] > 0
    constant = {**SETTINGS["offline"], "options": {"constant": 1.0, "epsilon": 0.5}}
    assert measure_offline(constant, [0])[0]["gain"] != run["gain"]
