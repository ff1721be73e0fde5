"""What candidate and comparator do on average: two bars for each action, one solid, one an outline."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from aegis.report.numbers import brief, percent
from aegis.report.svg import Axis, label, line, picture, rectangle

WIDTH, HEIGHT = 320.0, 140.0
LEFT, RIGHT, TOP, BOTTOM = 48.0, 314.0, 10.0, 112.0
LETTERS = 38  # of 7 pixels each that fit below the axis
LONGEST = 12


def action_bars(name: str, title: str, actions: Sequence[str], policy: Sequence[float], legacy: Sequence[float] | None) -> Markup:
    """Return the mean probabilities of all actions under the candidate and, where known, its comparator."""
    across = Axis(0.0, float(len(actions)), LEFT, RIGHT)
    up = Axis(0.0, max([*policy, *(legacy or ()), 0.01]), BOTTOM, TOP)
    shapes = []
    for value in up.ticks(3):
        shapes += [line(LEFT, up(value), RIGHT, up(value), "grid"), label(LEFT - 5, up(value) + 4, percent(value), anchor="end")]
    start = 0.1 if legacy is None else 0.5  # alone, a bar takes the whole place of its action
    shapes += [rectangle(across(i + start), across(i + 0.9), up(share), BOTTOM, "candidate") for i, share in enumerate(policy)]
    shapes += [rectangle(across(i + 0.1), across(i + 0.5), up(share), BOTTOM, "legacy") for i, share in enumerate(legacy or ())]
    texts = [_short(action) for action in actions]
    widest = max((len(text) for text in texts), default=1) + 2
    step = max(1, -(-len(texts) * widest // LETTERS))
    shapes += [label(across(place + 0.5), BOTTOM + 16, texts[place]) for place in range(0, len(texts), step)]
    shapes.append(line(LEFT, BOTTOM, RIGHT, BOTTOM, "zero"))
    return picture(name, (WIDTH, HEIGHT), title, _told(actions, policy, legacy), *shapes)


def _short(text: str) -> str:
    """Return an action as it fits below the axis; a number of a grid without the noise of its last digits."""
    try:
        return brief(float(text))
    except ValueError:
        return text if len(text) <= LONGEST else text[: LONGEST - 1] + "\u2026"


def _told(actions: Sequence[str], policy: Sequence[float], legacy: Sequence[float] | None) -> str:
    if legacy is None:
        return "; ".join(f"{action}: {percent(share)}" for action, share in zip(actions, policy, strict=True))
    pairs = zip(actions, policy, legacy, strict=True)
    return "; ".join(f"{action}: candidate {percent(share)}, comparator {percent(other)}" for action, share, other in pairs)
