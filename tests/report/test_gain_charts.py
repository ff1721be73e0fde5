"""The charts: marks stand where the numbers say, and what is not drawn is said."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_reader import drawn, edges

from aegis.report.charts.gain_charts import (
    PATH_BOTTOM,
    PATH_LEFT,
    PATH_RIGHT,
    PATH_TOP,
    GainFigures,
    gain_bar,
    path_chart,
    shared_axis,
)
from aegis.report.numbers import Amounts
from aegis.report.svg import Axis

AMOUNTS = Amounts(3)

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.floats(0, 1e5)), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None)
def test_bars_share_one_axis_on_which_order_is_kept(numbers: list[tuple[float, float, float]]) -> None:
    gains = [GainFigures(lower, estimate, error, 0.0) for lower, estimate, error in numbers]
    axis = shared_axis(gains)
    for gain in gains:
        picture = drawn(gain_bar("x", "title", gain, axis, AMOUNTS))
        assert gain.lower is not None
        bar = (picture.all(".bound") + picture.all(".bound-below"))[0]
        assert bool(picture.all(".bound")) == (gain.lower > 0)
        left, right = edges(bar)
        assert 0 <= left <= right <= 240
        ends = sorted([axis(0.0), axis(gain.lower)])
        assert (left, right) == pytest.approx(ends, abs=0.02)


def test_a_bar_marks_margin_and_estimate_and_leaves_out_what_is_not_known() -> None:
    gain = GainFigures(1.0, 3.0, 0.5, 2.0)
    axis = shared_axis([gain])
    picture = drawn(gain_bar("x", "title", gain, axis, AMOUNTS))
    assert float(picture.one(".margin").attributes["x1"]) == pytest.approx(axis(2.0), abs=0.01)
    assert picture.one(".estimate-mark").attributes["d"].startswith(f"M{axis(3.0):.2f}".rstrip("0"))
    whisker = picture.one(".whisker").attributes
    assert (float(whisker["x1"]), float(whisker["x2"])) == pytest.approx((axis(2.5), axis(3.5)), abs=0.01)
    assert picture.one("desc").children == ["certified: at least +1.000; margin: 2.000; estimate, not a certificate: +3.000"]
    only = drawn(gain_bar("x", "title", GainFigures(None, 3.0), axis, AMOUNTS))
    assert not only.all(".bound") and not only.all(".bound-below") and not only.all(".margin")
    assert gain_bar("x", "title", GainFigures(None, None, None, 1.0), axis, AMOUNTS) == ""


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=30), st.none() | st.floats(-1e4, 1e4), st.floats(0, 100))
@settings(max_examples=100, deadline=None)
def test_a_path_stays_in_its_frame_ends_at_the_last_bound_and_says_what_it_leaves_out(
    bounds: list[float], estimate: float | None, margin: float
) -> None:
    stations = [(10 * (place + 1), bound) for place, bound in enumerate(bounds)]
    found = path_chart("x", "title", stations, estimate, margin, "episodes", AMOUNTS)
    picture = drawn(found.picture)
    points = [
        tuple(float(part) for part in point.split(",")) for point in picture.one(".bound-line").attributes["points"].split()
    ]
    assert all(PATH_LEFT - 0.01 <= x <= PATH_RIGHT + 0.01 and PATH_TOP - 0.01 <= y <= PATH_BOTTOM + 0.01 for x, y in points)
    dot = picture.one(".bound-dot").attributes
    assert (float(dot["cx"]), float(dot["cy"])) == pytest.approx(points[-1], abs=0.01)
    assert float(dot["cx"]) == pytest.approx(PATH_RIGHT, abs=0.01)
    assert (found.floor is not None) == (found.floor is not None and min(bounds) < found.floor)
    if found.floor is None:
        lowest = min([*bounds, 0.0, *([] if estimate is None else [estimate])])
        assert max(y for _, y in points) <= PATH_BOTTOM
        assert min(bounds) >= lowest
    assert len(picture.all(".estimate-line")) == (estimate is not None)
    assert len(picture.all(".margin")) == (margin != 0)


def test_heights_of_a_path_are_those_of_its_bounds() -> None:
    found = path_chart("x", "title", [(10, -1.0), (20, 0.5), (40, 1.0)], 2.0, 0.25, "episodes", AMOUNTS)
    picture = drawn(found.picture)
    height = Axis.around([0.0, 0.25, 2.0, -1.0, 0.5, 1.0], PATH_BOTTOM, PATH_TOP)
    points = [
        tuple(float(part) for part in point.split(",")) for point in picture.one(".bound-line").attributes["points"].split()
    ]
    expected = [height(value) for value in (-1.0, -1.0, 0.5, 0.5, 1.0)]
    assert [y for _, y in points] == pytest.approx(expected, abs=0.01)
    assert float(picture.one(".estimate-line").attributes["y1"]) == pytest.approx(height(2.0), abs=0.01)
    assert float(picture.one(".margin").attributes["y1"]) == pytest.approx(height(0.25), abs=0.01)
    assert found.floor is None
    deep = path_chart("x", "title", [(10, -500.0), (20, 0.5), (40, 1.0)], 2.0, 0.0, "episodes", AMOUNTS)
    assert deep.floor is not None and -500 < deep.floor < -1
