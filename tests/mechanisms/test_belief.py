"""The factorised belief: what it holds under each structure, how it learns, draws, measures and saves itself."""

from __future__ import annotations

import io
from dataclasses import asdict, replace

import mechanism_cases as cases
import numpy as np
import pytest

from aegis.errors import ModelError, SettingError
from aegis.mechanisms import Cells, ModelSettings, Regression, Scaling, build_belief, fit_scalings
from aegis.problem import Actions, Level, Problem, Reward, Variable, concat
from aegis.rng import stream

STRUCTURES = [ModelSettings(), ModelSettings(features="polynomial"), ModelSettings("joint"), ModelSettings("cells", temper=0.5)]
IDS = ["factorised", "polynomial", "joint", "cells"]


def same(one, other, **tolerance):
    first, second = one.arrays(), other.arrays()
    assert set(first) == set(second)
    for name, values in first.items():
        np.testing.assert_allclose(second[name], values, **(tolerance or {"rtol": 0, "atol": 0}), err_msg=name)


def test_what_each_structure_models():
    problem = cases.mixed_problem()
    factorised = build_belief(problem).mechanisms
    assert list(factorised) == ["heat", "load", "grade", "purity", "reward"]
    assert all(factorised[name].parents == problem.graph.parents[name] for name in factorised)
    joint = build_belief(problem, ModelSettings("joint")).mechanisms
    assert list(joint) == ["heat", "load", "grade", "reward"]
    assert set(joint["reward"].parents) == {"task", "setting", "heat", "load", "grade", "amount"}
    assert joint["load"].parents == ("heat",)
    cells = build_belief(problem, ModelSettings("cells")).mechanisms
    assert list(cells) == ["reward"]
    assert isinstance(cells["reward"], Cells)
    assert cells["reward"].parents == ("setting", "amount")
    assert cells["reward"].size == 9


def test_a_scope_needs_only_the_mechanisms_below_its_outermost_level():
    problem = cases.mixed_problem()
    assert list(build_belief(problem, scope=["dose"]).mechanisms) == ["purity", "reward"]
    assert list(build_belief(problem, scope=["recipe"]).mechanisms) == list(build_belief(problem).mechanisms)
    assert list(build_belief(problem, ModelSettings("joint"), ["dose"]).mechanisms) == ["reward"]


@pytest.mark.parametrize("chosen", STRUCTURES, ids=IDS)
def test_the_order_and_grouping_of_batches_do_not_matter(chosen):
    problem = cases.mixed_problem()
    batches = [cases.random_batch(problem, stream(seed, "order"), 6) for seed in range(3)]
    prior = build_belief(problem, chosen)
    forwards, backwards = prior, prior
    for batch in batches:
        forwards = forwards.update(batch)
    for batch in reversed(batches):
        backwards = backwards.update(batch)
    same(forwards, backwards, rtol=1e-9, atol=1e-9)
    same(forwards, prior.update(concat(batches)), rtol=1e-9, atol=1e-9)
    same(prior, build_belief(problem, chosen))  # updating changes nothing in place


@pytest.mark.parametrize("chosen", STRUCTURES, ids=IDS)
def test_saved_and_restored_exactly(chosen):
    problem = cases.mixed_problem()
    batch, later = (cases.random_batch(problem, stream(seed, "saved")) for seed in (1, 2))
    prior = build_belief(problem, chosen)
    belief = prior.update(batch)
    file = io.BytesIO()
    np.savez(file, **belief.arrays())
    file.seek(0)
    with np.load(file) as saved:
        again = prior.with_arrays({name: saved[name] for name in saved.files})
    same(belief, again)
    same(belief.update(later), again.update(later))
    one, other = (b.draw(stream(3, "again"), 2).functions["reward"] for b in (belief, again))
    np.testing.assert_array_equal(one.sd, other.sd)
    assert again.kl() == belief.kl()


def test_a_saved_belief_that_does_not_fit_is_refused():
    problem = cases.mixed_problem()
    arrays = build_belief(problem).arrays()
    without = {name: values for name, values in arrays.items() if not name.startswith("load/")}
    with pytest.raises(SettingError, match="does not fit mechanism 'load'"):
        build_belief(problem).with_arrays(without)
    with pytest.raises(SettingError, match="does not fit mechanism 'heat'"):
        build_belief(problem, ModelSettings(features="polynomial")).with_arrays(arrays)


