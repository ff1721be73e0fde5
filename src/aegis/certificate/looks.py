"""Looks as they are written down: one file of JSON for each data set, read as far as it can be.

A file may be damaged: cut off, edited, half synchronised. Every look that can be read in it still counts, and every place that
cannot be read counts as one look, which it was at least. Nothing is mended: the file stays as it is until somebody restores it.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

Behaviours = Mapping[str, Mapping[str, str]]  # by candidate and level
Files = Sequence[Mapping[str, Any]]  # name, digest and, once they are known, checksums of the rows

UNREADABLE = "cannot be read"  # in the place of a verdict
_LOOK = re.compile(r'\{\s*"key"\s*:')  # as a look begins
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class Look:
    """A look that was declared: what would be tested, when, and, once they are known, the verdict and how code behaved.

    part: it was taken at data that share only a part with those of the ledger that was asked, or may do so. damaged: the file and
    line that cannot be read, in words, if this stands for what was written there.
    """

    key: str
    when: str
    declared: Mapping[str, Any]
    verdict: str | None = None
    behaviour: Behaviours = field(default_factory=dict)
    part: bool = False
    damaged: str = ""

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        named = {name: dict(levels) for name, levels in self.behaviour.items()}
        return {
            "key": self.key,
            "when": self.when,
            "declared": dict(self.declared),
            "verdict": self.verdict,
            "behaviour": named,
        }

    @classmethod
    def of(cls, item: Any) -> Look:
        """Return a look from plain data; ValueError, KeyError or TypeError if it is none."""
        declared, behaviour = item["declared"], dict(item.get("behaviour") or {})
        texts = [item["key"], item["when"], *([] if item["verdict"] is None else [item["verdict"]])]
        mappings = [declared, *behaviour.values(), *declared.get("candidates", [])]
        if not all(isinstance(text, str) for text in texts) or not all(isinstance(part, Mapping) for part in mappings):
            raise ValueError("not a look")
        return cls(item["key"], item["when"], declared, item["verdict"], behaviour)

    def same(self, key: str, behaviour: Behaviours) -> bool:
        """Say whether a look under `key` repeats this one: the same claims about policies that are known to be the same.

        A policy that has no digest is never known to be; one that is code has to behave as it did.
        """
        if self.key != key or self.part or self.damaged:
            return False
        if any(candidate.get("digest") is None for candidate in self.declared.get("candidates", [])):
            return False
        both = set(self.behaviour) & set(behaviour)
        return all(dict(self.behaviour[name]) == dict(behaviour[name]) for name in both)


@dataclass(frozen=True, slots=True)
class Kept:
    """What a file holds: looks, the files of its data (None if these cannot be read), and one look for each damaged place."""

    looks: tuple[Look, ...] = ()
    files: Files | None = ()
    damaged: tuple[Look, ...] = ()


def read_looks(path: Path) -> Kept:
    """Return what can be read of a file of looks; nothing if there is none."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Kept()
    except OSError as error:
        return Kept(files=None, damaged=(_damaged(path, f"{error.strerror or error}"),))
    text = raw.decode("utf-8", errors="replace")
    try:
        content = json.loads(raw.decode("utf-8"))
        starts = _items(text)
        if not isinstance(content["looks"], list):
            raise ValueError("not looks")
        looks = [_tried(item) for item in content["looks"]]
        files = list(content.get("files", []))
        if not all(isinstance(file, Mapping) for file in files):
            raise ValueError("not files")
    except (ValueError, KeyError, TypeError) as error:
        found, lines = _salvaged(text)
        return Kept(found, _salvaged_files(text), _places(path, lines or [_line_of(error, raw)]))
    lines = [text.count("\n", 0, starts[place]) + 1 for place, look in enumerate(looks) if look is None]
    return Kept(tuple(look for look in looks if look is not None), files, _places(path, lines))


def _tried(item: Any) -> Look | None:
    try:
        return Look.of(item)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _items(text: str) -> list[int]:
    """Return where each item of the list of looks begins, in a text that is whole."""
    place = re.search(r'"looks"\s*:\s*\[', text)
    found: list[int] = []
    position = len(text) if place is None else place.end()
    while True:
        position += len(text[position:]) - len(text[position:].lstrip(" \t\r\n,"))
        if position >= len(text) or text[position] == "]":
            return found
        found.append(position)
        _, position = _DECODER.raw_decode(text, position)


def _salvaged(text: str) -> tuple[tuple[Look, ...], list[int]]:
    """Return the looks that can be read in a text that is not whole, and the lines of those that cannot."""
    looks: list[Look] = []
    lines: list[int] = []
    position = 0
    while (begins := _LOOK.search(text, position)) is not None:
        position = begins.end()
        try:
            item, end = _DECODER.raw_decode(text, begins.start())
        except json.JSONDecodeError as error:
            lines.append(error.lineno)
            continue
        look = _tried(item)
        if look is None:
            lines.append(text.count("\n", 0, begins.start()) + 1)
        else:
            looks.append(look)
            position = end
    return tuple(looks), lines


def _salvaged_files(text: str) -> Files | None:
    """Return the files that a text that is not whole names; None if that cannot be read."""
    begins = re.search(r'"files"\s*:\s*(?=\[)', text)
    try:
        found = None if begins is None else _DECODER.raw_decode(text, begins.end())[0]
    except json.JSONDecodeError:
        return None
    return found if isinstance(found, list) and all(isinstance(file, Mapping) for file in found) else None


def _line_of(error: Exception, raw: bytes) -> int:
    """Return the line of a mistake in a text; the first one if it is not in a place."""
    if isinstance(error, json.JSONDecodeError):
        return error.lineno
    return raw.count(b"\n", 0, error.start) + 1 if isinstance(error, UnicodeDecodeError) else 1


def _places(path: Path, lines: Sequence[int]) -> tuple[Look, ...]:
    return tuple(_damaged(path, f"line {line}") for line in dict.fromkeys(lines))


def _damaged(path: Path, place: str) -> Look:
    """Return the look that stands for a place that cannot be read, as of when the file was last written."""
    try:
        when = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC).isoformat(timespec="seconds")
    except OSError:
        when = "unknown"
    words = f"{path}, {place}"
    return replace(Look(words, when, {}, UNREADABLE), damaged=words)
