"""Overlap of candidate and log: importance weights by scope and level, the rewards in their declared range, and where the
candidate acts otherwise than its comparator.
"""

from __future__ import annotations

from aegis.report.charts.overlap_charts import action_bars, range_strip, weight_histogram
from aegis.report.document import Document, Plain, Row, name_or_none
from aegis.report.numbers import format_brief, format_count, format_percent

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
