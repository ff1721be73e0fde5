"""The result of a plan: the smallest rate that is enough, and plain data."""

from __future__ import annotations

import math

from aegis.validation import PlanRow, plan
from aegis.validation.planner.plan_result import smallest_sufficient_rate
from aegis.worlds import make_world


def needs(rate: float | None, cap: float) -> PlanRow:
    """A study that takes 100 / rate episodes with cap 2 and twice as many without."""
    episodes = math.ceil(100 / (rate or 0.01)) * (2 if math.isinf(cap) else 1)
    return PlanRow(rate, cap, episodes, episodes, 1.0)


def test_the_smallest_rate_that_is_enough() -> None:
    caps = (2.0, math.inf)
    rows = [needs(rate, cap) for rate in (0.1, 0.5, 1.0) for cap in caps]
    found = smallest_sufficient_rate(needs, rows, 500, caps)
    assert found is not None and found.cap == 2.0 and found.explore is not None
    assert 0.2 <= found.explore <= 0.23
    assert found.likely is not None and found.likely <= 500
    below = smallest_sufficient_rate(needs, rows, 1500, caps)
    assert below is not None and below.explore is not None and 100 / 1500 <= below.explore < 0.08
    assert smallest_sufficient_rate(needs, rows, 50, caps) is None


def test_a_legacy_that_explores_enough_needs_no_other_rate() -> None:
    rows = [PlanRow(None, 2.0, 90, 100, 1.0), *[needs(rate, 2.0) for rate in (0.1, 1.0)]]
    found = smallest_sufficient_rate(needs, rows, 200, (2.0,))
    assert found is not None and found.explore is None


WORLD = make_world("additive", inner_steps=4)


PROBLEM = WORLD.problem


def test_plain_data_and_rows() -> None:
    found = plan(PROBLEM, gain=1.0, explore=[1.0], caps=[2.0, math.inf], levels=["inner"], within=20000).plain()
    (level,) = found["levels"]
    assert [row["cap"] for row in level["rows"]] == [2.0, "inf"]
    assert level["within"]["explore"] < 1.0 and found["within"] == 20000
    assert level["quickest"] in level["rows"]
    assert len(found["assumed"]) == 4
    assert PlanRow(0.1, 2.0, None, None, 1.0, cost=0.5).total is None
