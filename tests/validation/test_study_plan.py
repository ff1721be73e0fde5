"""The planner in one call: what it reads, what it refuses, and its assumptions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import aegis
from aegis.errors import InputError, LogError, ProblemError, RefusedError, SettingError
from aegis.logs import Source, Split, to_table
from aegis.policies import Logged
from aegis.problem import Batch, Guard
from aegis.validation import Plan, plan
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=4)


PROBLEM = WORLD.problem


def log(legacy: str, episodes: int = 80, seed: int = 5) -> Batch:
    return WORLD.episodes(0, episodes, WORLD.legacy(legacy), seed)


def episodes(found: Plan, level: str = "inner") -> list[int]:
    return [row.episodes or 10**9 for row in found.level(level).rows]


def test_the_public_name_is_the_planner() -> None:
    assert aegis.plan is plan


def test_guards_share_the_risk_unless_told_otherwise() -> None:
    guarded = replace(PROBLEM, guards=(Guard("scrap", (0.0, 1.0), 0.1),))
    assert plan(guarded, gain=1.0, explore=[1.0], caps=[2.0], levels=["inner"]).delta == pytest.approx(0.025)


def test_the_same_plan_for_rewards_and_for_costs() -> None:
    """Rewards turned around, small being good, are the same study."""
    batch = log("sign:epsilon=0.3")
    reward = replace(PROBLEM.reward, goal="minimise")
    assert batch.reward is not None
    mirrored = plan(replace(PROBLEM, reward=reward), replace(batch, reward=-batch.reward), explore=[0.5], caps=[2.0])
    straight = plan(PROBLEM, batch, explore=[0.5], caps=[2.0])
    assert episodes(mirrored) == pytest.approx(episodes(straight), rel=0.1)
    assert mirrored.level("inner").rows[1].cost == pytest.approx(straight.level("inner").rows[1].cost, abs=0.01)


def test_every_assumption_names_its_levels() -> None:
    """One level plans from its guess, the other from the pilot."""
    batch = log("sign:epsilon=0.3")
    inner = batch.levels["inner"]
    certain = replace(inner, mu_full=np.eye(inner.mu_full.shape[1])[inner.action], mu_taken=np.ones(len(inner)))  # type: ignore[union-attr]
    found = plan(PROBLEM, batch.with_level("inner", certain), gain=2.0, explore=[0.5], caps=[2.0])
    assert [level.source for level in found.levels] in (["pilot", "guess"], ["guess", "guess"])
    for sentence in found.assumed[2:]:
        assert sentence.startswith(("level 'inner'", "level 'meta'", "levels 'meta' and 'inner'"))
    both = plan(PROBLEM, gain=2.0, explore=[0.5], caps=[2.0])
    assert all(sentence.startswith("levels 'meta' and 'inner', from a guess") for sentence in both.assumed[2:])


def test_only_the_prior_side_of_a_split_is_read() -> None:
    batch = log("uniform", 100)
    split = Split("hash", "aegis", 0.5)
    side = split.on_side("prior", PROBLEM, batch)
    source = Source(to_table(batch, PROBLEM), PROBLEM)
    found = plan(PROBLEM, source, split=split, caps=[2.0], levels=["inner"])
    assert found.pilot_episodes == int(side.sum()) < 100
    assert batch.reward is not None
    # What is on the other side does not matter, whatever it is.
    inner = side[batch.episode_of("inner")]
    spoiled = replace(batch, reward=np.where(inner, batch.reward, -9.0))
    assert plan(PROBLEM, spoiled, split=split, caps=[2.0], levels=["inner"]).levels == found.levels
    assert plan(PROBLEM, spoiled, caps=[2.0], levels=["inner"]).levels != found.levels


def test_long_pilots_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aegis.validation.planner.study_plan.MOST_ROWS", 120)
    assert plan(PROBLEM, log("uniform", 100), caps=[2.0], levels=["inner"]).pilot_episodes == 30


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({}, SettingError, "pilot log"),
        ({"gain": 0}, SettingError, "above 0"),
        ({"gain": 30.0}, SettingError, "declared range"),
        ({"gain": 5.0, "loss": 6.0}, SettingError, "declared range"),
        ({"gain": 1.0, "levels": ["outer"]}, ProblemError, "there is no level 'outer'"),
        ({"gain": 1.0, "levels": []}, SettingError, "at least one level"),
        ({"gain": 1.0, "caps": [1.0]}, SettingError, "above 1"),
        ({"gain": 1.0, "explore": [0.0]}, SettingError, "above 0"),
        ({"gain": 1.0, "typical": 11.0}, SettingError, "within the declared range"),
        ({"gain": 1.0, "policy": Logged(PROBLEM)}, SettingError, "pilot log"),
    ],
)
def test_bad_input(given: dict[str, object], error: type[InputError], message: str) -> None:
    with pytest.raises(error, match=message):
        plan(PROBLEM, **given)  # type: ignore[arg-type]


def test_a_margin_has_to_be_exceeded() -> None:
    level = replace(PROBLEM.innermost, margin=1.5)
    problem = replace(PROBLEM, levels=(PROBLEM.outermost, level))
    with pytest.raises(SettingError, match="margin"):
        plan(problem, gain=1.0, levels=["inner"])
    hard = plan(problem, gain=4.0, explore=[1.0], caps=[2.0], levels=["inner"])
    easy = plan(PROBLEM, gain=4.0, explore=[1.0], caps=[2.0], levels=["inner"])
    assert episodes(hard)[0] > 1.5 * episodes(easy)[0]


def test_bad_pilots() -> None:
    with pytest.raises(LogError, match="19 episodes"):
        plan(PROBLEM, log("uniform", 19))
    with pytest.raises(LogError, match="0 episodes"):
        plan(PROBLEM, log("uniform", 5).take_episodes(np.zeros(5, dtype=bool)))
    unranged = replace(PROBLEM, reward=replace(PROBLEM.reward, range=None))
    with pytest.raises(RefusedError, match="no range"):
        plan(unranged, gain=1.0)
