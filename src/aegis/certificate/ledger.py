"""The ledger: which requests were registered, and which looks were ever taken, on which data.

A candidate that was chosen after seeing a result on some data needs other data: no arithmetic repairs that. Every look is
therefore written down before a certified unit is opened, under the digest of the data. What the ledger holds of these
data, and of data that share a part with them, decides at which risk a request is tested and whether it is
(`aegis.certificate.family`). A damaged ledger is read as far as it can be, and nothing in it is forgotten:
see `aegis.certificate.looks`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from aegis.certificate.looks import REGISTER, Behaviours, Files, Look, read_looks, request_key
from aegis.certificate.rows import begins_with
from aegis.errors import OutputError
from aegis.files import locked, write_text

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
    with held(default_folder() if folder is None else Path(folder)):
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

    def records(self) -> list[Look]:
        """Return every record of these data, and of data that share a part with them."""
        return [*self.looks(), *self.sharing()]

    def add(self, choose: Callable[[Sequence[Look]], Look | None]) -> list[Look]:
        """Write down the record that `choose` makes of all earlier ones, and return these; nothing is written if it makes none.

        The folder is held meanwhile, so that two processes cannot both be the first.
        """
        with held(self.path.parent):
            earlier = self.records()
            made = choose(earlier)
            if made is not None:
                path = self._whole()
                own = read_looks(path).looks
                at = max([time.time_ns(), *(look.at + 1 for look in own)])
                kept = [look for look in own if not (made.kind == look.kind == REGISTER and look.key == made.key)]
                self._write(path, [*kept, replace(made, at=at)])
        return earlier

    def open(self, declared: Mapping[str, Any], when: str) -> list[Look]:
        """Write down a look before it is taken and return the earlier ones, a repetition of this one among them."""
        return self.add(lambda _: Look(request_key(declared), when, dict(declared)))

    def close(self, declared: Mapping[str, Any], when: str, verdict: str, behaviour: Behaviours | None = None) -> None:
        """Write down what a look found, and how the candidates that are code behaved."""
        key = request_key(declared)
        with held(self.path.parent):
            for path in self.paths:
                kept = read_looks(path)
                places = [
                    place
                    for place, look in enumerate(kept.looks)
                    if (look.key, look.when) == (key, when) and look.kind != REGISTER and look.verdict is None
                ]
                if kept.damaged or not places:
                    continue
                done = list(kept.looks)
                done[places[-1]] = replace(done[places[-1]], verdict=verdict, behaviour=behaviour or {})
                self._write(path, done)

    def sharing(self) -> list[Look]:
        """Return the looks at other data that share a part with these: a file, or the rows a file begins with.

        What is damaged in the ledgers of other data is mentioned, and counts if their files share a part with these or cannot
        be read. Other JSON in the folder, such as a certificate, does not.
        """
        found: list[Look] = []
        own = self.paths
        for path in sorted(self.path.parent.glob("*.json")):
            if path in own or _is_other(path):
                continue
            kept = read_looks(path)
            shared = kept.files is None or any(_shared(one, other) for one in self.files for other in kept.files)
            data = path.stem.partition("-")[0]
            listed = (*(kept.looks if shared else ()), *kept.damaged)
            found += [replace(look, part=True, data=data, elsewhere=not shared) for look in listed]
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
def held(folder: Path) -> Iterator[None]:
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
    key = request_key(declared)
    listed = [(look, look.same(key, behaviour or {})) for look in earlier if look.kind != REGISTER]
    # A look with these claims that is not known to be this one counts for itself, others once however often they were repeated.
    others = [look.key for look, same in listed if not same]
    return {
        "number": 1 + others.count(key) + len(set(others) - {key}),
        "registered": len({look.key for look in earlier if look.kind == REGISTER}),
        "earlier": [
            {
                "when": look.when,
                "kind": look.kind,
                "candidates": look.declared.get("candidates", []),
                "delta": look.declared.get("delta"),
                "risk": look.risk,
                "verdict": look.verdict,
                "same": same,
                "part": look.part,
                **({"fixed_before": look.fixed_before} if look.fixed_before else {}),
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
