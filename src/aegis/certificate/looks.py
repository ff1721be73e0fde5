"""Looks and registered requests as the ledger stores them: one file of JSON for each data set, read as far as it can be.

A file may be damaged: cut off, edited, half synchronised. Every look that can be read in it still counts, and every place that
cannot be read counts as one look, which it was at least. Nothing is mended: the file stays as it is until you restore it.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aegis.files import digest_of

Behaviours = Mapping[str, Mapping[str, str]]  # by candidate and level
Files = Sequence[Mapping[str, Any]]  # name, digest and, once they are known, checksums of the rows

UNREADABLE = "cannot be read"  # in the place of a verdict
CERTIFY, COMPARE, PLAN, REGISTER = "certify", "compare", "plan", "register"  # what a record in the ledger is of
USUAL_RISK = 0.05  # of a look whose risk cannot be read
_REFUSED = "refused"  # the verdict that shows no number
_LOOK = re.compile(r'\{\s*"key"\s*:')  # as a look begins
_DECODER = json.JSONDecoder()


def request_key(declared: Mapping[str, Any]) -> str:
    """Return the digest of a request: of everything in it but the risk that is asked for."""
    return digest_of({name: value for name, value in declared.items() if name != "delta"})


def identified(declared: Mapping[str, Any]) -> bool:
    """Say whether a request can be known again: every candidate has a digest."""
    return all(candidate.get("digest") is not None for candidate in declared.get("candidates", []))


@dataclass(frozen=True, slots=True)
class Look:
    """A record of the ledger: what was declared, when and, once they are known, the verdict and how code behaved.

    kind: a certificate, a comparison, a plan, or a request that was registered and not looked at. share: the risk it was tested
    at, with how many requests and which sum of risks. at: nanoseconds since 1970, by which records of several files are
    ordered; 0 if not known. fixed_before: the written declaration that the request was fixed before results. part: it was taken
    at data that share only a part with those of the ledger that was asked, or may do so; data: at which. damaged: the file and
    line that cannot be read, in words, if this stands for what was written there. elsewhere: it was written there about data that
    share nothing with these.
    """

    key: str
    when: str
    declared: Mapping[str, Any]
    verdict: str | None = None
    behaviour: Behaviours = field(default_factory=dict)
    part: bool = False
    damaged: str = ""
    kind: str = CERTIFY
    share: Mapping[str, Any] = field(default_factory=dict)
    at: int = 0
    fixed_before: str = ""
    data: str = ""
    elsewhere: bool = False

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        named = {name: dict(levels) for name, levels in self.behaviour.items()}
        return {
            "key": self.key,
            "when": self.when,
            "kind": self.kind,
            "declared": dict(self.declared),
            "verdict": self.verdict,
            "behaviour": named,
            "share": dict(self.share),
            "at": self.at,
            "fixed_before": self.fixed_before,
        }

    @classmethod
    def of(cls, item: Any) -> Look:
        """Return a look from plain data; ValueError, KeyError or TypeError if it is none. Earlier versions wrote fewer fields."""
        declared, behaviour, share = item["declared"], dict(item.get("behaviour") or {}), dict(item.get("share") or {})
        kind, declaration, at = item.get("kind", CERTIFY), item.get("fixed_before", ""), item.get("at", 0)
        texts = [item["key"], item["when"], kind, declaration, *([] if item["verdict"] is None else [item["verdict"]])]
        mappings = [declared, *behaviour.values(), *declared.get("candidates", [])]
        numbers = [
            at,
            declared.get("delta", 0.0),
            *(share[name] for name in ("asked", "risk", "sum", "requests") if name in share),
        ]
        if not (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(part, Mapping) for part in mappings)
            and all(isinstance(number, int | float) for number in numbers)
        ):
            raise ValueError("not a look")
        return cls(
            request_key(declared),
            item["when"],
            declared,
            item["verdict"],
            behaviour,
            kind=kind,
            share=share,
            at=int(at),
            fixed_before=declaration,
        )

    @property
    def result(self) -> bool:
        """Say whether a number about a candidate was shown, or may have been: not by a registration or a refusal."""
        return self.kind != REGISTER and self.verdict != _REFUSED and not self.elsewhere

    @property
    def statement(self) -> bool:
        """Say whether it may have stated something at a risk: a certificate, or a place that cannot be read."""
        return self.result and self.kind == CERTIFY

    @property
    def asked(self) -> float:
        """Return the risk that was asked for."""
        return float(self.declared.get("delta", USUAL_RISK))

    @property
    def risk(self) -> float:
        """Return the risk of what was stated."""
        return float(self.share.get("risk", self.asked)) if self.statement else 0.0

    def same(self, key: str, behaviour: Behaviours) -> bool:
        """Say whether a look under `key` repeats this one: the same claims about policies that are known to be the same.

        A policy that has no digest is never known to be; one that is code has to behave as it did.
        """
        if self.key != key or self.part or self.damaged or not identified(self.declared):
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
