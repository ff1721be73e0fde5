"""The charts: marks stand where the numbers say, and what is not drawn is said."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_reader import Element, read

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
from aegis.report.charts.overlap_charts import action_bars, range_strip, weight_histogram
from aegis.report.numbers import Amounts
from aegis.report.svg import Axis, tag, ticks

AMOUNTS = Amounts(3)
NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


def drawn(text: str) -> Element:
    return read(text).one("svg")


def edges(rectangle: Element) -> tuple[float, float]:
    left = float(rectangle.attributes["x"])
    return left, left + float(rectangle.attributes["width"])


def test_a_tag_escapes_attributes_and_children() -> None:
    assert (
        str(tag("text", "<&>", class_='"x"', stroke_width=2, fill=None))
        == '<text class="&#34;x&#34;" stroke-width="2">&lt;&amp;&gt;</text>'
    )


@given(NUMBERS, st.floats(1e-6, 1e6), st.integers(1, 8))
@settings(max_examples=200, deadline=None)
def test_ticks_are_round_inside_and_about_as_many_as_asked(low: float, width: float, number: int) -> None:
    if abs(low) > 1e6 * width:
        return  # beyond the resolution of a picture
    found = ticks(low, low + width, number)
    assert len(found) <= number + 1
    assert all(low - 1e-6 * width <= value <= low + width * (1 + 1e-6) for value in found)
    gaps = [after - before for before, after in itertools.pairwise(found)]
    assert all(gap == pytest.approx(gaps[0], rel=1e-6) for gap in gaps)


def test_ticks_of_a_known_range() -> None:
    assert ticks(-5.5, 2.3, 6) == [-4.0, -2.0, 0.0, 2.0]
    assert ticks(0.0, 812.0, 6) == [0.0, 200.0, 400.0, 600.0, 800.0]
    assert ticks(1.0, 1.0, 4) == [1.0] and ticks(0.0, 5e-324, 4) == [0.0]


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


def test_bars_of_weights_are_as_high_as_their_shares() -> None:
    picture = drawn(weight_histogram("x", "title", [(-2, 0.1), (0, 0.4), (3, 0.2)], 0.3))
    heights = [float(item.attributes["height"]) for item in picture.all(".weight")]
    assert heights == pytest.approx([heights[1] / 4, heights[1], heights[1] / 2], abs=0.02)
    assert float(picture.one(".weight-zero").attributes["height"]) == pytest.approx(heights[1] * 0.75, abs=0.02)
    lefts = [float(item.attributes["x"]) for item in picture.all(".weight")]
    assert float(picture.one(".weight-zero").attributes["x"]) < lefts[0] < lefts[1] < lefts[2]
    assert lefts[2] - lefts[1] == pytest.approx(1.5 * (lefts[1] - lefts[0]), abs=0.05)  # empty bins keep their room
    assert weight_histogram("x", "title", [], 0.0) and weight_histogram("x", "title", [], 1.0)
    assert "2^-20" in weight_histogram("x", "title", [(-20, 0.5), (39, 0.5)], 0.0)


@pytest.mark.parametrize("actions", [1, 2, 5, 41])
def test_action_bars_have_both_policies_and_readable_labels(actions: int) -> None:
    names = [f"setting {place}" for place in range(actions)]
    policy = [(place + 1) / (actions * (actions + 1) / 2) for place in range(actions)]
    picture = drawn(action_bars("x", "title", names, policy, [1 / actions] * actions))
    assert len(picture.all(".candidate")) == len(picture.all(".legacy")) == actions
    heights = [float(item.attributes["height"]) for item in picture.all(".candidate")]
    assert heights == pytest.approx([heights[-1] * share / policy[-1] for share in policy], abs=0.02)
    labels = [item for item in picture.all("text") if item.text.startswith("setting")]
    assert 1 <= len(labels) <= 4
    assert not drawn(action_bars("x", "title", names, policy, None)).all(".legacy")


def test_actions_on_a_grid_have_short_labels() -> None:
    picture = drawn(
        action_bars("x", "title", ["-0.3999999999999999", "1.2000000000000002", "a very long name"], [0.2, 0.3, 0.5], None)
    )
    labels = [item.text for item in picture.all("text")]
    assert "\u22120.4" in labels and "0000" not in " ".join(labels)


def test_a_range_shows_what_was_seen_in_it() -> None:
    picture = drawn(range_strip("x", "title", 0.0, 40.0, (10.0, 20.0), 15.0))
    whole, seen = edges(picture.one(".legacy")), edges(picture.one(".weight"))
    assert (seen[0] - whole[0], seen[1] - whole[0]) == pytest.approx(
        ((whole[1] - whole[0]) / 4, (whole[1] - whole[0]) / 2), abs=0.05
    )
    assert not drawn(range_strip("x", "title", 0.0, 40.0, (10.0, 20.0), None)).all(".estimate-mark")
