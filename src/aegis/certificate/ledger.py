"""The ledger of looks: which claims were ever tested on which data.

A candidate that was chosen after seeing a result on some data needs other data: no arithmetic repairs that. The ledger cannot
forbid it, but it makes it visible: every look is written down before a certified unit is opened, under the digest of the data,
and every later certificate on the same data, or on data that share a part with them, prints the earlier ones. A ledger that is
damaged stops nobody, and nothing in it is forgotten: see `aegis.certificate.looks`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aegis.certificate.looks import Behaviours, Files, Look, read_looks
from aegis.certificate.rows import begins_with
from aegis.errors import OutputError
from aegis.files import digest_of, locked, write_text

PATIENCE = 10.0  # seconds to wait for another process that writes into the folder
FOLDER = "AEGIS_LEDGER"  # environment variable that names the folder
_NAME = re.compile(r"[0-9a-f]{32}(-\d+)?\.json")  # of a ledger, as it was written


def default_folder() -> Path:
    """Return the folder of ledgers: AEGIS_LEDGER, else the user's state folder."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "aegis" / "looks"


def check_folder(folder: str | Path | None = None) -> None:
    """Raise OutputError if a look could not be written down in the folder of ledgers; writes nothing."""
    with _held(default_folder() if folder is None else Path(folder)):
        pass


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

    @property
    def paths(self) -> list[Path]:
        """Return the files of this data set: its own, and those that looks went into while an earlier one was damaged."""
        return [self.path, *sorted(self.path.parent.glob(f"{self.path.stem}-*.json"))]

    def looks(self) -> list[Look]:
        """Return the looks so far; what is damaged counts as a look of its own."""
        kept = [read_looks(path) for path in self.paths]
        return [look for item in kept for look in (*item.looks, *item.damaged)]

    def open(self, declared: Mapping[str, Any], when: str) -> list[Look]:
        """Write down a look before it is taken and return the earlier ones, a repetition of this one among them."""
        key = digest_of(dict(declared))
        with _held(self.path.parent):
            earlier, path = self.looks(), self._whole()
            self._write(path, [*read_looks(path).looks, Look(key, when, dict(declared))])
        return earlier

    def close(self, declared: Mapping[str, Any], when: str, verdict: str, behaviour: Behaviours | None = None) -> None:
        """Write down what a look found, and how the candidates that are code behaved."""
        key = digest_of(dict(declared))
        with _held(self.path.parent):
            for path in self.paths:
                kept = read_looks(path)
                if kept.damaged or not any((look.key, look.when) == (key, when) for look in kept.looks):
                    continue
                done = [
                    replace(look, verdict=verdict, behaviour=behaviour or {}) if (look.key, look.when) == (key, when) else look
                    for look in kept.looks
                ]
                self._write(path, done)

    def sharing(self) -> list[Look]:
        """Return the looks at other data that share a part with these: a file, or the rows a file begins with.

        What is damaged in the ledgers of other data may be about these: it counts. Other JSON that lies there, such as a
        certificate, does not.
        """
        found: list[Look] = []
        own = self.paths
        for path in sorted(self.path.parent.glob("*.json")):
            if path in own or _is_other(path):
                continue
            kept = read_looks(path)
            shared = kept.files is None or any(_shared(one, other) for one in self.files for other in kept.files)
            found += [replace(look, part=True) for look in (*(kept.looks if shared else ()), *kept.damaged)]
        return sorted(found, key=lambda look: look.when)

    def _whole(self) -> Path:
        """Return the file that the next look goes into: a damaged one is left as it is, until it is restored."""
        path, number = self.path, 1
        while read_looks(path).damaged:
            number += 1
            path = self.path.with_name(f"{self.path.stem}-{number}.json")
        return path

    def _write(self, path: Path, looks: Sequence[Look]) -> None:
        known = {file.get("digest"): file for file in read_looks(path).files or ()}
        # A pass that was broken off knows no rows; what an earlier one wrote stays.
        files = [dict(file if file.get("rows") else known.get(file["digest"], file)) for file in self.files]
        content = {"files": files, "looks": [look.plain() for look in looks]}
        write_text(path, json.dumps(content, indent=1) + "\n")


def _shared(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Say whether two files are one, or begin with the same rows."""
    if one.get("digest") == other.get("digest"):
        return True
    rows, others = one.get("rows"), other.get("rows")
    try:
        return rows is not None and others is not None and begins_with(rows, others)
    except (TypeError, ValueError, KeyError, AttributeError):
        return True  # checksums of rows that cannot be read: nobody knows that they are not shared


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
                **({"damaged": look.damaged} if look.damaged else {}),
            }
            for look, same in listed
        ],
        "ledger": str(ledger.path),
    }


def _is_other(path: Path) -> bool:
    """Say whether a file is no ledger: it is not called like one, and is whole JSON without a list of looks."""
    if _NAME.fullmatch(path.name):
        return False
    try:
        content = json.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError):
        return False
    return not (isinstance(content, dict) and isinstance(content.get("looks"), list))
