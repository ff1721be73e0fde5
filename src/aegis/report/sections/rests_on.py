"""What the certificate rests on: assumptions, findings, and earlier looks at the same data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aegis.certificate.family import Share
from aegis.report.document import Document, Plain
from aegis.report.numbers import brief, risk
from aegis.report.words import ALERT, DOT, STOP, Face, face

SEVERITIES = ("refused", "warning", "note")  # the gravest first
FACES = {
    "refused": Face("Refuses", "refused", STOP),
    "warning": Face("Warning", "not-yet", ALERT),
    "note": Face("Note", "neutral", DOT),
}


@dataclass(frozen=True, slots=True)
class FindingLine:
    """A finding with its place and the figures behind it."""

    face: Face
    code: str
    place: str
    message: str
    fix: str
    figures: str


@dataclass(frozen=True, slots=True)
class LookLine:
    """An earlier look at the same data."""

    when: str
    candidates: str
    verdict: str
    same: bool


@dataclass(frozen=True, slots=True)
class Looks:
    """All looks; `others` are those that asked something else. share: how the risk is shared with them, in words.

    fixed_before: the written declaration that the request was fixed before results.
    """

    number: int
    earlier: tuple[LookLine, ...]
    others: int
    ledger: str
    share: str = ""
    fixed_before: str = ""


def findings(document: Document) -> tuple[FindingLine, ...]:
    """Return the findings, the gravest first."""
    items = sorted(document.content["findings"], key=lambda item: _gravity(item.get("severity")))
    return tuple(_finding(item) for item in items)


def looks(document: Document) -> Looks | None:
    """Return the looks; None if none were recorded."""
    found = document.content["looks"]
    if not found:
        return None
    earlier = tuple(_look(item) for item in found.get("earlier") or ())
    share = Share.of(document.verdict["delta"], document.content["settings"].get("risk"))
    words = ""
    if share.requests > 1 and not document.refused:
        words = f"This request was tested at risk {risk(share.risk)}; the risk of {share.words} is at most {risk(share.total)}."
    others = sum(not look.same for look in earlier)
    return Looks(found.get("number", 1), earlier, others, str(found.get("ledger") or ""), words, share.fixed_before)


def _gravity(severity: str | None) -> int:
    return SEVERITIES.index(severity) if severity in SEVERITIES else len(SEVERITIES)


def _finding(item: Plain) -> FindingLine:
    places = [f"{what} \u2018{item[what]}\u2019" for what in ("level", "column") if item.get(what)]
    figures = [f"{name}: {_figure(value)}" for name, value in (item.get("figures") or {}).items()]
    severity = item.get("severity")
    return FindingLine(
        FACES.get(str(severity)) or face(severity),
        item["code"],
        ", ".join(places),
        item["message"],
        item["fix"],
        "; ".join(figures),
    )


def _figure(value: Any) -> str:
    return brief(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _look(item: Plain) -> LookLine:
    names = [str(name["name"]) if isinstance(name, Mapping) else str(name) for name in item.get("candidates") or ()]
    return LookLine(str(item.get("when")), ", ".join(names), str(item.get("verdict") or "not finished"), bool(item.get("same")))
