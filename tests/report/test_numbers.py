"""Numbers on a page: a bound never promises more than it is, and nothing vanishes by rounding."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.report.numbers import (
    DOWN,
    UP,
    Amounts,
    format_brief,
    format_confidence,
    format_count,
    format_number,
    format_percent,
    format_risk,
    one_in,
)

FLOATS = st.floats(-1e15, 1e15, allow_nan=False)


def value(text: str) -> Decimal:
    return Decimal(text.replace("\u2212", "-").replace("\u202f", "").removeprefix("+"))


@given(FLOATS, st.integers(0, 6), st.booleans())
@settings(max_examples=300, deadline=None)
def test_rounding_goes_where_it_is_told(number: float, decimals: int, sign: bool) -> None:
    exact = Decimal(repr(number))
    for text in (format_number(number, decimals, DOWN, sign), format_brief(number, DOWN, sign)):
        assert value(text) <= exact
    for text in (format_number(number, decimals, UP, sign), format_brief(number, UP, sign)):
        assert value(text) >= exact
    for text in (format_number(number, decimals), format_brief(number)):
        assert abs(value(text) - exact) <= max(abs(exact) * Decimal("0.06"), Decimal("0.5").scaleb(-decimals))
    assert format_number(number, decimals, sign=True).startswith("+") == (number > 0)


@given(st.floats(1e-9, 1e9), st.integers(0, 6))
@settings(max_examples=100, deadline=None)
def test_what_is_not_zero_is_not_shown_as_zero(number: float, decimals: int) -> None:
    assert value(format_number(number, decimals, DOWN)) > 0
    assert value(format_brief(number, DOWN)) > 0


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "0"),
        (1234567.891, "1\u202f234\u202f567.89"),
        (0.3, "0.30"),
        (-0.001, "\u22120.0010"),
        (1e12, "1.00e+12"),
        (None, "not known"),
        (float("nan"), "not known"),
    ],
)
def test_amounts_are_written_plainly(number: float | None, text: str) -> None:
    assert format_number(number, 2) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (11.25, "11.2"),
        (4000.0, "4\u202f000"),
        (12345.6, "12\u202f346"),
        (0.00412, "0.00412"),
        (-3.0, "\u22123"),
        (1e-12, "1e-12"),
        (100.0, "100"),
        (None, "not known"),
    ],
)
def test_brief_numbers_have_three_digits(number: float | None, text: str) -> None:
    assert format_brief(number) == text


@pytest.mark.parametrize(
    ("gains", "decimals"), [([1.234, None, 0.0], 3), ([42.0], 2), ([0.0245], 5), ([2500.0, 1.0], 0), ([], 3), ([1e-9], 6)]
)
def test_all_amounts_share_decimals_that_fit_the_largest_gain(gains: list[float | None], decimals: int) -> None:
    assert Amounts.of(gains).decimals == decimals


@pytest.mark.parametrize(
    ("delta", "as_risk", "as_confidence", "chance"),
    [
        (0.05, "5\u00a0%", "95\u00a0%", 20),
        (0.1, "10\u00a0%", "90\u00a0%", 10),
        (0.0101, "1.01\u00a0%", "98.99\u00a0%", 99),
        (1e-6, "0.0001\u00a0%", "99.9999\u00a0%", 1000000),
        (0.03, "3\u00a0%", "97\u00a0%", 33),
    ],
)
def test_risks_are_exact(delta: float, as_risk: str, as_confidence: str, chance: int) -> None:
    assert (format_risk(delta), format_confidence(delta), one_in(delta)) == (as_risk, as_confidence, chance)
    assert delta <= 1 / chance


def test_counts_and_shares() -> None:
    assert (format_count(1340), format_count(None), format_percent(0.4321), format_percent(1.0), format_percent(None)) == (
        "1\u202f340",
        "not known",
        "43.2\u00a0%",
        "100\u00a0%",
        "not known",
    )
