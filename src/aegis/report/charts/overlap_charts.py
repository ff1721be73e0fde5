"""Charts of the overlap: histogram of importance weights, mean probability of each action, rewards in their declared range."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from aegis.report.numbers import format_brief, format_percent
from aegis.report.svg import Axis, diamond, label, line, picture, rectangle

HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT = 300.0, 130.0

HISTOGRAM_LEFT, HISTOGRAM_RIGHT, HISTOGRAM_TOP, HISTOGRAM_BOTTOM = 8.0, 292.0, 18.0, 92.0

HISTOGRAM_GAP = 1.0  # doublings between the bar of the zeros and the others

MOST_LABELS = 7


def weight_histogram(name: str, title: str, bins: Sequence[tuple[int, float]], zeros: float) -> Markup:
    """Return the histogram of bins (i, share), each holding weights from 2^i to 2^(i+1), and the share of zeros."""
    places = [place for place, _ in bins] or [0]
    low, high = min(*places, -1), max(*places, 0) + 1
    start = low - HISTOGRAM_GAP - 1 if zeros > 0 else low
    across = Axis(float(start), float(high), HISTOGRAM_LEFT, HISTOGRAM_RIGHT)
    up = Axis(0.0, max([zeros, *[share for _, share in bins]], default=1.0) or 1.0, HISTOGRAM_BOTTOM, HISTOGRAM_TOP)
    shapes = []
    if zeros > 0:
        shapes += _bar(across, up, start, zeros, "weight-zero")
        shapes.append(label(across(start + 0.5), HISTOGRAM_BOTTOM + 14, "0"))
    for place, share in bins:
        shapes += _bar(across, up, place, share, "weight")
    step = max(1, -(-(high - low) // MOST_LABELS))
    for place in range(low, high + 1):
        if place % step == 0:
            shapes.append(label(_inside(across(place)), HISTOGRAM_BOTTOM + 14, _weight_label(place)))
    shapes += [
        line(HISTOGRAM_LEFT, HISTOGRAM_BOTTOM, HISTOGRAM_RIGHT, HISTOGRAM_BOTTOM, "zero"),
        line(across(0), HISTOGRAM_TOP - 6, across(0), HISTOGRAM_BOTTOM, "one"),
    ]
    shapes.append(
        label(
            (HISTOGRAM_LEFT + HISTOGRAM_RIGHT) / 2,
            HISTOGRAM_HEIGHT - 6,
            "weight (1: as likely under the candidate)",
            "tick axis-name",
        )
    )
    text = "; ".join([*([f"weight 0: {format_percent(zeros)}"] if zeros > 0 else []), *[_describe_bin(*item) for item in bins]])
    return picture(name, (HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT), title, text or "no weights", *shapes)


def _bar(across: Axis, up: Axis, place: float, share: float, style: str) -> list[Markup]:
    left, right = across(place), across(place + 1)
    text = (
        label((left + right) / 2, up(share) - 4, format_percent(round(share, 2)))
        if right - left >= 30 and share >= 0.005
        else None
    )
    bar = rectangle(left + 1, right - 1, up(share), HISTOGRAM_BOTTOM, style)
    return [bar] if text is None else [bar, text]


def _inside(place: float) -> float:
    return min(max(place, HISTOGRAM_LEFT + 6), HISTOGRAM_RIGHT - 6)


def _weight_label(place: int) -> str:
    """Return 2^place as people write it."""
    if place < -10 or place > 13:
        return f"2^{place}"
    return str(2**place) if place >= 0 else f"1/{2**-place}"


def _describe_bin(place: int, share: float) -> str:
    return f"from {_weight_label(place)} to {_weight_label(place + 1)}: {format_percent(share)}"


ACTIONS_WIDTH, ACTIONS_HEIGHT = 320.0, 140.0

ACTIONS_LEFT, ACTIONS_RIGHT, ACTIONS_TOP, ACTIONS_BOTTOM = 48.0, 314.0, 10.0, 112.0

ACTIONS_LETTERS = 38  # of 7 pixels each that fit below the axis

LONGEST_ACTION = 12


def action_bars(name: str, title: str, actions: Sequence[str], policy: Sequence[float], legacy: Sequence[float] | None) -> Markup:
    """Return the mean probabilities of all actions under the candidate and, where known, its comparator."""
    across = Axis(0.0, float(len(actions)), ACTIONS_LEFT, ACTIONS_RIGHT)
    up = Axis(0.0, max([*policy, *(legacy or ()), 0.01]), ACTIONS_BOTTOM, ACTIONS_TOP)
    shapes = []
    for value in up.ticks(3):
        shapes += [
            line(ACTIONS_LEFT, up(value), ACTIONS_RIGHT, up(value), "grid"),
            label(ACTIONS_LEFT - 5, up(value) + 4, format_percent(value), anchor="end"),
        ]
    start = 0.1 if legacy is None else 0.5  # alone, a bar takes the whole place of its action
    shapes += [
        rectangle(across(i + start), across(i + 0.9), up(share), ACTIONS_BOTTOM, "candidate") for i, share in enumerate(policy)
    ]
    shapes += [
        rectangle(across(i + 0.1), across(i + 0.5), up(share), ACTIONS_BOTTOM, "legacy") for i, share in enumerate(legacy or ())
    ]
    texts = [_action_label(action) for action in actions]
    widest = max((len(text) for text in texts), default=1) + 2
    step = max(1, -(-len(texts) * widest // ACTIONS_LETTERS))
    shapes += [label(across(place + 0.5), ACTIONS_BOTTOM + 16, texts[place]) for place in range(0, len(texts), step)]
    shapes.append(line(ACTIONS_LEFT, ACTIONS_BOTTOM, ACTIONS_RIGHT, ACTIONS_BOTTOM, "zero"))
    return picture(name, (ACTIONS_WIDTH, ACTIONS_HEIGHT), title, _describe_actions(actions, policy, legacy), *shapes)


def _action_label(text: str) -> str:
    """Return an action as it fits below the axis; a number of a grid without the noise of its last digits."""
    try:
        return format_brief(float(text))
    except ValueError:
        return text if len(text) <= LONGEST_ACTION else text[: LONGEST_ACTION - 1] + "\u2026"


def _describe_actions(actions: Sequence[str], policy: Sequence[float], legacy: Sequence[float] | None) -> str:
    if legacy is None:
        return "; ".join(f"{action}: {format_percent(share)}" for action, share in zip(actions, policy, strict=True))
    pairs = zip(actions, policy, legacy, strict=True)
    return "; ".join(
        f"{action}: candidate {format_percent(share)}, comparator {format_percent(other)}" for action, share, other in pairs
    )


STRIP_WIDTH, STRIP_HEIGHT = 320.0, 48.0


def range_strip(name: str, title: str, low: float, high: float, observed: tuple[float, float], mean: float | None) -> Markup:
    """Return the strip from low to high with what was seen on it; what lies outside the range widens the picture."""
    across = Axis.around([low, high, *observed], 6.0, STRIP_WIDTH - 6.0, 0.0)
    shapes = [
        rectangle(across(low), across(high), 8, 26, "legacy"),
        rectangle(across(observed[0]), across(observed[1]), 11, 23, "weight"),
    ]
    if mean is not None:
        shapes.append(diamond(across(mean), 17, 7, "estimate-mark"))
    shapes += [
        label(across(low), 42, format_brief(low), anchor="start"),
        label(across(high), 42, format_brief(high), anchor="end"),
    ]
    declared, observed_words = (" to ".join(map(format_brief, limits)) for limits in ((low, high), observed))
    caption = f"Declared from {declared}; seen from {observed_words}."
    return picture(name, (STRIP_WIDTH, STRIP_HEIGHT), title, caption, *shapes)
