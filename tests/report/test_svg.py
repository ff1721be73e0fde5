"""SVG: escaped elements and round ticks."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.report.svg import tag, ticks

NUMBERS = st.floats(-1e6, 1e6, allow_nan=False)


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
