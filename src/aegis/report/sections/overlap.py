"""How much of the log speaks for the candidate: its weights, by scope and by level, and how the rewards fill their range."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from aegis.report.charts.histogram import weight_histogram
from aegis.report.charts.strip import range_strip
from aegis.report.document import Document, Plain
from aegis.report.numbers import brief, percent

WIDE = 4.0  # a declared range this many times as wide as the rewards seen is worth a word


@dataclass(frozen=True, slots=True)
class Weights:
    """The weights of one scope, or of one level alone."""

    title: str
    effective: str
    largest: str
    top: str
    picture: Markup
    main: bool


@dataclass(frozen=True, slots=True)
class Rewards:
    """The rewards seen, in their declared range."""

    picture: Markup
    text: str


@dataclass(frozen=True, slots=True)
class Overlap:
    """Everything of the section; `main` are the pictures of the main scope and its levels, `others` the rest."""

    blocking: str
    main: tuple[Weights, ...]
    others: tuple[Weights, ...]
    rewards: Rewards | None


def overlap(document: Document) -> Overlap:
    """Return the section."""
    items = [_weights(document, place, item) for place, item in enumerate(document.diagnostics("weights"))]
    first = [item for item in items if item.main] or items[:1]
    return Overlap(
        document.content["blocking"] or "", tuple(first), tuple(item for item in items if item not in first), _rewards(document)
    )


def _weights(document: Document, place: int, item: Plain) -> Weights:
    level = item.get("level")
    name = document.title(item) if level is None else f"{level} on its own" + _by(document, item)
    zeros, bins = _bins(item)
    return Weights(
        name,
        percent(item.get("ess_share")),
        brief(item.get("largest")),
        percent(item.get("top_share")),
        weight_histogram(f"weights-{place}", f"Weights at {name}", bins, zeros),
        _belongs(document, item),
    )


def _by(document: Document, item: Plain) -> str:
    return f" ({item['candidate']})" if document.several and item.get("candidate") else ""


def _bins(item: Plain) -> tuple[float, list[tuple[int, float]]]:
    """Return the share of zeros and the other bins; a bin without a place holds zeros as well."""
    zeros = float(item.get("zero_share") or 0.0)
    bins = []
    for place, share in item.get("histogram") or ():
        if place is None:
            zeros += float(share)
        else:
            bins.append((round(place), float(share)))
    return zeros, bins


def _belongs(document: Document, item: Plain) -> bool:
    """Say whether the weights are those of the main scope, or of one of several levels in it."""
    main = document.main
    if main is None or item.get("candidate") != main["candidate"]:
        return False
    if item.get("level") is None:
        return document.is_main(item)
    return item["level"] in main["scope"] and len(main["scope"]) > 1


def _rewards(document: Document) -> Rewards | None:
    found = document.content["diagnostics"].get("rewards") or {}
    low, high, least, most = (found.get(key) for key in ("low", "high", "smallest", "largest"))
    if low is None or high is None or least is None or most is None:
        return None
    text = f"Rewards from {brief(least)} to {brief(most)} were seen; the declared range is {brief(low)} to {brief(high)}."
    if most > least and (high - low) / (most - least) >= WIDE:
        text += (
            f" It is {brief((high - low) / (most - least))} times as wide as the rewards: evidence grows more slowly in "
            "proportion. Declare a narrower range if the plant guarantees it."
        )
    return Rewards(
        range_strip("rewards", "Rewards seen in their declared range", low, high, (least, most), found.get("mean")), text
    )
