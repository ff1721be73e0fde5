"""The plan of a level from a guess: the guessed world, and what follows from a guess."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.problem import Propensity
from aegis.rng import stream
from aegis.validation import Plan, plan
from aegis.validation.planner.guess import spacing, study_from_guess
from aegis.worlds import make_world


@settings(max_examples=40, deadline=None)
@given(
    st.integers(2, 30),
    st.floats(0.01, 1.0),
    st.sampled_from([1.5, 2.0, 3.0, math.inf]),
    st.floats(0.01, 0.2),
    st.floats(-0.4, 1.0),
)
def test_a_guessed_world_is_as_guessed(actions: int, explore: float, cap: float, gain: float, share: float) -> None:
    loss = share * gain  # below 0: random actions earn more than the legacy's own
    play = study_from_guess(actions, explore, cap, gain, loss, 0.1, 0.5, 2, stream(1, "guess"))
    assert play.mean.min() >= -1e-12 and play.mean.max() <= 1 + 1e-12
    assert np.ptp(play.mean) == pytest.approx(spacing(gain, loss))
    assert (play.candidate <= (play.logging * cap if math.isfinite(cap) else 1.0) + 1e-9).all()
    np.testing.assert_allclose(play.candidate.sum(axis=1), 1.0)
    if explore < 0.99:  # the legacy's own action can be told
        own = (play.logging - explore / actions) / (1 - explore)
        values = (own * play.mean).sum(axis=1)
        assert (play.mean.max(axis=1) - values).mean() == pytest.approx(gain, abs=0.01 * spacing(gain, loss))
        assert (values - play.mean.mean(axis=1)).mean() == pytest.approx(loss, abs=0.01 * spacing(gain, loss))


WORLD = make_world("additive", inner_steps=4)


PROBLEM = WORLD.problem


def episodes(found: Plan, level: str = "inner") -> list[int]:
    return [row.episodes or 10**9 for row in found.level(level).rows]


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


def test_random_actions_may_be_better_than_the_legacy() -> None:
    given = {"gain": 2.0, "explore": [0.5], "caps": [2.0], "levels": ["inner"]}
    found = plan(PROBLEM, loss=-0.5, **given).levels[0].rows[0]  # type: ignore[arg-type]
    same = plan(PROBLEM, loss=0.0, **given).levels[0].rows[0]  # type: ignore[arg-type]
    assert found.cost == pytest.approx(-0.25) and found.gain > same.gain  # a capped candidate keeps some of the exploration
