"""The measure of bounds from a legacy's log alone: as published, and ours."""

from __future__ import annotations

import math

import numpy as np
import pytest
from bench_cases import SETTINGS

from aegis.errors import SettingError
from aegis.mechanisms import build_belief
from aegis.ope import reward_measure
from aegis.paper.bound_measures import divergence, draw_values, logged_means, particle_views
from aegis.paper.offline_measures import PRIOR_PART_FROM, measure_offline
from aegis.paper.run_measures import unit_agent, unit_legacy, unit_world
from aegis.planning import Thompson, plan_policy
from aegis.problem import Scope
from aegis.rng import stream

EXPLORING = {"constant": 1.0, "epsilon": 0.5, "draws": 2}


def test_what_we_certify_offline_fits_together() -> None:
    (run,) = measure_offline(SETTINGS["offline"], [0])
    assert run["certified"] == int(run["gain_lower"] > 0)
    assert run["width"] == pytest.approx(run["value"] - run["value_lower"]) and run["width"] > 0
    assert run["gain_lower"] < run["gain"] and run["kl"] > 0
    assert measure_offline({**SETTINGS["offline"], "options": EXPLORING}, [0])[0]["gain"] != run["gain"]


@pytest.mark.parametrize("options", [{}, {"alpha": 0.25}, EXPLORING, {"alpha": 0.0}])
def test_the_published_numbers_are_their_formulas(options: dict[str, float]) -> None:
    """B from the exploration of the legacy, Q after all, p0 after the prior part, the closed form of lambda: written out."""
    settings = {**SETTINGS["offline"], "episodes": 40, "options": {**options, "draws": 2}}
    (run,) = measure_offline(settings, [5])
    named = {**settings, "legacy": "constant:value=1.0,epsilon=0.5"} if options == EXPLORING else settings
    world = unit_world(named)
    legacy, earlier, scope = unit_legacy(named, world), round(options.get("alpha", 0.5) * 40), Scope(["inner"])
    measure = reward_measure(world.problem)
    reference = build_belief(world.problem, unit_agent(named).model)
    if earlier:
        reference = reference.update(world.episodes(PRIOR_PART_FROM, earlier, legacy, 5))
    rest = world.episodes(0, 40 - earlier, legacy, 5)
    last, units = reference.update(rest), 40 - earlier
    largest = 5 / (0.5 if options == EXPLORING else 1.0)
    mean = float(logged_means(world.problem, rest, measure).mean())
    for belief, name, kl, key in ((last, "Q", divergence(last, reference, scope), ""), (reference, "p0", 0.0, "_p0")):
        plan = plan_policy(belief, Thompson(2), stream(5, "offline", name), scope, legacy)
        values = draw_values(particle_views(world.problem, rest, plan), scope, measure)
        cost = kl + math.log(20)
        lam = min(0.95 / largest, math.sqrt(2 * cost / (units * np.mean((largest - values) ** 2))))
        estimate = largest + np.mean(np.log(1 - lam * (largest - values))) / lam
        assert run[f"published{key}"] == pytest.approx(measure.value(estimate - cost / (lam * units)), rel=1e-6)
        paid = (kl + math.log(40)) / (lam * units)
        assert run[f"published_gain{key}"] == pytest.approx(measure.gain(estimate - mean - paid), rel=1e-6)
        if not key:
            assert run["estimate"] == pytest.approx(measure.value(estimate), rel=1e-6)
            assert run["regulariser"] == pytest.approx(measure.gain(paid), rel=1e-6)
    assert run["largest"] == largest
    assert run["published_certified"] == int(run["published_gain"] > 0)
    assert run["published_width"] == pytest.approx(run["value_q"] - run["published"])


def test_without_a_prior_part_p0_is_the_hyper_prior() -> None:
    settings = {**SETTINGS["offline"], "episodes": 60, "world": {"name": "additive", "inner_steps": 3, "outer_points": 2}}
    (none,) = measure_offline({**settings, "options": {"alpha": 0.0, "draws": 2}}, [0])
    (half,) = measure_offline({**settings, "options": {"alpha": 0.5, "draws": 2}}, [0])
    assert none["kl"] > 2 * half["kl"]  # the full price for what was learned
    assert none["value"] < half["value"]  # ours, too, acts on what was learned beforehand
    assert none["value_lower"] <= none["value"]
    with pytest.raises(SettingError, match="none to learn from"):
        measure_offline({**settings, "episodes": 1, "options": {"alpha": 0.0}}, [])


def test_a_misleading_prior_shows_as_a_large_divergence_and_tightens_no_bound_falsely() -> None:
    """A confident prior from a plant where the action has the opposite effect, against one of the same plant."""
    settings = {**SETTINGS["offline"], "world": {"name": "additive", "inner_steps": 3, "inner_points": 3}, "episodes": 400}
    seeds = [0]
    aligned = measure_offline({**settings, "options": {"draws": 2}}, seeds)
    misled = measure_offline({**settings, "options": {"draws": 2, "prior_world": {"f_a": -2.0}}}, seeds)
    for right, wrong in zip(aligned, misled, strict=True):
        assert wrong["kl"] > 20 * right["kl"]
        assert wrong["published"] < right["published"]
        assert wrong["published"] <= wrong["value_q"] and wrong["gain_lower"] <= wrong["gain"]


def test_settings_that_cannot_work_are_refused_before_a_run() -> None:
    with pytest.raises(SettingError, match="none to learn from"):
        measure_offline({**SETTINGS["offline"], "options": {"alpha": 0.01}}, [])
    with pytest.raises(SettingError, match=r"'options\.scope'.*one level, found"):
        measure_offline({**SETTINGS["offline"], "options": {"scope": ["inner", "meta"]}}, [])
    with pytest.raises(SettingError, match=r"'legacy'.*no overlap"):
        measure_offline({**SETTINGS["offline"], "options": {"constant": 1.0, "epsilon": 0.0}}, [])


def test_random_features_are_standardised_by_a_log_of_the_legacy() -> None:
    settings = {**SETTINGS["offline"], "agent": "nested_cts", "model": {"count": 8}, "options": {"draws": 2}}
    (run,) = measure_offline(settings, [0])
    assert np.isfinite([run["published"], run["value_p0"], run["gain_lower"]]).all()
