"""What policies share: distributions, masks, nearest actions, named variables and storable members."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aegis.errors import PolicyError
from aegis.policies import bad_distribution, linear_predictor, open_actions, storable_members, table_of, uniform_over
from aegis.policies.base import nearest_action, real_variable
from aegis.problem import Batch, LevelTable
from aegis.worlds import make_world

MASK = np.array([[True, True, False], [True, True, True]])


@pytest.mark.parametrize(
    ("rows", "place", "expected"),
    [
        ([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], None, ""),
        ([[0.5, 0.5, 0.0], [np.nan, 0.5, 0.5]], 1, "finite numbers"),
        ([[np.inf, 0.0, 0.0], [0.2, 0.3, 0.5]], 0, "finite numbers"),
        ([[0.5, 0.5, 0.0], [1.2, 0.3, -0.5]], 1, "not negative"),
        ([[0.4, 0.3, 0.3], [0.2, 0.3, 0.5]], 0, "unavailable actions have probability 0"),
        ([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5 + 1e-5]], 1, "sum to 1"),
        ([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5 + 1e-7]], None, ""),
    ],
)
def test_the_first_bad_row_is_named(rows: list[list[float]], place: int | None, expected: str) -> None:
    for values in (np.array(rows), np.array([rows, rows])):  # rows, and rows of two particles
        finding = bad_distribution(values, MASK)
        if place is None:
            assert finding is None
        else:
            assert finding is not None and finding[0][-1] == place and expected in finding[1]
    assert bad_distribution(np.zeros((0, 3)), np.zeros((0, 3), bool)) is None


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=6, unique=True), st.floats(-1e300, 1e300), st.integers(1, 63))
def test_the_nearest_open_action(values: list[float], target: float, bits: int) -> None:
    mask = np.array([[bool(bits >> place & 1) for place in range(len(values))]])
    if not mask.any():
        return
    chosen = int(nearest_action(np.array(values), np.array([target]), mask)[0])
    inside = min(max(target, min(values)), max(values))
    allowed = [place for place in range(len(values)) if mask[0, place]]
    assert chosen == min(allowed, key=lambda place: (abs(values[place] - inside), place))


def test_masks_of_the_wrong_shape_or_without_an_action_are_refused() -> None:
    assert open_actions(None, 2, 3, "here").all()
    assert uniform_over(MASK).tolist() == [[0.5, 0.5, 0.0], [1 / 3, 1 / 3, 1 / 3]]
    with pytest.raises(PolicyError, match=r"here: the action mask has shape \[2, 3\], expected \[2, 4\]"):
        open_actions(MASK, 2, 4, "here")
    with pytest.raises(PolicyError, match="here, row 1: no action is available"):
        open_actions(np.array([[True, False], [False, False]]), 2, 2, "here")


def test_numbers_of_a_rule_are_known_real_and_finite() -> None:
    rows: dict[str, Any] = {"x": np.array([1.0, np.nan]), "c": np.array([0, 1], np.int32), "v": np.zeros((2, 2))}
    with pytest.raises(PolicyError, match=r"there is no variable 'xs' \(did you mean 'x'\?\); known when it decides: x, c, v"):
        real_variable(rows, "xs", "here")
    for name, message in (("x", "row 1: 'x' is nan"), ("c", "held as codes"), ("v", "a vector")):
        with pytest.raises(PolicyError, match=message):
            real_variable(rows, name, "here")
    with pytest.raises(PolicyError, match="overflows"):
        linear_predictor({"x": 1e308}, 0.0, {"x": np.array([1e10])}, 1, "here")


def test_members_must_be_storable() -> None:
    legacy = make_world("additive").legacy("uniform")
    assert storable_members(new=legacy, legacy=None) == {"new": legacy}
    with pytest.raises(PolicyError, match="the member 'new' is a object, which cannot be stored"):
        storable_members(new=object())
    batch = Batch(np.arange(1), {"dose": LevelTable.undecided([0], {})})
    with pytest.raises(PolicyError, match=r"no decisions of level 'does' \(did you mean 'dose'\?\)"):
        table_of(batch, "does")
