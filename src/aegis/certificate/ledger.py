"""The ledger of looks: which claims were ever tested on which data.

A candidate that was chosen after seeing a result on some data needs other data: no arithmetic repairs that. The ledger cannot
forbid it, but it makes it visible: every look is written down before a certified unit is opened, under the digest of the data,
and every later certificate on the same data, or on data that share a part with them, prints the earlier ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aegis.certificate.rows import begins_with
from aegis.errors import OutputError
from aegis.files import digest_of, locked, write_text

PATIENCE = 10.0  # seconds to wait for another process that writes into the folder
FOLDER = "AEGIS_LEDGER"  # environment variable that names the folder

Behaviours = Mapping[str, Mapping[str, str]]  # by candidate and level
Files = Sequence[Mapping[str, Any]]  # name, digest and, once they are known, checksums of the rows


def default_folder() -> Path:
    """Return the folder of ledgers: AEGIS_LEDGER, else the user's state folder."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "aegis" / "looks"


@dataclass(frozen=True, slots=True)
class Look:
    """A look that was declared: what would be tested, when, and, once they are known, the verdict and how code behaved.

    part: it was taken at data that share only a part with those of the ledger that was asked.
    """

    key: str
    when: str
    declared: Mapping[str, Any]
    verdict: str | None = None
    behaviour: Behaviours = field(default_factory=dict)
    part: bool = False

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

    def same(self, key: str, behaviour: Behaviours) -> bool:
        """Say whether a look under `key` repeats this one: the same claims about policies that are known to be the same.

        A policy that has no digest is never known to be; one that is code has to behave as it did.
        """
        if self.key != key or self.part:
            return False
        if any(candidate.get("digest") is None for candidate in self.declared.get("candidates", [])):
            return False
        both = set(self.behaviour) & set(behaviour)
        return all(dict(self.behaviour[name]) == dict(behaviour[name]) for name in both)


@dataclass(frozen=True, slots=True)
class Ledger:
    """The looks at one data set, in a file of its own. files: the parts of the data, by which other ledgers find it."""

    path: Path
    files: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, data_digest: str, folder: str | Path | None = None, files: Files = ()) -> Ledger:
        """Return the ledger of the data with this digest."""
        place = default_folder() if folder is None else Path(folder)
        return cls(place / f"{data_digest[:32]}.json", tuple(files))

    def looks(self) -> list[Look]:
        """Return the looks so far; OutputError if the file is damaged: a look that cannot be read cannot be printed."""
        return _read(self.path)[0] if self.path.exists() else []

    def check(self) -> None:
        """Raise OutputError if a look could not be written down, or if earlier ones cannot be read; writes nothing."""
        with _held(self.path.parent):
            self.looks()

    def open(self, declared: Mapping[str, Any], when: str) -> list[Look]:
        """Write down a look before it is taken and return the earlier ones, a repetition of this one among them."""
        key = digest_of(dict(declared))
        with _held(self.path.parent):
            earlier = self.looks()
            self._write([*earlier, Look(key, when, dict(declared))])
        return earlier

    def close(self, declared: Mapping[str, Any], when: str, verdict: str, behaviour: Behaviours | None = None) -> None:
        """Write down what a look found, and how the candidates that are code behaved."""
        key = digest_of(dict(declared))
        with _held(self.path.parent):
            done = [
                replace(look, verdict=verdict, behaviour=behaviour or {}) if (look.key, look.when) == (key, when) else look
                for look in self.looks()
            ]
            self._write(done)

    def sharing(self) -> list[Look]:
        """Return the looks at other data that share a part with these: a file, or the rows a file begins with."""
        found: list[Look] = []
        if not self.files or not self.path.parent.is_dir():
            return found
        for path in sorted(self.path.parent.glob("*.json")):
            if path == self.path:
                continue
            with contextlib.suppress(OutputError):  # what is damaged stops those who look at its own data
                looks, files = _read(path)
                if any(_shared(one, other) for one in self.files for other in files):
                    found += [replace(look, part=True) for look in looks]
        return sorted(found, key=lambda look: look.when)

    def _write(self, looks: list[Look]) -> None:
        known = {file.get("digest"): file for file in _read(self.path)[1]} if self.path.exists() else {}
        # A pass that was broken off knows no rows; what an earlier one wrote stays.
        files = [dict(file if file.get("rows") else known.get(file["digest"], file)) for file in self.files]
        content = {"files": files, "looks": [look.plain() for look in looks]}
        write_text(self.path, json.dumps(content, indent=1) + "\n")


def _read(path: Path) -> tuple[list[Look], Files]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        looks = [
            Look(item["key"], item["when"], item["declared"], item["verdict"], dict(item.get("behaviour") or {}))
            for item in content["looks"]
        ]
        return looks, list(content.get("files", []))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(
            f"the ledger {path} cannot be read ({error}); restore it, or move it away and say so in your report"
        ) from error


def _shared(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two files are one, or begin with the same rows."""
    if one.get("digest") == other.get("digest"):
        return True
    rows, others = one.get("rows"), other.get("rows")
    return rows is not None and others is not None and begins_with(rows, others)


@contextlib.contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold the folder while a look is written down, waiting a while for others that do the same."""
    until = time.monotonic() + PATIENCE
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(locked(folder))
                break
            except OutputError as error:
                if not isinstance(error.__cause__, BlockingIOError) or time.monotonic() > until:
                    raise
                time.sleep(0.05)
        yield


def summary(
    earlier: Sequence[Look], declared: Mapping[str, Any], ledger: Ledger, behaviour: Behaviours | None = None
) -> dict[str, Any]:
    """Return what a certificate prints about looks: how many there were, and which were other than this one."""
    key = digest_of(dict(declared))
    listed = [(look, look.same(key, behaviour or {})) for look in earlier]
    # A look with these claims that is not known to be this one counts for itself, others once however often they were repeated.
    others = [look.key for look, same in listed if not same]
    return {
        "number": 1 + others.count(key) + len(set(others) - {key}),
        "earlier": [
            {
                "when": look.when,
                "candidates": look.declared.get("candidates", []),
                "delta": look.declared.get("delta"),
                "verdict": look.verdict,
                "same": same,
                "part": look.part,
            }
            for look, same in listed
        ],
        "ledger": str(ledger.path),
    }
