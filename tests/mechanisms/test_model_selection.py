"""Marginal likelihood: the evidence against the product of predictive densities, and what tuning chooses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from aegis.errors import SettingError
from aegis.mechanisms import (
    MODELS,
    NIG,
    Fourier,
    LevelRewards,
    ModelSettings,
    Tuned,
    build_belief,
    fit_scalings,
    select_models,
    tune,
    tune_rewards,
)
from aegis.mechanisms.model_selection import LENGTHSCALES, PRECISIONS, SWITCHED_OFF, GridPoint, LogEvidence, best_length_scales
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Variable
from aegis.rng import stream


def test_evidence_is_the_product_of_the_predictive_densities() -> None:
    rng = stream(1, "evidence")
    features, targets = rng.standard_normal((9, 3)), rng.standard_normal((9, 2))
    prior = NIG.prior(3, 2, 0.3, 2.0, 0.7)
    state, total = prior, 0.0
    for x, y in zip(features, targets, strict=True):
        mean, _, _ = state.predict(x[None])
        at = state.moments()
        leverage = float(np.sum(np.linalg.solve(at.factor, x) ** 2))
        scale = np.sqrt(at.rate / at.shape * (1 + leverage))
        total += stats.t.logpdf(y, 2 * at.shape, mean[0], scale).sum()
        state = state.update(x[None], y[None])
    assert state.log_evidence(prior) == pytest.approx(total)


def wiggly_batch(seed: int, rows: int = 400) -> tuple[Problem, Batch]:
    """A reward that wiggles fast in c, slowly in d, and does not depend on the action."""
    problem = Problem((Level("l", Actions.of("a", (0.0, 1.0)), (Variable("c"), Variable("d"))),), Reward("r"))
    rng = stream(seed, "wiggly")
    context = {"c": rng.standard_normal(rows), "d": rng.standard_normal(rows)}
    table = LevelTable.undecided(np.arange(rows), context).decided(rng.integers(0, 2, rows), np.full(rows, 0.5))
    reward = np.sin(4 * context["c"]) + 0.5 * context["d"] + 0.1 * rng.standard_normal(rows)
    return problem, Batch(np.arange(rows), {"l": table}, reward, np.ones(rows, dtype=bool))


def test_tuning_finds_the_input_that_matters_most_and_improves_the_evidence() -> None:
    problem, batch = wiggly_batch(1)
    settings = ModelSettings(features="fourier")
    tuned = tune(problem, batch, settings)
    scales = tuned.tuned["r"].lengthscale
    assert scales["c"] < scales["d"]
    assert scales["c"] < scales["a"]
    _, fresh = wiggly_batch(2)
    evidence = []
    for chosen in (settings, tuned):
        belief = build_belief(problem, chosen).update(fresh)
        evidence.append(belief.states["r"].log_evidence(belief.prior["r"]))
    assert evidence[1] > evidence[0] + 50


def nuisance_batch(seed: int, rows: int = 700) -> tuple[Problem, Batch]:
    """A reward that depends on one number and the action through their difference, and not on six others."""
    x, z = Variable("x", "vector", columns=tuple(f"x{place}" for place in range(6))), Variable("z")
    problem = Problem((Level("l", Actions.grid("a", -1.5, 1.5, 7), (x, z)),), Reward("r"))
    rng = stream(seed, "nuisance")
    context = {"x": rng.standard_normal((rows, 6)), "z": rng.standard_normal(rows)}
    action = rng.integers(0, 7, rows)
    table = LevelTable.undecided(np.arange(rows), context).decided(action, np.full(rows, 1 / 7))
    reward = np.cos(2.2 * context["z"] - 2 * problem.innermost.actions.numbers[action]) + 0.3 * rng.standard_normal(rows)
    return problem, Batch(np.arange(rows), {"l": table}, reward, np.ones(rows, dtype=bool))


def evidence_of(problem: Problem, batch: Batch, settings: ModelSettings) -> float:
    belief = build_belief(problem, settings, None, fit_scalings(problem, [batch])).update(batch)
    return belief.states["r"].log_evidence(belief.prior["r"])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_inputs_that_do_not_matter_are_switched_off_and_nothing_by_hand_is_better(seed: int) -> None:
    problem, batch = nuisance_batch(seed)
    settings = ModelSettings(features="fourier")
    tuned = tune(problem, batch, settings, None, fit_scalings(problem, [batch]))
    found = tuned.tuned["r"]
    assert not found.linear
    assert isinstance(found.lengthscale["x"], tuple) and min(found.lengthscale["x"]) >= 10  # one for each coordinate
    assert max(found.lengthscale["z"], found.lengthscale["a"]) <= 2
    best = evidence_of(problem, batch, tuned)
    for scale in (0.5, 0.7, 1.0, 1.4):
        for precision in (0.1, 0.3, 1.0):
            hand = Tuned({"x": 64.0, "z": scale, "a": scale}, precision)
            assert best > evidence_of(problem, batch, replace(settings, tuned={"r": hand})) - 5
    assert best > evidence_of(problem, batch, settings) + 300


def test_inputs_that_matter_only_together_are_found() -> None:
    rng = stream(7, "together")
    problem = Problem((Level("l", Actions.of("a", (-1.0, 1.0)), (Variable("z"),)),), Reward("r"))
    z, action = rng.standard_normal(400), rng.integers(0, 2, 400)
    table = LevelTable.undecided(np.arange(400), {"z": z}).decided(action, np.full(400, 0.5))
    reward = np.sin(2 * z) * (2 * action - 1) + 0.2 * rng.standard_normal(400)  # averaged over one input nothing is left
    batch = Batch(np.arange(400), {"l": table}, reward, np.ones(400, dtype=bool))
    found = tune(problem, batch, ModelSettings(features="fourier")).tuned["r"]
    assert not found.linear and max(found.lengthscale["z"], found.lengthscale["a"]) < SWITCHED_OFF


def test_two_inputs_of_eight_are_found_where_all_alike_see_nothing() -> None:
    rng = stream(4, "pair")  # a draw with which a start with all inputs alike ends elsewhere
    inputs = rng.standard_normal((600, 8))
    targets = np.sin(2.4 * inputs[:, 2] + 2.4 * inputs[:, 5] + 1)[:, None] + 0.3 * rng.standard_normal((600, 1))
    groups = [slice(place, place + 1) for place in range(8)]
    found = best_length_scales(Fourier.draw(8), groups, inputs, targets, 2.0, 1.0)
    assert not found.linear
    assert [place for place, scale in enumerate(found.scales) if scale < 5] == [2, 5]


def test_what_was_searched_for_owes_the_size_of_the_search() -> None:
    problem, batch = wiggly_batch(1)
    charge = tune(problem, batch, ModelSettings(features="fourier")).tuned["r"].charge
    assert charge == pytest.approx(3 * np.log(len(LENGTHSCALES)) + np.log(len(PRECISIONS)))


def test_tempering_plays_no_part_in_the_choice() -> None:
    problem, batch = wiggly_batch(1)
    plain, tempered = (tune(problem, batch, ModelSettings(features="fourier", temper=temper)) for temper in (1.0, 0.02))
    assert plain.tuned == tempered.tuned
    assert tempered.temper == 0.02


def test_the_search_counts_evidence_as_a_mechanism_does() -> None:
    problem, batch = wiggly_batch(4)
    settings = ModelSettings(features="fourier", feature_seed=0)
    belief = build_belief(problem, settings)
    regression = belief.mechanisms["r"]
    rows, values = belief.rows(batch)["r"]
    inputs = regression.encoder(rows, (len(values),))
    groups = [slice(place, place + 1) for place in range(3)]
    search = LogEvidence(regression.features, groups, inputs, values[:, None], settings.shape, settings.rate)
    for scales, precision in (((2, 5, 8), 1), ((2, 5, 8), 6), ((0, 10, 3), 4)):
        by_name = {name: LENGTHSCALES[place] for name, place in zip(regression.parents, scales, strict=True)}
        trial = replace(settings, tuned={"r": Tuned(by_name, PRECISIONS[precision])})
        updated = build_belief(problem, trial).update(batch)
        wanted = updated.states["r"].log_evidence(updated.prior["r"])
        assert search(GridPoint(scales, precision)) == pytest.approx(wanted, abs=0.05)  # its trigonometry is 32-bit


@pytest.mark.parametrize("seed", [5, 6])
def test_a_linear_truth_is_called_linear_and_a_category_has_one_length_scale(seed: int) -> None:
    rng = stream(seed, "linear")
    ward = Variable("ward", "categorical", values=("n", "s", "w"))
    problem = Problem((Level("l", Actions.grid("a", -1, 1, 5), (Variable("c"), ward)),), Reward("r"), parents={"r": ("c", "a")})
    context = {"c": rng.standard_normal(400), "ward": rng.integers(0, 3, 400)}
    action = rng.integers(0, 5, 400)
    table = LevelTable.undecided(np.arange(400), context).decided(action, np.full(400, 0.2))
    reward = context["c"] - problem.innermost.actions.numbers[action] + 0.3 * rng.standard_normal(400)
    batch = Batch(np.arange(400), {"l": table}, reward, np.ones(400, dtype=bool))
    assert tune(problem, batch, ModelSettings(features="fourier")).tuned["r"].linear
    assert not tune(problem, batch, ModelSettings(features="fourier", linear_terms=False)).tuned["r"].linear
    every = replace(problem, parents={})
    crossed = replace(batch, reward=np.sin(2 * context["c"] * (context["ward"] == 1)) + 0.1 * rng.standard_normal(400))
    found = tune(every, crossed, ModelSettings(features="fourier")).tuned["r"]
    assert not found.linear and isinstance(found.lengthscale["ward"], float) and found.lengthscale["ward"] < SWITCHED_OFF


def test_rows_in_which_something_is_missing_do_not_count() -> None:
    problem, batch = wiggly_batch(1)
    holes = np.where(np.arange(400) % 4 == 0, np.nan, batch.levels["l"].context["c"])
    table = replace(batch.levels["l"], context={**batch.levels["l"].context, "c": holes})
    found = tune(problem, replace(batch, levels={"l": table}), ModelSettings(features="fourier")).tuned["r"]
    kept = tune(problem, batch.take_episodes(np.arange(400) % 4 != 0), ModelSettings(features="fourier")).tuned["r"]
    assert found == kept


def test_reward_models_are_tuned_level_by_level() -> None:
    problem, batch = nuisance_batch(4)
    scalings = fit_scalings(problem, [batch])
    settings = ModelSettings(features="fourier", feature_seed=0)
    models, found = tune_rewards(problem, batch, settings, scalings)
    plain = LevelRewards.prior(problem, settings, scalings).update(batch)
    assert list(found) == ["l"] and max(found["l"].lengthscale["z"], found["l"].lengthscale["a"]) <= 2
    assert models.update(batch).evidence("l") > plain.evidence("l") + 300
    linear, nothing = tune_rewards(problem, batch, ModelSettings(), scalings)
    assert nothing == {} and linear.regressions["l"].features.affine


def test_many_inputs_share_one_length_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aegis.mechanisms.model_selection.MOST_GROUPS", 2)
    problem, batch = wiggly_batch(1)
    scales = tune(problem, batch, ModelSettings(features="fourier")).tuned["r"].lengthscale
    assert len(set(scales.values())) == 1 and set(scales) == {"c", "d", "a"}


def test_tuning_does_nothing_to_other_features() -> None:
    settings = ModelSettings(features="linear")
    assert tune(*wiggly_batch(3), settings) is settings


PROBLEM = Problem(
    (
        Level("outer", Actions.grid("m", -2, 2, 5), (Variable("t"),)),
        Level("inner", Actions.grid("a", -2, 2, 5), (Variable("c"),)),
    ),
    Reward("r"),
    parents={"c": ("m",), "r": ("c", "a")},
)


def data(context, reward, episodes: int = 400) -> Batch:
    rng = np.random.default_rng(3)
    m, a = rng.integers(0, 5, episodes), rng.integers(0, 5, episodes)
    grid = PROBLEM.level("outer").actions.numbers
    c = context(grid[m]) + 0.3 * rng.normal(size=episodes)
    rows = np.arange(episodes)
    outer = LevelTable.undecided(rows, {"t": rng.normal(size=episodes)}).decided(m, np.full(episodes, 0.2))
    inner = LevelTable.undecided(rows, {"c": c}).decided(a, np.full(episodes, 0.2))
    return Batch(rows, {"outer": outer, "inner": inner}, reward(c, grid[a]) + 0.2 * rng.normal(size=episodes))


def chosen(batch: Batch) -> dict[str, str]:
    scalings = fit_scalings(PROBLEM, [batch])
    beliefs = [build_belief(PROBLEM, model, None, scalings).update(batch) for model in MODELS.values()]
    belief, found = select_models(beliefs)
    for name, index in found.items():
        assert belief.mechanisms[name] is beliefs[index].mechanisms[name]
        assert belief.states[name] is beliefs[index].states[name]
        assert belief.prior[name] is beliefs[index].prior[name]
    return {name: list(MODELS)[index] for name, index in found.items()}


def test_each_mechanism_gets_the_model_that_generated_it() -> None:
    assert chosen(data(lambda m: 1.5 * m, lambda c, a: 2 * c - a)) == {"c": "linear", "r": "linear"}
    assert chosen(data(lambda m: m**2, lambda c, a: 2 * c - a)) == {"c": "polynomial", "r": "linear"}
    assert chosen(data(lambda m: 1.5 * m, lambda c, a: c * a))["r"] == "polynomial"
    assert "fourier" in chosen(data(lambda m: 1.5 * m, lambda c, a: 3 * np.cos(2 * c) * np.sin(a)))["r"]


def test_what_a_model_owes_is_taken_off_its_evidence() -> None:
    batch = data(lambda m: 1.5 * m, lambda c, a: c * a)
    beliefs = [build_belief(PROBLEM, MODELS[name]).update(batch) for name in ("linear", "polynomial")]
    evidence = [belief.states["r"].log_evidence(belief.prior["r"]) for belief in beliefs]
    lead = evidence[1] - evidence[0]
    assert select_models(beliefs, [{}, {"r": lead - 1}])[1]["r"] == 1
    assert select_models(beliefs, [{}, {"r": lead + 1}])[1]["r"] == 0
    assert select_models(beliefs, [{}, {"c": lead + 1}])[1]["r"] == 1
    rewards = [LevelRewards.prior(PROBLEM, MODELS[name]).update(batch) for name in ("linear", "polynomial")]
    lead = rewards[1].evidence("inner") - rewards[0].evidence("inner")
    assert [LevelRewards.likeliest(rewards, [{}, {"inner": lead + more}])[1]["inner"] for more in (-1, 1)] == [1, 0]


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(SettingError, match="at least one"):
        select_models([])
    table = build_belief(PROBLEM, ModelSettings(structure="cells"))
    with pytest.raises(SettingError, match="not a regression"):
        select_models([table, table])


def test_a_mechanism_that_a_belief_lacks_is_taken_from_another() -> None:
    batch = data(lambda m: m, lambda c, a: c * a)
    linear, crossed = (build_belief(PROBLEM, MODELS[name]).update(batch) for name in ("linear", "polynomial"))
    only = replace(crossed, mechanisms={"c": crossed.mechanisms["c"]})
    assert select_models([linear, only])[1]["r"] == 0
