"""One row for each candidate and scope: what is certified there."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from aegis.certificate.certificate import CERTIFIED, NOT_YET
from aegis.certificate.results import FORESEEABLE, THIN
from aegis.certificate.verdicts import MANY
from aegis.report.charts.gain_bar import Gain, gain_bar, shared_axis
from aegis.report.document import Document, Plain
from aegis.report.numbers import DOWN, UP, brief, count
from aegis.report.words import Face, face

NOTHING = "none certified"


@dataclass(frozen=True, slots=True)
class GuardLine:
    """A guard in words."""

    face: Face
    column: str
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A result as it is written; bounds of a refused one are `none`."""

    scope: str
    candidate: str
    comparator: str
    main: bool
    face: Face
    reason: str
    gain: str
    gain_exact: str
    estimate: str
    bar: Markup
    value: str
    values: str
    further: str
    guards: tuple[GuardLine, ...]


def rows(document: Document) -> tuple[Row, ...]:
    """Return all rows, the main one first."""
    gains = [known_gain(document, level) for level in document.levels]
    axis = shared_axis(gains)
    found = []
    for place, (level, gain) in enumerate(zip(document.levels, gains, strict=True)):
        title = f"Gain at {document.title(level)}"
        found.append(_row(document, level, gain, gain_bar(f"gain-{place}", title, gain, axis, document.amounts)))
    return tuple(found)


def known_gain(document: Document, item: Plain) -> Gain:
    """Return what may be shown of the gain of a result or subgroup: no bound if it is refused."""
    lower = None if document.is_refused(item) else item.get("gain_lower")
    return Gain(lower, item.get("estimate"), item.get("estimate_error"), item.get("margin") or 0.0)


def gain_text(document: Document, gain: Gain) -> str:
    """Return a bound in words."""
    return NOTHING if gain.lower is None else f"at least {document.amounts.show(gain.lower, DOWN, sign=True)}"


def estimate_text(document: Document, gain: Gain) -> str:
    """Return an estimate with its standard error; empty if there is none."""
    if gain.estimate is None:
        return ""
    error = "" if gain.error is None else f" \u00b1 {document.amounts.show(gain.error)}"
    return document.amounts.show(gain.estimate, sign=True) + error


def _row(document: Document, level: Plain, gain: Gain, bar: Markup) -> Row:
    return Row(
        document.scope(level),
        level["candidate"],
        _comparator(level),
        level is document.main,
        face(level["verdict"]),
        level["reason"],
        gain_text(document, gain),
        "" if gain.lower is None else f"exactly {gain.lower!r}",
        estimate_text(document, gain),
        bar,
        _value(document, level),
        _values(document, level),
        _further(document, level),
        tuple(guard_line(document, level, guard) for guard in level["guards"]),
    )


def _comparator(level: Plain) -> str:
    """Return who the candidate is compared with, and how the other levels act; empty where nothing is compared."""
    words = [str(level.get(name) or "") for name in ("comparator", "others")]
    return ", ".join(word for word in words if word)


def _value(document: Document, level: Plain) -> str:
    """Return the certified value: the largest cost where small is good, else the smallest earning."""
    lower = level["value_lower"]
    if lower is None or document.is_refused(level):
        return NOTHING
    return (
        f"at most {document.amounts.show(lower, UP)}" if document.minimise else f"at least {document.amounts.show(lower, DOWN)}"
    )


def _values(document: Document, level: Plain) -> str:
    """Return what candidate, incumbent and log are estimated to earn; empty if none is."""
    both = (
        ("candidate", level["value_estimate"]),
        ("incumbent", level.get("incumbent_value")),
        ("log", level["legacy_value"]),
    )
    most = "" if not level.get("unreached") else "at least " if document.minimise else "at most "
    return ", ".join(
        f"{who} {most if who == 'incumbent' else ''}{document.amounts.show(value)}" for who, value in both if value is not None
    )


def _further(document: Document, level: Plain) -> str:
    if level["verdict"] == CERTIFIED:
        return "none"
    if level["verdict"] != NOT_YET:
        return "first repair what refuses"
    further = level["further_units"]
    if further is None:
        return further_words(level)
    return f"{foreseen(further)} {document.unit_word.removesuffix('s') if further == 1 else document.unit_word}"


def foreseen(further: int) -> str:
    """Return a forecast of how many further units it takes; a number beyond all use is not written out."""
    return f"more than {MANY // 10**6} million" if further > MANY else f"about {count(further)}"


def further_words(level: Plain) -> str:
    """Return why it is not said how many further units it would take."""
    effective = (level.get("weights") or {}).get("effective_units")
    thin = effective is not None and effective < THIN and level["units"] >= FORESEEABLE
    return "not to be foreseen: hardly any decisions are like the candidate's" if thin else "more of the same would not do"


def guard_line(document: Document, level: Plain, guard: Plain) -> GuardLine:
    """Return a guard of a result in words; a worsening is rounded up."""
    change, allowed = guard["change_lower"], brief(guard["max_worsening"])
    if document.is_refused(level):
        return GuardLine(face("refused"), guard["column"], "is not certified")
    if change is None:
        return GuardLine(face(guard["verdict"]), guard["column"], f"has no bound yet; allowed: worse by {allowed}")
    if change >= 0:
        return GuardLine(
            face(guard["verdict"]), guard["column"], f"gets better by at least {brief(change, DOWN)}; allowed: worse by {allowed}"
        )
    return GuardLine(
        face(guard["verdict"]), guard["column"], f"gets worse by at most {brief(-change, UP)}; allowed: worse by {allowed}"
    )