@pytest.mark.parametrize("chosen", STRUCTURES, ids=IDS)
def test_kl_by_scope_adds_up_the_mechanisms_of_the_scope(chosen):
    problem = cases.mixed_problem()
    prior = build_belief(problem, chosen)
    belief = prior.update(cases.random_batch(problem, stream(4, "kl")))
    pieces = belief.kl_by_mechanism()
    assert set(pieces) == set(belief.mechanisms)
    assert all(value > 0 for value in pieces.values())
    inner = [name for name in ("purity", "reward") if name in pieces]
    assert belief.kl(["dose"]) == pytest.approx(sum(pieces[name] for name in inner))
    assert belief.kl(["recipe"]) == belief.kl() == pytest.approx(sum(pieces.values()))
    assert belief.kl([]) == 0.0
    assert prior.kl() == pytest.approx(0.0, abs=1e-10)


def test_the_shape_of_the_state_does_not_grow():
    problem = cases.mixed_problem()
    belief = build_belief(problem, ModelSettings(features="polynomial"))
    shapes = {name: values.shape for name, values in belief.arrays().items()}
    for seed in range(10):
        belief = belief.update(cases.random_batch(problem, stream(seed, "memory"), 5))
    assert {name: values.shape for name, values in belief.arrays().items()} == shapes


def test_draws_of_different_mechanisms_are_independent():
    problem = cases.mixed_problem()
    belief = build_belief(problem).update(cases.random_batch(problem, stream(5, "independent")))
    theta = belief.draw(stream(6, "independent"), 5000)
    columns = [function.drawn.weights[:, 0, 0] for function in theta.functions.values()]
    columns += [np.log(function.sd[:, 0]) for function in theta.functions.values()]
    apart = np.corrcoef(columns) - np.eye(len(columns))
    assert np.abs(apart).max() < 4.5 / np.sqrt(5000)
    assert theta.count == 5000
    np.testing.assert_array_equal(theta.weights, np.full(5000, 1 / 5000))


def test_the_law_of_a_mechanism_does_not_depend_on_which_others_are_modelled():
    """The state of purity and reward is the same whether or not contexts are modelled, and so is the law of their draws."""
    problem = cases.mixed_problem()
    batch = cases.random_batch(problem, stream(7, "law"))
    few, all_of_them = (build_belief(problem, scope=scope).update(batch) for scope in (["dose"], None))
    for name in ("purity", "reward"):
        one, other = asdict(few.states[name]), asdict(all_of_them.states[name])
        for key, values in one.items():
            np.testing.assert_array_equal(other[key], values)
    draws = [belief.draw(stream(8, "law"), 4000).functions["reward"].drawn.weights[:, 1, 0] for belief in (few, all_of_them)]
    spread = np.sqrt(sum(part.var() for part in draws) / 4000)
    assert abs(draws[0].mean() - draws[1].mean()) < 4 * spread


def test_point_and_predict_answer_in_the_target_s_units():
    problem = cases.mixed_problem()
    batch = cases.random_batch(problem, stream(9, "units"), 60)
    belief = build_belief(problem, scalings=fit_scalings(problem, [batch])).update(batch)
    rows = {
        "purity": batch.outcome,
        "load": batch.levels["dose"].context["load"],
        "amount": np.array([2.0, -1.0, 0.5])[batch.levels["dose"].action],
        "setting": batch.levels["recipe"].action[batch.levels["dose"].parent],
    }
    count = len(batch.reward)
    mean, of_mean, of_value = belief.predict("reward", rows, count)
    assert mean.shape == of_mean.shape == of_value.shape == (count, 1)
    assert mean.mean() == pytest.approx(batch.reward.mean(), abs=0.2)
    assert np.sqrt(of_value).mean() == pytest.approx(3.0, abs=0.5)
    assert (of_value > of_mean).all()
    point = belief.point().functions["reward"].mean({name: values[None] for name, values in rows.items()}, count)
    np.testing.assert_allclose(point[0], mean, rtol=1e-9)
    with pytest.raises(SettingError, match="unknown mechanism 'rewards'"):
        belief.predict("rewards", rows, count)


