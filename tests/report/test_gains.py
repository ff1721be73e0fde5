"""The section of gains: numbers of the certificate, rounded to the safe side, and no bound of what is refused."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from page_reader import drawn, edges, read, section
from report_cases import certified, guarded, minimise, three_levels
from report_parts import level, path, stored_test
from section_parts import cells, exact, page_of, tile

from aegis.report import render_certificate
from aegis.report.gains import (
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


def number(text: str) -> float:
    return float(text.replace("\u2212", "-").replace(" ", ""))


def test_a_refused_scope_of_a_certified_certificate_shows_no_bound_either() -> None:
    bad = level(
        ("recipe",),
        "refused",
        gain_lower=7.77123,
        value_lower=8.88123,
        path=path(7.77123, 812),
        tests=(stored_test(0.55123, True),),
    )
    found = dataclasses.replace(certified(), levels=(certified().levels[1], bad))
    text = render_certificate(found.to_json())
    assert "7.77" not in text and "8.88" not in text and "0.55123" not in text
    assert "first repair what refuses" in text
    assert len(read(text).all(".bound-line")) == 1 + 1  # the path of the certified scope, and the legend


def test_rows_hold_the_numbers_of_their_scope_the_main_one_first() -> None:
    certificate = certified()
    page = page_of(certificate)
    rows = section(page, "Level by level").one("tbody").all("tr")
    scopes = [row.one("th").children[0] for row in rows]
    assert scopes == ["dose", "recipe", "recipe + dose"]
    assert "main-row" in rows[0].attributes["class"] and "class" not in rows[1].attributes
    for row, scope in zip(rows, (("dose",), ("recipe",), ("recipe", "dose")), strict=True):
        result = certificate.level(*scope)
        cell = row.all(lambda item: item.attributes.get("data-label") == "Gain")[0]
        assert exact(cell.one("strong")) == result.gain_lower
        shown = number(cell.one("strong").text.removeprefix("at least ").removeprefix("+"))
        assert result.gain_lower is not None and shown <= result.gain_lower < shown + 0.001
        assert f"+{result.estimate:.3f} \u00b1 {result.estimate_error:.3f}" in cell.text
    values = [cell.one("strong").text for cell in cells(page, "Level by level", "Value")]
    assert values == ["at least 11.907", "none certified", "at least 11.907"]
    assert [cell.text for cell in cells(page, "Level by level", "Further evidence")] == [
        "none",
        "about 1 340 episodes",
        "more of the same would not do",
    ]


def test_levels_are_named_outermost_first() -> None:
    found = certified()
    turned = tuple(dataclasses.replace(item, scope=item.scope[::-1]) for item in found.levels)
    page = page_of(dataclasses.replace(found, levels=turned))
    assert section(page, "Level by level").one("tbody").all("th")[2].children[0] == "recipe + dose"
    assert len(section(page_of(three_levels()), "Level by level").one("tbody").all("tr")) == 7


def test_guards_are_in_words_and_a_worsening_is_rounded_up() -> None:
    page = page_of(guarded())
    lines = [item.text for item in page.all(".guard")]
    assert lines[0] == "Certified scrap_rate gets worse by at most 0.00412; allowed: worse by 0.01"
    assert lines[1] == "Not yet energy gets worse by at most 3.22; allowed: worse by 2"
    assert lines[2] == "Certified noise gets better by at least 0.123; allowed: worse by 0.5"
    assert lines[3] == "Not yet smell has no bound yet; allowed: worse by 0.5"
    why = [item.text for item in section(page, "Why").all("li")]
    assert "a handover needs more than 0" in why[0]
    assert why[1].startswith("The guard \u2018energy\u2019 gets worse by at most 3.22") and "smell" in why[2]


def test_costs_are_at_most_and_rounded_up() -> None:
    page = page_of(minimise())
    assert cells(page, "Level by level", "Value")[0].one("strong").text == "at most 4 322.0"
    assert tile(page, "Certified gain").one(".value").text == "at least +123.4 kWh"
    assert "costs per episode" in tile(page, "Value of the log").text
    assert tile(page, "Evidence").one(".value").text == "812 clusters"
    assert "means less than under the policy it is compared with" in section(page, "Level by level").text


def test_a_path_ends_at_the_certified_bound() -> None:
    result = level(("dose",), path=path(0.9, 600))
    page = page_of(dataclasses.replace(certified(), levels=(result,)))
    described = section(page, "How the evidence grew").all("desc")[0].children[0]
    assert isinstance(described, str) and "After 812 episodes the gain is certified to be at least +1.234." in described
    assert "-" not in described and not page_of(dataclasses.replace(certified(), levels=(level(("dose",), path=()),))).all(
        ".bound-dot"
    )


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
    chart, floor = path_chart("x", "title", stations, GainFigures(None, estimate, None, margin), "episodes", AMOUNTS)
    picture = drawn(chart)
    points = [
        tuple(float(part) for part in point.split(",")) for point in picture.one(".bound-line").attributes["points"].split()
    ]
    assert all(PATH_LEFT - 0.01 <= x <= PATH_RIGHT + 0.01 and PATH_TOP - 0.01 <= y <= PATH_BOTTOM + 0.01 for x, y in points)
    dot = picture.one(".bound-dot").attributes
    assert (float(dot["cx"]), float(dot["cy"])) == pytest.approx(points[-1], abs=0.01)
    assert float(dot["cx"]) == pytest.approx(PATH_RIGHT, abs=0.01)
    assert floor is None or min(bounds) < floor
    if floor is None:
        lowest = min([*bounds, 0.0, *([] if estimate is None else [estimate])])
        assert max(y for _, y in points) <= PATH_BOTTOM
        assert min(bounds) >= lowest
    assert len(picture.all(".estimate-line")) == (estimate is not None)
    assert len(picture.all(".margin")) == (margin != 0)


def test_heights_of_a_path_are_those_of_its_bounds() -> None:
    gain = GainFigures(None, 2.0, None, 0.25)
    chart, floor = path_chart("x", "title", [(10, -1.0), (20, 0.5), (40, 1.0)], gain, "episodes", AMOUNTS)
    picture = drawn(chart)
    height = Axis.around([0.0, 0.25, 2.0, -1.0, 0.5, 1.0], PATH_BOTTOM, PATH_TOP)
    points = [
        tuple(float(part) for part in point.split(",")) for point in picture.one(".bound-line").attributes["points"].split()
    ]
    expected = [height(value) for value in (-1.0, -1.0, 0.5, 0.5, 1.0)]
    assert [y for _, y in points] == pytest.approx(expected, abs=0.01)
    assert float(picture.one(".estimate-line").attributes["y1"]) == pytest.approx(height(2.0), abs=0.01)
    assert float(picture.one(".margin").attributes["y1"]) == pytest.approx(height(0.25), abs=0.01)
    assert floor is None
    _, floor = path_chart("x", "title", [(10, -500.0), (20, 0.5), (40, 1.0)], GainFigures(None, 2.0), "episodes", AMOUNTS)
    assert floor is not None and -500 < floor < -1
