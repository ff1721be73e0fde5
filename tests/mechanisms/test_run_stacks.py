"""Mechanisms of several runs side by side give each run its own numbers, bit for bit, whatever the others hold."""

from __future__ import annotations

from dataclasses import replace

import mechanism_cases as cases
import numpy as np
import pytest

from aegis.errors import ModelError
from aegis.mechanisms import Belief, ModelSettings, StackedBelief, build_belief, fit_scalings, has_equal_counts
from aegis.problem import Batch, Variable, concat
from aegis.rng import stream

MODELS = {
    "linear": ModelSettings(),
    "polynomial": ModelSettings(features="polynomial", temper=0.7),
    "fourier": ModelSettings(features="fourier", count=16, linear_terms=False),
    "fourier with linear terms": ModelSettings(features="fourier", count=16, temper=0.5),
}
OUTCOMES = {
    "real": Variable("purity"),
    "vector": Variable("purity", "vector", ("p1", "p2")),
    "categorical": Variable("purity", "categorical", values=("bad", "good")),
}


def episodes_alike(problem, seed):
    """One episode of two outer and four inner decisions."""
    rng = stream(seed, "stacked")
    whole = cases.random_batch(problem, rng, 60)
    sizes = [np.bincount(whole.episode_of(name), minlength=len(whole)) for name in ("recipe", "dose")]
    return whole.take_episodes(np.flatnonzero((sizes[0] == 2) & (sizes[1] == 4))[:1])


def priors(problem, settings, runs=3):
    """Beliefs with scalings and features of their own."""
    found = []
    for seed in range(runs):
        scalings = fit_scalings(problem, [cases.random_batch(problem, stream(seed, "prior"), 5)])
        found.append(build_belief(problem, settings, None, scalings, seed))
    return found


def same(found: Belief, wanted: Belief) -> None:
    for name, values in wanted.arrays().items():
        np.testing.assert_array_equal(found.arrays()[name], values, err_msg=name)


def both(problem, settings, batches):
    beliefs = priors(problem, settings, len(batches))
    stack = StackedBelief.of(beliefs).update(concat(batches))
    return stack, [belief.update(batch) for belief, batch in zip(beliefs, batches, strict=True)]


@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("model", MODELS)
def test_updates_are_those_of_each_run_alone(model: str, outcome: str) -> None:
    problem = cases.mixed_problem(OUTCOMES[outcome])
    stack, alone = both(problem, MODELS[model], [episodes_alike(problem, seed) for seed in range(3)])
    for found, wanted in zip(stack.beliefs(), alone, strict=True):
        same(found, wanted)


@pytest.mark.parametrize("outcome", OUTCOMES)
def test_moments_of_all_runs_are_those_of_each_alone(outcome: str) -> None:
    problem = cases.mixed_problem(OUTCOMES[outcome])
    stack, alone = both(problem, MODELS["fourier"], [episodes_alike(problem, seed) for seed in range(3)])
    for seed, (found, wanted) in enumerate(zip(stack.solved(), alone, strict=True)):
        same(found, wanted)
        for name, state in wanted.states.items():
            at, expected = found.states[name].moments(), state.moments()
            assert at.shape == expected.shape
            for part in ("factor", "mean", "rate"):
                np.testing.assert_array_equal(getattr(at, part), getattr(expected, part), err_msg=f"{name}, {part}")
        drawn, own = (belief.draw(stream(seed, "solved"), 2).functions for belief in (found, wanted))
        for name in own:
            np.testing.assert_array_equal(drawn[name].drawn.weights, own[name].drawn.weights, err_msg=name)
            np.testing.assert_array_equal(drawn[name].drawn.sd, own[name].drawn.sd, err_msg=name)


def test_missing_values_and_unequal_episodes_are_left_out_run_by_run() -> None:
    problem = cases.mixed_problem()
    batches = [episodes_alike(problem, seed) for seed in range(3)]
    reward = batches[1].reward.copy()
    reward[2] = np.nan
    heat = batches[2].levels["dose"].context["heat"].copy()
    heat[0] = np.nan
    dose = batches[2].levels["dose"]
    holes = [
        batches[0],
        replace(batches[1], reward=reward),
        batches[2].with_level("dose", replace(dose, context={**dose.context, "heat": heat})),
    ]
    ragged = [cases.random_batch(problem, stream(seed, "ragged"), 4).take_episodes([seed]) for seed in range(3)]
    assert not has_equal_counts(concat(ragged), "dose")
    for chosen in (holes, ragged):
        stack, alone = both(problem, MODELS["fourier"], chosen)
        for found, wanted in zip(stack.beliefs(), alone, strict=True):
            same(found, wanted)


