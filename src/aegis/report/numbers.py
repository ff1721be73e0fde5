"""Numbers as people read them. A bound is never rounded to the side that would promise more than was certified."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

MINUS = "\u2212"
THIN = "\u202f"  # a narrow space that does not break, between thousands
UNKNOWN = "not known"
DOWN, UP, NEAREST = ROUND_FLOOR, ROUND_CEILING, ROUND_HALF_EVEN
MOST_DECIMALS = 6


@dataclass(frozen=True, slots=True)
class Amounts:
    """How amounts of the reward are written on one page: all with the same number of decimals, so that they compare."""

    decimals: int

    @classmethod
    def of(cls, gains: Iterable[float | None]) -> Amounts:
        """Return decimals that give the largest of the gains about four digits."""
        largest = max((abs(gain) for gain in gains if gain), default=0.0)
        place = math.floor(math.log10(largest)) if largest else 0
        return cls(min(max(3 - place, 0), MOST_DECIMALS))

    def show(self, value: float | None, rounding: str = NEAREST, sign: bool = False) -> str:
        """Return an amount; sign: write the plus of a gain."""
        return format_number(value, self.decimals, rounding, sign)


def format_number(value: float | None, decimals: int, rounding: str = NEAREST, sign: bool = False) -> str:
    """Return a number with so many decimals; what would vanish among them keeps two digits of its own."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    exact = Decimal(repr(float(value)))
    if not exact:
        return "0"
    if abs(exact) < Decimal(1).scaleb(-decimals):
        decimals = 1 - exact.adjusted()
    if abs(exact.adjusted()) > 9:
        return _signed(f"{_digits(exact, 3, rounding):.2e}", exact, sign)
    return _signed(f"{exact.quantize(Decimal(1).scaleb(-decimals), rounding=rounding):,}".replace(",", THIN), exact, sign)


def format_brief(value: float | None, rounding: str = NEAREST, sign: bool = False) -> str:
    """Return a number with three digits, trailing zeros left out: for other columns, weights and axes."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    exact = Decimal(repr(float(value)))
    if exact and abs(exact.adjusted()) > 9:
        return _signed(f"{_digits(exact, 3, rounding).normalize():e}", exact, sign)
    rounded = _digits(exact, 3, rounding)
    text = f"{rounded:,f}"
    return _signed((text.rstrip("0").rstrip(".") if "." in text else text).replace(",", THIN), exact, sign)


def format_count(value: int | None) -> str:
    """Return a whole number."""
    return UNKNOWN if value is None else f"{value:,}".replace(",", THIN)


def format_percent(share: float | None, rounding: str = NEAREST) -> str:
    """Return a share as a percentage with up to three digits."""
    return UNKNOWN if share is None else f"{format_brief(100 * share, rounding)}\u00a0%"


def format_risk(delta: float) -> str:
    """Return the risk as a percentage, not rounded below what it is."""
    return f"{_without_zeros(100 * Decimal(repr(delta)))}\u00a0%"


def format_confidence(delta: float) -> str:
    """Return the probability with which a certificate at this risk holds, exactly."""
    return f"{_without_zeros(100 * (1 - Decimal(repr(delta))))}\u00a0%"


def one_in(delta: float) -> int:
    """Return n so that a risk of `delta` is at most one in n."""
    return int(1 / Decimal(repr(delta)))


def _digits(exact: Decimal, digits: int, rounding: str) -> Decimal:
    """Return a number with so many significant digits; digits before the point all stay."""
    place = min(exact.adjusted() - digits + 1, 0) if exact.adjusted() < 10 else exact.adjusted() - digits + 1
    return exact.quantize(Decimal(1).scaleb(place), rounding=rounding)


def _without_zeros(exact: Decimal) -> str:
    text = f"{exact:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _signed(text: str, exact: Decimal, sign: bool) -> str:
    text = text.replace("-", MINUS) if "e" not in text else text.replace("-", MINUS, 1) if exact < 0 else text
    return f"+{text}" if sign and exact > 0 and not text.startswith(MINUS) else text
