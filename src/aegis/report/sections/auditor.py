"""For the auditor: every test as it was made, and where everything came from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aegis.report.document import Document, Plain
from aegis.report.numbers import count

GROUPS = ("counts", "splits", "candidates", "digests", "settings", "versions")


@dataclass(frozen=True, slots=True)
class TestLine:
    """One test: what was claimed and by which method, at which share of the risk; numbers as stored, on the scale from 0 to 1."""

    scope: str
    what: str
    method: str
    delta: str
    margin: str
    lower: str
    units: str
    certified: str


@dataclass(frozen=True, slots=True)
class Group:
    """Named values, such as the versions."""

    title: str
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Auditor:
    """Everything of the fold-out."""

    tests: tuple[TestLine, ...]
    groups: tuple[Group, ...]
    problem: str
    created: str
    seal: str


def auditor(document: Document) -> Auditor:
    """Return the fold-out."""
    content = document.content
    tests = [_test(document, level, test) for level in document.levels for test in level["tests"]]
    groups = [Group(name.capitalize(), tuple(_entries(content[name]))) for name in GROUPS if content.get(name)]
    text = json.dumps(content["problem"], indent=1, ensure_ascii=False)
    return Auditor(tuple(tests), tuple(groups), text, content["created"], content["seal"])


def _test(document: Document, level: Plain, test: Plain) -> TestLine:
    refused = document.is_refused(level)
    return TestLine(
        document.title(level),
        f"{test['what']} of \u2018{test['column']}\u2019",
        " + ".join(test["method"]) or "none",
        _plain(test["delta"]),
        _plain(test["margin_scaled"]),
        "refused" if refused else _plain(test["lower_scaled"]),
        count(test["units"]),
        "no (refused)" if refused else "yes" if test["certified"] else "no",
    )


def _entries(value: Any, name: str = "") -> list[tuple[str, str]]:
    """Return nested data as lines of names joined by dots and values."""
    if isinstance(value, Mapping):
        return [line for key, item in value.items() for line in _entries(item, f"{name}.{key}" if name else str(key))]
    if isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        return [line for place, item in enumerate(value, 1) for line in _entries(item, f"{name}.{place}" if name else str(place))]
    return [(name, _plain(value))]


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_plain(item) for item in value) or "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "none" if value is None else str(value)
