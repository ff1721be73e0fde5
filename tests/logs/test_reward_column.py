"""The range that a draft suggests for a reward, and the column it takes for one."""

from __future__ import annotations

import draft_logs as logs
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.logs import draft_problem
from aegis.logs.draft.reward_column import wide_range


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None)
def test_a_suggested_range_holds_everything_seen(numbers: list[float]) -> None:
    low, high = wide_range(np.asarray(numbers))
    assert low < high and np.isfinite([low, high]).all()
    assert low <= min(numbers) and max(numbers) <= high


def test_ranges_are_round_and_respect_zero() -> None:
    assert wide_range(np.array([0.2, 0.9])) == (0, 1)
    assert wide_range(np.array([3.0, 17.0])) == (0, 24)
    assert wide_range(np.array([-17.0, -3.0])) == (-24, 0)


def test_the_reward_is_known_by_its_name_and_repeated_values_belong_to_the_episode() -> None:
    draft = draft_problem(pa.table(logs.nested_log()))
    assert draft.problem is not None and draft.problem.reward.column == "margin"
    table = pa.table(logs.nested_log())
    visits = table["batch"].to_pylist() if "batch" in table.column_names else table[draft.problem.episode[0]].to_pylist()
    codes = {visit: float(number) for number, visit in enumerate(dict.fromkeys(visits))}
    shared = table.set_column(table.column_names.index("margin"), "margin", pa.array([codes[visit] for visit in visits]))
    repeated = draft_problem(shared)
    assert repeated.problem is not None and repeated.problem.reward.per == "episode"
