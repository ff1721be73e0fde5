"""How the weights are spread: one bar for each doubling, and one for weights of 0."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from aegis.report.numbers import percent
from aegis.report.svg import Axis, label, line, picture, rectangle

WIDTH, HEIGHT = 300.0, 130.0
LEFT, RIGHT, TOP, BOTTOM = 8.0, 292.0, 18.0, 92.0
GAP = 1.0  # doublings between the bar of the zeros and the others
MOST_LABELS = 7


def weight_histogram(name: str, title: str, bins: Sequence[tuple[int, float]], zeros: float) -> Markup:
    """Return the histogram of bins (i, share), each holding weights from 2^i to 2^(i+1), and the share of zeros."""
    places = [place for place, _ in bins] or [0]
    low, high = min(*places, -1), max(*places, 0) + 1
    start = low - GAP - 1 if zeros > 0 else low
    across = Axis(float(start), float(high), LEFT, RIGHT)
    up = Axis(0.0, max([zeros, *[share for _, share in bins]], default=1.0) or 1.0, BOTTOM, TOP)
    shapes = []
    if zeros > 0:
        shapes += _bar(across, up, start, zeros, "weight-zero")
        shapes.append(label(across(start + 0.5), BOTTOM + 14, "0"))
    for place, share in bins:
        shapes += _bar(across, up, place, share, "weight")
    step = max(1, -(-(high - low) // MOST_LABELS))
    for place in range(low, high + 1):
        if place % step == 0:
            shapes.append(label(_inside(across(place)), BOTTOM + 14, _weight(place)))
    shapes += [line(LEFT, BOTTOM, RIGHT, BOTTOM, "zero"), line(across(0), TOP - 6, across(0), BOTTOM, "one")]
    shapes.append(label((LEFT + RIGHT) / 2, HEIGHT - 6, "weight (1: as likely under the candidate)", "tick axis-name"))
    told = "; ".join([*([f"weight 0: {percent(zeros)}"] if zeros > 0 else []), *[_told(*item) for item in bins]])
    return picture(name, (WIDTH, HEIGHT), title, told or "no weights", *shapes)


def _bar(across: Axis, up: Axis, place: float, share: float, style: str) -> list[Markup]:
    left, right = across(place), across(place + 1)
    text = label((left + right) / 2, up(share) - 4, percent(round(share, 2))) if right - left >= 30 and share >= 0.005 else None
    bar = rectangle(left + 1, right - 1, up(share), BOTTOM, style)
    return [bar] if text is None else [bar, text]


def _inside(place: float) -> float:
    return min(max(place, LEFT + 6), RIGHT - 6)


def _weight(place: int) -> str:
    """Return 2^place as people write it."""
    if place < -10 or place > 13:
        return f"2^{place}"
    return str(2**place) if place >= 0 else f"1/{2**-place}"


def _told(place: int, share: float) -> str:
    return f"from {_weight(place)} to {_weight(place + 1)}: {percent(share)}"
