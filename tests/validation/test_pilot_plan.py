"""The plan of a level from a pilot log, and its notes."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import aegis
from aegis.certificate import Candidate
from aegis.mechanisms import LevelRewards, fit_scalings
from aegis.policies import Capped, Function, Logged, with_incumbent
from aegis.problem import Batch, Problem, Propensity
from aegis.rng import stream
from aegis.validation import Plan, plan
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=4)


PROBLEM = WORLD.problem


def log(legacy: str, episodes: int = 80, seed: int = 5) -> Batch:
    return WORLD.episodes(0, episodes, WORLD.legacy(legacy), seed)


def episodes(found: Plan, level: str = "inner") -> list[int]:
    return [row.episodes or 10**9 for row in found.level(level).rows]


def test_a_plan_says_that_estimated_propensities_take_longer() -> None:
    def of(given: Propensity | None) -> Propensity | None:
        return None if given is None else replace(given, estimated=True, wrong_by=1.5)

    levels = tuple(
        replace(level, propensity=of(level.propensity)) if level.name == "inner" else level for level in PROBLEM.levels
    )
    found = plan(replace(PROBLEM, levels=levels), log("sign:epsilon=0.3"), explore=[0.5], caps=[2.0])
    assert any("are estimated" in note and "takes longer" in note for note in found.level("inner").notes)
    assert not any("are estimated" in note for note in found.level("meta").notes)


def test_a_pilot_gives_rows_as_logged_and_at_other_rates() -> None:
    problem = with_incumbent(PROBLEM, WORLD.legacy("sign:epsilon=0.3"))
    found = plan(problem, log("sign:epsilon=0.3"), explore=[0.3, 1.0], caps=[2.0, 3.0])
    inner = found.level("inner")
    assert inner.source == "pilot" and inner.cost_known and found.pilot_episodes == 80
    assert [row.explore for row in inner.rows] == [None, None, 0.3, 0.3, 1.0, 1.0]
    assert episodes(found)[0] == pytest.approx(episodes(found)[2], rel=0.05)  # 0.3 is what is logged
    assert inner.rows[0].cost is None
    assert inner.rows[0].gain == pytest.approx(inner.rows[2].gain, rel=0.01)  # both are over the legacy without its exploration
    logger = plan(PROBLEM, log("sign:epsilon=0.3"), explore=[0.3], caps=[2.0]).level("inner")
    assert logger.rows[0].gain > inner.rows[0].gain + 0.02  # without a stated incumbent: over the log, which explores
    assert "without exploration" in inner.comparator and "no incumbent is stated" in logger.comparator
    meta = found.level("meta")  # uniform: no other rate is known
    assert [row.explore for row in meta.rows] == [None, None]
    assert any("uniformly already" in note for note in meta.notes)
    assert plan(problem, log("sign:epsilon=0.3"), explore=[0.3, 1.0], caps=[2.0, 3.0]) == found  # the same seed


def test_the_cost_of_exploring_from_a_pilot() -> None:
    """A constant action of 1.6 against a mean of 0, two reward units for each: 3.2."""
    found = plan(PROBLEM, log("constant:value=1.6,epsilon=0.2"), explore=[0.5], caps=[1.5], levels=["inner"])
    assert found.level("inner").rows[1].cost == pytest.approx(0.5 * 3.2, rel=0.05)


def test_a_deterministic_level_is_told_apart() -> None:
    batch = log("deterministic")
    told = plan(PROBLEM, batch, levels=["inner"]).level("inner")
    assert told.deterministic and not told.rows
    assert "no gain can be certified" in told.notes[0] and "--gain" in told.notes[1]
    found = plan(PROBLEM, batch, gain=2.0, within=4000, levels=["inner"], explore=[0.1, 1.0], caps=[math.inf]).level("inner")
    assert found.deterministic and found.source == "guess"
    assert found.within is not None and found.within.explore is not None and found.within.likely is not None
    assert found.within.explore < 1.0 and found.within.likely <= 4000
    assert batch.reward is not None and found.within.cost is not None
    assert found.within.cost == pytest.approx(found.within.explore * (batch.reward.mean() + 10), rel=1e-6)
    assert found.within.total == pytest.approx(found.within.cost * found.within.likely)


def test_a_propensity_column_of_ones_is_deterministic_too() -> None:
    batch = log("sign:epsilon=0.3")
    inner = batch.levels["inner"]
    ones = replace(inner, mu_full=None, mu_taken=np.ones(len(inner)))
    assert plan(PROBLEM, batch.with_level("inner", ones), levels=["inner"]).level("inner").deterministic
    some = replace(inner, mu_full=None)
    told = plan(PROBLEM, batch.with_level("inner", some), levels=["inner"]).level("inner")
    assert not told.rows and "probability of the action taken only" in told.notes[0]


def test_what_a_plan_cannot_tell_it_says() -> None:
    carried = replace(PROBLEM, carry_over="within")
    told = plan(carried, log("uniform"), levels=["inner"]).level("inner")
    assert not told.rows and "carry_over" in told.notes[0]


def test_no_gain_no_number() -> None:
    batch = log("uniform")
    noise = np.random.default_rng(1).normal(size=len(batch.levels["inner"]))
    found = plan(PROBLEM, replace(batch, reward=noise), caps=[2.0], levels=["inner"]).level("inner")
    (note,) = [note for note in found.notes if "shows no gain yet" in note]
    assert f"what is counted on is {found.rows[0].gain:.3g}, as in the table" in note and "--gain" in note


def weak(episodes: int = 40, seed: int = 1) -> Batch:
    """A pilot that explores and whose rewards are noise."""
    batch = log("sign:epsilon=0.3", episodes)
    return replace(batch, reward=2 * stream(seed, "weak").normal(size=len(batch.levels["inner"])))


def test_a_pilot_without_a_gain_is_planned_from_the_one_that_was_given() -> None:
    given = {"explore": [0.5], "caps": [2.0], "levels": ["inner"]}
    batch = weak()
    found = plan(PROBLEM, batch, gain=2.0, **given)  # type: ignore[arg-type]
    (level,) = found.levels
    assert level.source == "guess" and not level.deterministic
    assert [row.explore for row in level.rows] == [0.5]
    assert batch.reward is not None
    typical, spread = float(batch.reward.mean()), float(batch.reward.std())
    alone = plan(PROBLEM, gain=2.0, typical=typical, spread=spread / 1.25, decisions=4, **given)  # type: ignore[arg-type]
    assert level.rows[0].gain == pytest.approx(alone.levels[0].rows[0].gain)
    assert episodes(found)[0] == pytest.approx(episodes(alone)[0], rel=0.1)
    assert "shows no gain yet at level 'inner'" in level.notes[0] and "best action earns 2 more" in level.notes[1]
    guessed = [sentence for sentence in found.assumed if "guess" in sentence or "log: " in sentence]
    assert len(guessed) == 2 and all(sentence.startswith("level 'inner', ") for sentence in guessed)
    assert "taken from the log" in guessed[1]
    assert plan(PROBLEM, batch, gain=4.0, **given).level("inner").rows[0].gain > 1.9 * level.rows[0].gain  # type: ignore[arg-type]


def test_a_gain_that_is_not_used_is_told() -> None:
    given = {"explore": [0.5], "caps": [2.0], "levels": ["inner"]}
    batch = log("sign:epsilon=0.3")
    told = plan(PROBLEM, batch, gain=0.5, **given).level("inner")  # type: ignore[arg-type]
    silent = plan(PROBLEM, batch, **given).level("inner")  # type: ignore[arg-type]
    assert told.source == "pilot" and told.rows == silent.rows
    (note,) = set(told.notes) - set(silent.notes)
    assert "gain of 0.5 that was given is not used at level 'inner'" in note
    assert f"gains {told.rows[0].gain:.3g} there, which is what counts" in note  # the table has the same
    own = plan(PROBLEM, weak(), gain=0.5, policy=Function(PROBLEM, _largest, ("inner",)), **given)  # type: ignore[arg-type]
    assert own.level("inner").source == "pilot" and "for the policy that was given" in own.level("inner").notes[0]
    inner = batch.levels["inner"]
    taken = batch.with_level("inner", replace(inner, mu_full=None))
    assert "not used at level 'inner'" in plan(PROBLEM, taken, gain=0.5, **given).level("inner").notes[1]  # type: ignore[arg-type]


def learned(problem: Problem, batch: Batch) -> LevelRewards:
    return LevelRewards.prior(problem, scalings=fit_scalings(problem, [batch])).update(batch)


def test_a_policy_of_ones_own() -> None:
    batch = log("sign:epsilon=0.3")
    rewards = learned(PROBLEM, log("uniform", seed=9))
    capped = Candidate(Capped(PROBLEM, rewards, Logged(PROBLEM), 2.0, ("inner",)), rewards=rewards)
    found = plan(PROBLEM, batch, policy=capped, explore=[1.0], caps=[2.0])
    assert [level.level for level in found.levels] == ["inner"]
    default = plan(PROBLEM, batch, explore=[1.0], caps=[2.0], levels=["inner"])
    assert episodes(found) == pytest.approx(episodes(default), rel=0.1)
    own = Function(PROBLEM, _largest, ("inner",))
    fixed = plan(PROBLEM, batch, policy=own, explore=[1.0], levels=["inner"])
    assert [row.cap for row in fixed.levels[0].rows] == [math.inf, math.inf]
    fixed = plan(PROBLEM, log("uniform"), policy=own, explore=[1.0], levels=["inner"])
    assert fixed.levels[0].rows[0].gain == pytest.approx(2.0, rel=0.1)


def _largest(level: aegis.Level, rows: dict[str, np.ndarray]) -> np.ndarray:
    """Half of the mass on the largest action: a gain of two over a uniform choice."""
    count = level.actions.count
    return np.tile(0.5 * np.eye(count)[-1] + 0.5 / count, (len(next(iter(rows.values()))), 1))
