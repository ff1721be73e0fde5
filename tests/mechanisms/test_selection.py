"""Choosing models by evidence: the one that generated the data wins, and the belief is made of the winners."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aegis.errors import SettingError
from aegis.mechanisms import MODELS, LevelRewards, ModelSettings, build_belief, fit_scalings, select_models
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Variable

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
