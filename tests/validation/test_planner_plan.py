"""Whole plans: from a guess, from a pilot log, and where the legacy leaves nothing to chance."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

import aegis
from aegis.certificate import Candidate
from aegis.errors import InputError, LogError, ProblemError, RefusedError, SettingError
from aegis.logs import Source, Split, to_table
from aegis.mechanisms import LevelRewards, fit_scalings
from aegis.ope import reward_measure
from aegis.policies import Capped, Function, Logged, with_incumbent
from aegis.problem import Batch, Guard, Problem, Propensity
from aegis.rng import stream
from aegis.validation import Plan, PlanRow, plan
from aegis.validation.planner.pilot_level import cut_in_halves, fit_half, make_pilot_level
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=4)
PROBLEM = WORLD.problem


def log(legacy: str, episodes: int = 80, seed: int = 5) -> Batch:
    return WORLD.episodes(0, episodes, WORLD.legacy(legacy), seed)


def episodes(found: Plan, level: str = "inner") -> list[int]:
    return [row.episodes or 10**9 for row in found.level(level).rows]


def test_the_public_name_is_the_planner() -> None:
    assert aegis.plan is plan


def test_a_guess_gives_a_row_for_every_rate_and_cap() -> None:
    found = plan(PROBLEM, gain=1.0, explore=[0.1, 0.5, 1.0], caps=[1.5, 2.0, math.inf], levels=["inner"])
    (level,) = found.levels
    assert [(row.explore, row.cap) for row in level.rows] == [(e, w) for e in (0.1, 0.5, 1.0) for w in (1.5, 2.0, math.inf)]
    assert level.source == "guess" and not level.deterministic and found.pilot_episodes is None
    assert found.tests == 1 and found.delta == 0.05
    assert all(row.episodes is not None for row in level.rows)
    full = [row.episodes or 0 for row in level.rows if row.cap == math.inf]
    assert full[0] > 2 * full[1]  # more exploration, fewer episodes, as long as the incumbent's own action is logged often
    gains = [row.gain for row in level.rows if row.explore == 0.1]
    assert gains == sorted(gains)  # a larger cap gains more
    for row in level.rows[
        2::3
    ]:  # without a cap: the gain over the legacy's own action that was guessed, however much it explores
        assert row.gain == pytest.approx(1.0, rel=0.01)


def test_more_is_needed_for_less_risk_less_gain_more_spread_and_more_tests() -> None:
    def needed(**changed: float) -> int:
        given = {"gain": 1.0, "spread": 1.0, "delta": 0.05, **changed}
        return episodes(plan(PROBLEM, explore=[0.3], caps=[2.0], levels=["inner"], **given))[0]  # type: ignore[arg-type]

    base = needed()
    assert needed(delta=0.005) > base
    assert needed(gain=0.5) > 1.5 * base
    assert needed(spread=4.0) > base
    assert needed(tests=10) == needed(delta=0.005)
    assert needed(decisions=20) <= base


def test_a_spread_has_the_allowance_whether_it_was_said_or_not() -> None:
    """A tenth of the range is 2; what a log shows already contains the differences between contexts."""
    given = {"gain": 0.5, "explore": [0.3], "caps": [math.inf], "levels": ["inner"]}
    assert plan(PROBLEM, spread=2.0, **given).levels == plan(PROBLEM, **given).levels  # type: ignore[arg-type]
    lifted, more = (episodes(plan(PROBLEM, spread=spread, **given))[0] for spread in (2.0, 2.5))  # type: ignore[arg-type]
    assert lifted < more


def test_guards_share_the_risk_unless_told_otherwise() -> None:
    guarded = replace(PROBLEM, guards=(Guard("scrap", (0.0, 1.0), 0.1),))
    assert plan(guarded, gain=1.0, explore=[1.0], caps=[2.0], levels=["inner"]).delta == pytest.approx(0.025)


def test_the_rate_that_the_problem_declares_is_among_the_rows() -> None:
    level = replace(PROBLEM.innermost, propensity=Propensity(base="meant", epsilon=0.25))
    problem = replace(PROBLEM, levels=(PROBLEM.outermost, level))
    found = plan(problem, gain=1.0, explore=[1.0], caps=[2.0], levels=["inner"])
    assert [row.explore for row in found.levels[0].rows] == [0.25, 1.0]


def test_exploring_costs_what_was_guessed_or_what_the_range_allows() -> None:
    known = plan(PROBLEM, gain=1.0, loss=0.5, explore=[0.2], caps=[2.0], levels=["inner"]).levels[0]
    assert known.cost_known and known.rows[0].cost == pytest.approx(0.1)
    bounded = plan(PROBLEM, gain=1.0, explore=[0.2], caps=[2.0], levels=["inner"]).levels[0]
    assert not bounded.cost_known and bounded.rows[0].cost == pytest.approx(0.2 * 19.0)
    told = plan(PROBLEM, gain=1.0, typical=-4.0, explore=[0.2], caps=[2.0], levels=["inner"]).levels[0]
    assert told.rows[0].cost == pytest.approx(0.2 * 6.0)


def test_the_same_plan_for_rewards_and_for_costs() -> None:
    """Rewards turned around, small being good, are the same study."""
    batch = log("sign:epsilon=0.3")
    reward = replace(PROBLEM.reward, goal="minimise")
    assert batch.reward is not None
    mirrored = plan(replace(PROBLEM, reward=reward), replace(batch, reward=-batch.reward), explore=[0.5], caps=[2.0])
    straight = plan(PROBLEM, batch, explore=[0.5], caps=[2.0])
    assert episodes(mirrored) == pytest.approx(episodes(straight), rel=0.1)
    assert mirrored.level("inner").rows[1].cost == pytest.approx(straight.level("inner").rows[1].cost, abs=0.01)


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


def test_random_actions_may_be_better_than_the_legacy() -> None:
    given = {"gain": 2.0, "explore": [0.5], "caps": [2.0], "levels": ["inner"]}
    found = plan(PROBLEM, loss=-0.5, **given).levels[0].rows[0]  # type: ignore[arg-type]
    same = plan(PROBLEM, loss=0.0, **given).levels[0].rows[0]  # type: ignore[arg-type]
    assert found.cost == pytest.approx(-0.25) and found.gain > same.gain  # a capped candidate keeps some of the exploration


def test_optimism_is_taken_off() -> None:
    """A pilot whose halves disagree about the best action promises less than its model."""
    batch = log("uniform", 40)
    assert batch.reward is not None
    measure = reward_measure(PROBLEM)
    shrunk = 0
    for seed in range(6):
        noise = stream(seed, "noise").normal(size=batch.reward.size)
        noisy = replace(batch, reward=np.clip(0.1 * batch.reward + 2 * noise, -10, 10))
        halves = cut_in_halves(noisy, 1)
        models = (fit_half(PROBLEM, measure, "inner", halves[0]), fit_half(PROBLEM, measure, "inner", halves[1]))
        found = make_pilot_level(PROBLEM, measure, halves, models, "inner", None)
        assert found is not None and 0 <= found.shrink <= 1
        kept = found.shrink * found.plug_in
        assert kept <= max(found.robust - 0.5 * found.error, 0.0) + 1e-12
        assert np.mean([play.gain for play in found.plays(None, 2.0)]) == pytest.approx(kept, abs=1e-9)
        shrunk += 0 < found.shrink < 1
    assert shrunk


def test_who_chose_the_actions_does_not_judge_them() -> None:
    """In rewards that are noise, models that judge themselves always see a gain; those of the other half do not."""
    batch = log("uniform", 40)
    measure = reward_measure(PROBLEM)
    gains = []
    for seed in range(6):
        noisy = replace(batch, reward=2 * stream(seed, "only noise").normal(size=len(batch.levels["inner"])))
        halves = cut_in_halves(noisy, seed)
        models = (fit_half(PROBLEM, measure, "inner", halves[0]), fit_half(PROBLEM, measure, "inner", halves[1]))
        found = make_pilot_level(PROBLEM, measure, halves, models, "inner", None)
        assert found is not None
        gains.append(found.plug_in)
    assert min(gains) < 0


def test_halves_keep_clusters_together() -> None:
    batch = log("uniform", 60)
    clustered = replace(batch, cluster=np.repeat(np.arange(20), 3))
    first, second = cut_in_halves(clustered, 1)
    assert first.cluster is not None and second.cluster is not None
    assert not set(first.cluster) & set(second.cluster)
    assert len(first) == len(second) == 30
    problem = replace(PROBLEM, cluster="household")
    found = plan(problem, clustered, caps=[2.0], levels=["inner"])
    assert found.unit_word == "clusters"
    single = plan(PROBLEM, batch, caps=[2.0], levels=["inner"])
    assert episodes(found)[0] <= episodes(single)[0]  # three episodes tell no less than one


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


def test_plain_data_and_rows() -> None:
    found = plan(PROBLEM, gain=1.0, explore=[1.0], caps=[2.0, math.inf], levels=["inner"], within=20000).plain()
    (level,) = found["levels"]
    assert [row["cap"] for row in level["rows"]] == [2.0, "inf"]
    assert level["within"]["explore"] < 1.0 and found["within"] == 20000
    assert level["quickest"] in level["rows"]
    assert len(found["assumed"]) == 4
    assert PlanRow(0.1, 2.0, None, None, 1.0, cost=0.5).total is None
