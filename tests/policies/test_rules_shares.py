"""Fixed shares by a category: what they say, what masks leave of them, and settings that are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aegis.errors import PolicyError, SettingError
from aegis.policies import Shares
from aegis.problem import Actions, Level, Variable

LEVEL = Level("item", Actions.of("item", ("a", "b", "c")))
BY = Variable("position", "categorical", values=("top", "bottom"))
RULE = Shares(((0.2, 0.3, 0.5), (1.0, 0.0, 0.0)), "position")


def test_the_row_of_the_category_applies() -> None:
    found = RULE.probabilities(LEVEL, {"position": np.array([1, 0, 1], dtype=np.int32)}, 3)
    assert found.tolist() == [[1, 0, 0], [0.2, 0.3, 0.5], [1, 0, 0]]
    assert Shares(((0.2, 0.3, 0.5),)).probabilities(LEVEL, {}, 2).tolist() == [[0.2, 0.3, 0.5]] * 2


@given(st.lists(st.tuples(st.integers(0, 1), st.lists(st.booleans(), min_size=3, max_size=3).filter(any)), max_size=8))
def test_masked_actions_leave_the_others_their_proportions(rows: list[tuple[int, list[bool]]]) -> None:
    codes = np.array([code for code, _ in rows], dtype=np.int32)
    mask = np.array([open_ for _, open_ in rows], dtype=bool).reshape(-1, 3)
    found = RULE.probabilities(LEVEL, {"position": codes}, len(rows), mask)
    for row, (code, open_) in enumerate(rows):
        kept = [share if here else 0.0 for share, here in zip(RULE.shares[code], open_, strict=True)]
        if sum(kept) == 0:
            kept = [float(here) for here in open_]
        np.testing.assert_allclose(found[row], np.array(kept) / sum(kept))


def test_settings_that_are_refused() -> None:
    for shares, variable, message in (
        (((0.5, 0.4),), None, "row 1: the shares sum to 0.9, expected 1"),
        (((1.5, -0.5),), None, "a share is a finite number from 0 to 1"),
        (((0.5, 0.5), (1.0, 0.0)), None, "without a 'variable' there is one row of shares, found 2"),
        ((), "position", "found 0"),
        (((0.5, 0.5), (1.0,)), "position", "rows of different lengths"),
    ):
        with pytest.raises(SettingError, match=message):
            Shares(shares, variable)


def test_levels_that_do_not_fit() -> None:
    for rule, known, message in (
        (RULE, {}, "there is no variable 'position'; known when it decides: nothing"),
        (RULE, {"position": Variable("position")}, "'position' is real"),
        (RULE, {"position": Variable("position", "categorical", values=(1, 2, 3))}, "3 values, and shares have 2 rows"),
        (Shares(((0.5, 0.5),)), {}, "one number per action, 3; found 2"),
    ):
        with pytest.raises(PolicyError, match=message):
            rule.check(LEVEL, known)
    RULE.check(LEVEL, {"position": BY})
    with pytest.raises(PolicyError, match="row 1: 'position' is missing"):
        RULE.probabilities(LEVEL, {"position": np.array([0, -1])}, 2)
    with pytest.raises(PolicyError, match="there is no variable 'position'; known when it decides: nothing"):
        RULE.probabilities(LEVEL, {}, 2)
