"""The ledger of looks: which claims were ever tested on which data.

A candidate that was chosen after seeing a result on some data needs other data: no arithmetic repairs that. The ledger cannot
forbid it, but it makes it visible: every look is written down before the data are opened, under the digest of the data, and every
later certificate on the same data prints the earlier ones.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aegis.errors import OutputError
from aegis.files import digest_of, locked, write_text

PATIENCE = 10.0  # seconds to wait for another process that writes into the folder
FOLDER = "AEGIS_LEDGER"  # environment variable that names the folder


def default_folder() -> Path:
    """Return the folder of ledgers: AEGIS_LEDGER, else the user's state folder."""
    given = os.environ.get(FOLDER)
    if given:
        return Path(given)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "aegis" / "looks"


@dataclass(frozen=True, slots=True)
class Look:
    """A look that was declared: what would be tested, when, and, once it is known, the verdict."""

    key: str
    when: str
    declared: Mapping[str, Any]
    verdict: str | None = None

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return {"key": self.key, "when": self.when, "declared": dict(self.declared), "verdict": self.verdict}


@dataclass(frozen=True, slots=True)
class Ledger:
    """The looks at one data set, in a file of its own."""

    path: Path

    @classmethod
    def of(cls, data_digest: str, folder: str | Path | None = None) -> Ledger:
        """Return the ledger of the data with this digest."""
        place = default_folder() if folder is None else Path(folder)
        return cls(place / f"{data_digest[:32]}.json")

    def looks(self) -> list[Look]:
        """Return the looks so far; OutputError if the file is damaged: a look that cannot be read cannot be printed."""
        if not self.path.exists():
            return []
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))["looks"]
            return [Look(item["key"], item["when"], item["declared"], item["verdict"]) for item in found]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise OutputError(
                f"the ledger {self.path} cannot be read ({error}); restore it, or move it away and say so in your report"
            ) from error

    def open(self, declared: Mapping[str, Any], when: str) -> list[Look]:
        """Write down a look before it is taken and return the earlier ones, a repetition of this one among them."""
        key = digest_of(dict(declared))
        with _held(self.path.parent):
            earlier = self.looks()
            self._write([*earlier, Look(key, when, dict(declared))])
        return earlier

    def close(self, declared: Mapping[str, Any], when: str, verdict: str) -> None:
        """Write down what a look found."""
        key = digest_of(dict(declared))
        with _held(self.path.parent):
            done = [
                Look(look.key, look.when, look.declared, verdict) if (look.key, look.when) == (key, when) else look
                for look in self.looks()
            ]
            self._write(done)

    def _write(self, looks: list[Look]) -> None:
        write_text(self.path, json.dumps({"looks": [look.plain() for look in looks]}, indent=1) + "\n")


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


def summary(earlier: list[Look], declared: Mapping[str, Any], ledger: Ledger) -> dict[str, Any]:
    """Return what a certificate prints about looks: how many there were, and which were other than this one."""
    key = digest_of(dict(declared))
    return {
        "number": len({look.key for look in earlier} | {key}),
        "earlier": [
            {
                "when": look.when,
                "candidates": look.declared.get("candidates", []),
                "delta": look.declared.get("delta"),
                "verdict": look.verdict,
                "same": look.key == key,
            }
            for look in earlier
        ],
        "ledger": str(ledger.path),
    }
