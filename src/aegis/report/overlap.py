"""Overlap of candidate and log: importance weights by scope and level, the rewards in their declared range, and where the
candidate acts otherwise than its comparator; each with its picture.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from aegis.report.document import Document, Plain, Row, name_or_none
from aegis.report.numbers import format_brief, format_count, format_percent
from aegis.report.svg import Axis, diamond, label, line, picture, rectangle

WIDE = 4.0  # a declared range this many times as wide as the rewards seen is worth a word


def overlap_section(document: Document) -> Row:
    """Return the section."""
    items = [_weights(document, place, item) for place, item in enumerate(document.diagnostics("weights"))]
    first = [item for item in items if item["main"]] or items[:1]
    return {
        "blocking": document.content["blocking"] or "",
        "main": tuple(first),
        "others": tuple(item for item in items if item not in first),
        "rewards": _rewards(document),
    }


def _weights(document: Document, place: int, item: Plain) -> Row:
    level = item.get("level")
    name = document.title(item) if level is None else f"{level} on its own" + _candidate_suffix(document, item)
    zeros, bins = _weight_bins(item)
    return {
        "title": name,
        "effective": format_percent(item.get("ess_share")),
        "largest": format_brief(item.get("largest")),
        "top": format_percent(item.get("top_share")),
        "picture": weight_histogram(f"weights-{place}", f"Weights at {name}", bins, zeros),
        "main": _is_of_main(document, item),
    }


def _candidate_suffix(document: Document, item: Plain) -> str:
    return f" ({item['candidate']})" if document.several and item.get("candidate") else ""


def _weight_bins(item: Plain) -> tuple[float, list[tuple[int, float]]]:
    """Return the share of zeros and the other bins; a bin without a place holds zeros as well."""
    zeros = float(item.get("zero_share") or 0.0)
    bins = []
    for place, share in item.get("histogram") or ():
        if place is None:
            zeros += float(share)
        else:
            bins.append((round(place), float(share)))
    return zeros, bins


def _is_of_main(document: Document, item: Plain) -> bool:
    """Say whether the weights are those of the main scope, or of one of several levels in it."""
    main = document.main
    if main is None or item.get("candidate") != main["candidate"]:
        return False
    if item.get("level") is None:
        return document.is_main(item)
    return item["level"] in main["scope"] and len(main["scope"]) > 1


def _rewards(document: Document) -> Row | None:
    rewards = document.content["diagnostics"].get("rewards") or {}
    low, high, least, most = (rewards.get(key) for key in ("low", "high", "smallest", "largest"))
    if low is None or high is None or least is None or most is None:
        return None
    observed, declared = (" to ".join(map(format_brief, limits)) for limits in ((least, most), (low, high)))
    text = f"Rewards from {observed} were seen; the declared range is {declared}."
    if most > least and (high - low) / (most - least) >= WIDE:
        text += (
            f" It is {format_brief((high - low) / (most - least))} times as wide as the rewards: evidence grows more slowly in "
            "proportion. Declare a narrower range if the plant guarantees it."
        )
    title = "Rewards seen in their declared range"
    return {"picture": range_strip("rewards", title, low, high, (least, most), rewards.get("mean")), "text": text}


def level_differences(document: Document) -> tuple[Row, ...]:
    """Return the differences by candidate and level, those of the main scope first."""
    items = sorted(document.diagnostics("differs"), key=lambda item: not _level_in_main(document, item))
    return tuple(_difference(document, place, item) for place, item in enumerate(items))


def _difference(document: Document, place: int, item: Plain) -> Row:
    name = name_or_none(item.get("level")) + _candidate_suffix(document, item)
    actions, policy, legacy = item.get("actions") or [], item.get("policy") or [], item.get("comparator", item.get("legacy"))
    known = bool(actions) and len(actions) == len(policy) and (legacy is None or len(legacy) == len(actions))
    favourite = item.get("favourite_differs")
    return {
        "title": name,
        "decisions": format_count(item.get("decisions")),
        "differs": format_percent(item.get("total_variation")),
        "favourite": "" if favourite is None else format_percent(favourite),
        "bins": tuple(_context_bin(part) for part in item.get("bins") or ()),
        "picture": action_bars(f"actions-{place}", f"Mean probability of each action at {name}", actions, policy, legacy)
        if known
        else None,
        "legacy_known": legacy is not None,
    }


def _context_bin(part: Plain) -> Row:
    share = part.get("total_variation")
    return {
        "variable": name_or_none(part.get("variable")),
        "label": name_or_none(part.get("label")),
        "decisions": format_count(part.get("decisions")),
        "differs": format_percent(share),
        "share": min(max(share or 0.0, 0.0), 1.0),  # the length of a bar; the number beside it is as it came
    }


def _level_in_main(document: Document, item: Plain) -> bool:
    main = document.main
    return main is not None and item.get("candidate") == main["candidate"] and item.get("level") in main["scope"]


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
    middle, words = (HISTOGRAM_LEFT + HISTOGRAM_RIGHT) / 2, "weight (1: as likely under the candidate)"
    shapes += [
        line(HISTOGRAM_LEFT, HISTOGRAM_BOTTOM, HISTOGRAM_RIGHT, HISTOGRAM_BOTTOM, "zero"),
        line(across(0), HISTOGRAM_TOP - 6, across(0), HISTOGRAM_BOTTOM, "one"),
        label(middle, HISTOGRAM_HEIGHT - 6, words, "tick axis-name"),
    ]
    text = "; ".join([*([f"weight 0: {format_percent(zeros)}"] if zeros > 0 else []), *[_describe_bin(*item) for item in bins]])
    return picture(name, (HISTOGRAM_WIDTH, HISTOGRAM_HEIGHT), title, text or "no weights", *shapes)


def _bar(across: Axis, up: Axis, place: float, share: float, style: str) -> list[Markup]:
    left, right = across(place), across(place + 1)
    shapes = [rectangle(left + 1, right - 1, up(share), HISTOGRAM_BOTTOM, style)]
    if right - left >= 30 and share >= 0.005:
        shapes.append(label((left + right) / 2, up(share) - 4, format_percent(round(share, 2))))
    return shapes


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
    shares = [format_percent(share) for share in policy]
    if legacy is not None:
        shares = [f"candidate {share}, comparator {format_percent(own)}" for share, own in zip(shares, legacy, strict=True)]
    return "; ".join(f"{action}: {share}" for action, share in zip(actions, shares, strict=True))


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