def test_missing_outcomes_and_rewards_do_not_poison_the_belief():
    """A reward with an unknown outcome says nothing about f_R; an outcome without a reward still teaches f_Y."""
    for outcome in (Variable("purity"), Variable("purity", "categorical", values=("bad", "good"))):
        problem = cases.mixed_problem(outcome)
        batch = cases.random_batch(problem, stream(10, "missing"))
        count = len(batch.reward)
        gone, unseen = np.arange(count) % 5 == 0, np.arange(count) % 3 == 0
        values = np.where(gone, -1 if outcome.kind == "categorical" else np.nan, batch.outcome)
        belief = build_belief(problem).update(replace(batch, outcome=values, observed=~unseen))
        assert belief.states["purity"].shape == 2.0 + 0.5 * (~gone).sum()
        assert belief.states["reward"].shape == 2.0 + 0.5 * (~gone & ~unseen).sum()
        assert np.isfinite(belief.kl())


def test_a_log_without_the_outcome_serves_only_a_model_without_it():
    problem = cases.mixed_problem()
    batch = replace(cases.random_batch(problem, stream(11, "without")), outcome=None)
    with pytest.raises(SettingError, match="no values of 'purity'"):
        build_belief(problem).update(batch)
    assert build_belief(problem, ModelSettings("joint")).update(batch).kl() > 0


def test_a_context_that_is_not_finite_is_refused():
    problem = cases.mixed_problem()
    batch = cases.random_batch(problem, stream(12, "infinite"))
    batch.levels["recipe"].context["task"][0] = np.inf
    with pytest.raises(ModelError, match="not finite"):
        build_belief(problem).update(batch)


def test_no_outcome_and_no_context_at_all():
    problem = Problem((Level("l", Actions.of("a", ("x", "y"))),), Reward("r"))
    belief = build_belief(problem)
    assert list(belief.mechanisms) == ["r"]
    batch = cases.random_batch(problem, stream(13, "bare"))
    mean = belief.update(batch).point().functions["r"].mean({"a": np.array([[0, 1]])}, 2)[0, :, 0]
    taken = batch.levels["l"].action
    np.testing.assert_allclose(mean, [batch.reward[taken == a].mean() for a in (0, 1)], atol=0.3)


def test_settings_are_checked():
    with pytest.raises(SettingError, match=r"unknown structure 'factorized'.*did you mean 'factorised'"):
        ModelSettings("factorized")
    with pytest.raises(SettingError, match="unknown feature map 'linaer'"):
        ModelSettings(features="linaer")
    problem = cases.mixed_problem()
    with pytest.raises(SettingError, match="unknown variable to scale 'hat'"):
        build_belief(problem, scalings={"hat": Scaling.identity(1)})
    for name in ("precision", "shape", "rate", "temper"):
        for value in (0.0, -1.0, np.nan, np.inf):
            with pytest.raises(SettingError, match=f"the {name} of a model is a finite number above 0"):
                ModelSettings(**{name: value})


def test_settings_reach_the_mechanisms():
    problem = cases.mixed_problem()
    chosen = ModelSettings(features="polynomial", precision=0.3, shape=4.0, rate=5.0, temper=0.6)
    mechanism = build_belief(problem, chosen, scalings=fit_scalings(problem, [])).mechanisms["grade"]
    assert isinstance(mechanism, Regression)
    assert (mechanism.precision, mechanism.shape, mechanism.rate, mechanism.temper) == (0.3, 4.0, 5.0, 0.6)
    assert mechanism.features.size == 6  # 1, task, heat and their products
    assert mechanism.target.kind == "categorical"
    np.testing.assert_array_equal(mechanism.scaling.scale, np.ones(3))


@pytest.mark.parametrize("per", ["episode", "slow"])
def test_a_reward_of_several_decisions_is_not_counted_once_per_row(per: str) -> None:
    levels = (Level("slow", Actions.of("a", (0.0, 1.0))), Level("fast", Actions.of("b", (0.0, 1.0))))
    with pytest.raises(SettingError, match=f"the reward is per {per}"):
        build_belief(Problem(levels, Reward("r", per=per)))
    assert build_belief(Problem(levels, Reward("r", per="fast"))).mechanisms
