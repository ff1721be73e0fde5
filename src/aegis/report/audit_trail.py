"""The audit trail: findings, earlier looks, sensitivity to wrong propensities, every test, digests and settings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aegis.certificate import CERTIFIED, RiskShare
from aegis.report.document import ALERT, DOT, STOP, Document, Face, Plain, Row, verdict_face
from aegis.report.numbers import DOWN, UP, format_brief, format_count, format_percent, format_risk

SEVERITY_ORDER = ("refused", "warning", "note")  # the gravest first

SEVERITY_FACES = {
    "refused": Face("Refuses", "refused", STOP),
    "warning": Face("Warning", "not-yet", ALERT),
    "note": Face("Note", "neutral", DOT),
}


def finding_lines(document: Document) -> tuple[Row, ...]:
    """Return the findings, the gravest first."""
    items = sorted(document.content["findings"], key=lambda item: _gravity(item.get("severity")))
    return tuple(_finding(item) for item in items)


def ledger_looks(document: Document) -> Row | None:
    """Return the looks; None if none were recorded."""
    looks = document.content["looks"]
    if not looks:
        return None
    earlier = tuple(_look(item) for item in looks.get("earlier") or ())
    share = RiskShare.of(document.verdict["delta"], document.content["settings"].get("risk"))
    words = ""
    if share.requests > 1 and not document.refused:
        total = format_risk(share.total)
        words = f"This request was tested at risk {format_risk(share.risk)}; the risk of {share.words} is at most {total}."
    others = sum(not look["same"] for look in earlier)
    return {
        "number": looks.get("number", 1),
        "earlier": earlier,
        "others": others,
        "ledger": str(looks.get("ledger") or ""),
        "share": words,
        "fixed_before": share.fixed_before,
    }


def _gravity(severity: str | None) -> int:
    return SEVERITY_ORDER.index(severity) if severity in SEVERITY_ORDER else len(SEVERITY_ORDER)


def _finding(item: Plain) -> Row:
    places = [f"{what} \u2018{item[what]}\u2019" for what in ("level", "column") if item.get(what)]
    figures = [f"{name}: {_figure(value)}" for name, value in (item.get("figures") or {}).items()]
    severity = item.get("severity")
    return {
        "face": SEVERITY_FACES.get(str(severity)) or verdict_face(severity),
        "code": item["code"],
        "place": ", ".join(places),
        "message": item["message"],
        "fix": item["fix"],
        "figures": "; ".join(figures),
    }


def _figure(value: Any) -> str:
    return format_brief(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _look(item: Plain) -> Row:
    names = [str(name["name"]) if isinstance(name, Mapping) else str(name) for name in item.get("candidates") or ()]
    return {
        "when": str(item.get("when")),
        "candidates": ", ".join(names),
        "verdict": str(item.get("verdict") or "not finished"),
        "same": bool(item.get("same")),
    }


EXAMPLE_PROPENSITY = 0.2  # a logged probability that everybody can picture


def sensitivity_lines(document: Document) -> tuple[Row, ...]:
    """Return one line for each certified result, the main one first."""
    if document.refused:
        return ()
    certified = [level for level in document.levels if level["verdict"] == CERTIFIED]
    pairs = ((level, level.get("sensitivity")) for level in certified)  # older certificates have no such key
    return tuple(_sensitivity_line(document, level, item) for level, item in pairs if item is not None and item["tried"])


def _sensitivity_line(document: Document, level: Plain, item: Plain) -> Row:
    place, gamma = document.title(level), item["gamma"]
    if gamma is None:
        return {"text": f"{place}: it could not be found out; {item['reason']}.", "note": "", "survives": False}
    tests = f"on {format_count(item['units'])} {document.unit_word}, by these tests: {item['method']}"
    note = f"{tests}; {item['reason']}" if item["reason"] else tests
    if gamma == 1:
        first = format_brief(item["tried"][0])
        text = f"it relies on the logged probabilities being right; errors by a factor of {first} are more than it survives"
        return {"text": f"{place}: {text}.", "note": note, "survives": False}
    text = (
        f"it stays certified even if every logged probability is wrong by a factor of up to {format_brief(gamma)}; a logged "
        f"{format_percent(EXAMPLE_PROPENSITY)} may then in truth have been anything from "
        f"{format_percent(EXAMPLE_PROPENSITY / gamma, UP)} to "
        f"{format_percent(min(1.0, EXAMPLE_PROPENSITY * gamma), DOWN)}"
    )
    return {"text": f"{place}: {text}.", "note": note, "survives": True}


ENTRY_GROUPS = ("counts", "splits", "candidates", "digests", "settings", "versions")


def audit_trail(document: Document) -> Row:
    """Return the fold-out."""
    content = document.content
    tests = [_test(document, level, test) for level in document.levels for test in level["tests"]]
    groups = [{"title": name.capitalize(), "entries": _entries(content[name])} for name in ENTRY_GROUPS if content.get(name)]
    text = json.dumps(content["problem"], indent=1, ensure_ascii=False)
    return {"tests": tests, "groups": groups, "problem": text, "created": content["created"], "seal": content["seal"]}


def _test(document: Document, level: Plain, test: Plain) -> Row:
    refused = document.is_refused(level)
    return {
        "scope": document.title(level),
        "what": f"{test['what']} of \u2018{test['column']}\u2019",
        "method": " + ".join(test["method"]) or "none",
        "delta": _entry_text(test["delta"]),
        "margin": _entry_text(test["margin_scaled"]),
        "lower": "refused" if refused else _entry_text(test["lower_scaled"]),
        "units": format_count(test["units"]),
        "certified": "no (refused)" if refused else "yes" if test["certified"] else "no",
    }


def _entries(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Return nested data as lines of names joined by dots and values."""
    if isinstance(value, Mapping):
        return [line for key, item in value.items() for line in _entries(item, f"{name}.{key}" if name else str(key))]
    if isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        return [line for place, item in enumerate(value, 1) for line in _entries(item, f"{name}.{place}" if name else str(place))]
    return [(name, _entry_text(value))]


def _entry_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_entry_text(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
