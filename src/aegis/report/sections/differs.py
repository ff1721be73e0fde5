"""Where the candidate acts otherwise than its comparator."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from aegis.report.charts.actions import action_bars
from aegis.report.document import Document, Plain
from aegis.report.numbers import count, percent
from aegis.report.words import named


@dataclass(frozen=True, slots=True)
class Bin:
    """A part of the contexts; `share` in [0, 1] is how much the two differ there."""

    variable: str
    label: str
    decisions: str
    differs: str
    share: float


@dataclass(frozen=True, slots=True)
class LevelDifference:
    """The difference at one level."""

    title: str
    decisions: str
    differs: str
    favourite: str
    bins: tuple[Bin, ...]
    picture: Markup | None
    legacy_known: bool


def differs(document: Document) -> tuple[LevelDifference, ...]:
    """Return the differences by candidate and level, those of the main scope first."""
    items = sorted(document.diagnostics("differs"), key=lambda item: not _in_main(document, item))
    return tuple(_difference(document, place, item) for place, item in enumerate(items))


def _difference(document: Document, place: int, item: Plain) -> LevelDifference:
    name = named(item.get("level")) + (f" ({item['candidate']})" if document.several and item.get("candidate") else "")
    actions, policy, legacy = item.get("actions") or [], item.get("policy") or [], item.get("comparator", item.get("legacy"))
    known = bool(actions) and len(actions) == len(policy) and (legacy is None or len(legacy) == len(actions))
    favourite = item.get("favourite_differs")
    return LevelDifference(
        name,
        count(item.get("decisions")),
        percent(item.get("total_variation")),
        "" if favourite is None else percent(favourite),
        tuple(_bin(part) for part in item.get("bins") or ()),
        action_bars(f"actions-{place}", f"Mean probability of each action at {name}", actions, policy, legacy) if known else None,
        legacy is not None,
    )


def _bin(part: Plain) -> Bin:
    share = part.get("total_variation")
    return Bin(
        named(part.get("variable")),
        named(part.get("label")),
        count(part.get("decisions")),
        percent(share),
        min(max(share or 0.0, 0.0), 1.0),  # the length of a bar; the number beside it is as it came
    )


def _in_main(document: Document, item: Plain) -> bool:
    main = document.main
    return main is not None and item.get("candidate") == main["candidate"] and item.get("level") in main["scope"]