def test_as_many_rows_in_all_but_not_in_each_episode_is_noticed() -> None:
    problem = cases.mixed_problem()
    whole = cases.random_batch(problem, stream(3, "sizes"), 60)
    sizes = np.bincount(whole.episode_of("dose"), minlength=len(whole))
    few, many = np.flatnonzero(sizes == 3)[0], np.flatnonzero(sizes == 5)[0]
    uneven: Batch = whole.take_episodes([few, many])
    assert not has_equal_counts(uneven, "dose")
    assert has_equal_counts(whole.take_episodes([few, few]), "dose")
    stack, alone = both(problem, MODELS["linear"], [whole.take_episodes([few]), whole.take_episodes([many])])
    for found, wanted in zip(stack.beliefs(), alone, strict=True):
        same(found, wanted)


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("outcome", OUTCOMES)
@pytest.mark.parametrize("model", MODELS)
def test_draws_are_evaluated_as_each_run_would(model: str, outcome: str, times: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = cases.mixed_problem(OUTCOMES[outcome])
    monkeypatch.setattr("aegis.mechanisms.run_stacks.ANGLES", 2 * 5 * 16)  # two of the three runs at once
    stack, alone = both(problem, MODELS[model], [episodes_alike(problem, seed) for seed in range(3)])
    drawn = [belief.draw(stream(seed, "draws"), times) for seed, belief in enumerate(alone)]
    rng = stream(9, "rows")
    own = [{name: cases.random_values(v, rng, 5) for name, v in problem.variables.items()} for _ in range(3)]
    joined = {name: np.repeat(np.stack([rows[name] for rows in own]), times, axis=0) for name in own[0]}
    noise = np.repeat(np.array([0.3, 0.5, 0.7]), times)[:, None]
    for name, spec in stack.stacks.items():
        together = spec.draws([theta.functions[name] for theta in drawn])
        noisy = {"task": noise, "heat": 2 * noise}
        pairs = [(together, together.sd), (together.part(1, 3), together.part(1, 3).sd)]
        for first, (function, sd) in enumerate(pairs):
            rows = {key: values[first * times :] for key, values in joined.items()}
            here = {key: values[first * times :] for key, values in noisy.items()}
            means = function.mean(rows, 5), function.mean(rows, 5, here)
            grid = None
            if "amount" in function.parents:
                grid = function.mean_each(rows, 5, "amount", problem.innermost.actions.numbers)
            for run in range(first, 3):
                part = slice((run - first) * times, (run - first + 1) * times)
                single = drawn[run].functions[name]
                shared = {key: values[None] for key, values in own[run].items()}
                mine = {key: values[run * times : (run + 1) * times] for key, values in noisy.items()}
                np.testing.assert_array_equal(sd[part], single.sd)
                np.testing.assert_array_equal(means[0][part], single.mean(shared, 5))
                np.testing.assert_array_equal(means[1][part], single.mean(shared, 5, mine))
                if grid is not None:
                    wanted = single.mean_each(shared, 5, "amount", problem.innermost.actions.numbers)
                    np.testing.assert_array_equal(grid[part], wanted)


def test_long_tables_are_made_for_each_run_on_its_own() -> None:
    """A function of one input is tabulated between the least and the largest point: those of its own run."""
    problem = cases.mixed_problem()
    stack, alone = both(problem, MODELS["fourier"], [episodes_alike(problem, seed) for seed in range(2)])
    drawn = [belief.draw(stream(seed, "long"), 1) for seed, belief in enumerate(alone)]
    points = np.stack([np.linspace(-1, 1, 2000), np.linspace(-30, 60, 2000)])
    found = stack.stacks["load"].draws([theta.functions["load"] for theta in drawn]).mean({"heat": points}, 2000)
    for run in range(2):
        np.testing.assert_array_equal(found[run], drawn[run].functions["load"].mean({"heat": points[run : run + 1]}, 2000)[0])


def test_a_state_outlives_one_update() -> None:
    problem = cases.mixed_problem()
    batches = [episodes_alike(problem, seed) for seed in range(2)]
    before, alone = both(problem, MODELS["fourier"], batches)
    after = before.update(concat(batches))
    for found, wanted in zip(before.beliefs(), alone, strict=True):
        same(found, wanted)
    for found, wanted, batch in zip(after.beliefs(), alone, batches, strict=True):
        same(found, wanted.update(batch))


def test_what_is_not_finite_is_refused_and_tables_are_not_stacked() -> None:
    problem = cases.mixed_problem()
    batches = [episodes_alike(problem, seed) for seed in range(2)]
    huge = replace(batches[1], reward=np.full_like(batches[1].reward, 1e200))
    with pytest.raises(ModelError, match="cannot be updated"):
        both(problem, MODELS["linear"], [batches[0], huge])
    assert StackedBelief.of([build_belief(problem, ModelSettings("cells"))] * 2) is None
