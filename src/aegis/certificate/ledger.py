"""The ledger: which requests were registered, and which looks were taken, on which data; one JSON file for each data set.

A candidate that was chosen after seeing a result on some data needs other data: no arithmetic repairs that. AEGIS therefore
writes down every look before it opens a certified unit, under the digest of the data. What the ledger holds of these data, and
of data that share a part with them, decides at which risk a request is tested and whether it is (`aegis.certificate.risk`).

A file that cannot be read (cut off, edited, half synchronised) counts as a result on these data. It spends as much risk as if
every look in it had spent the largest risk that the text names. Nothing is mended: the file stays as it is until you restore it,
and new looks go into a file beside it.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aegis.certificate.digests import rows_begin_with
from aegis.errors import OutputError
from aegis.files import folder_lock, json_digest, write_text

Behaviours = Mapping[str, Mapping[str, str]]  # by candidate and level
Files = Sequence[Mapping[str, Any]]  # name, digest and, once they are known, checksums of the rows

CERTIFY, COMPARE, PLAN, REGISTER = "certify", "compare", "plan", "register"  # what a record in the ledger is of
UNREADABLE_VERDICT = "cannot be read"  # in the place of a verdict
USUAL_RISK = 0.05  # of a look whose risk cannot be read
LOCK_PATIENCE = 10.0  # seconds to wait for another process that writes into the folder
LEDGER_VARIABLE = "AEGIS_LEDGER"  # environment variable that names the folder

_REFUSED = "refused"  # the verdict that shows no number
_LEDGER_NAME = re.compile(r"[0-9a-f]{32}(-\d+)?\.json")  # of a ledger, as it was written
_LOOK_KEY = re.compile(r'"key"\s*:')  # each look has one
_RISK_NUMBER = re.compile(r'"(?:risk|delta)"\s*:\s*(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)')
_STORED = ("key", "when", "kind", "declared", "verdict", "behaviour", "share", "at", "fixed_before")  # fields of a look in a file


def request_key(declared: Mapping[str, Any]) -> str:
    """Return the digest of a request: of everything in it but the risk that is asked for."""
    return json_digest({name: value for name, value in declared.items() if name != "delta"})


def utc_now() -> str:
    """Return the time as records have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def identified(declared: Mapping[str, Any]) -> bool:
    """Say whether a request can be known again: every candidate has a digest."""
    return all(candidate.get("digest") is not None for candidate in declared.get("candidates", []))


@dataclass(frozen=True, slots=True)
class LookRecord:
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
        return {name: getattr(self, name) for name in _STORED}

    @classmethod
    def of(cls, item: Any) -> LookRecord:
        """Return a look from plain data; ValueError, KeyError, TypeError or AttributeError if it is none.

        Earlier versions wrote fewer fields.
        """
        look = cls(**{name: item[name] for name in _STORED if name in item})
        declared, behaviour, share = look.declared, dict(look.behaviour or {}), dict(look.share or {})
        risks = [share[name] for name in ("asked", "risk", "sum", "requests") if name in share]
        expected: list[tuple[Any, Sequence[Any]]] = [
            (str, [look.key, look.when, look.kind, look.fixed_before]),
            (str | None, [item["verdict"]]),
            (Mapping, [declared, *behaviour.values(), *declared.get("candidates", [])]),
            (int | float, [look.at, declared.get("delta", 0.0), *risks]),
        ]
        if not all(isinstance(value, types) for types, values in expected for value in values):
            raise ValueError("not a look")
        return replace(look, key=request_key(declared), behaviour=behaviour, share=share, at=int(look.at))

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
class LedgerFile:
    """What a file holds: looks, the files of its data (None if these cannot be read), and one look for each damaged place."""

    looks: tuple[LookRecord, ...] = ()
    files: Files | None = ()
    damaged: tuple[LookRecord, ...] = ()


def read_looks(path: Path) -> LedgerFile:
    """Return what a file of looks holds; nothing if there is none."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return LedgerFile()
    except OSError as error:
        return LedgerFile(files=None, damaged=(_damaged(path, error.strerror or str(error), ""),))
    try:
        content = json.loads(raw.decode("utf-8"))
        listed, files = content["looks"], list(content.get("files", []))
        if not isinstance(listed, list) or not all(isinstance(file, Mapping) for file in files):
            raise ValueError("not looks")
    except (ValueError, KeyError, TypeError) as error:
        text = raw.decode("utf-8", errors="replace")
        place = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else "which is no list of looks"
        return LedgerFile((), _named_files(text), (_damaged(path, place, text),))
    looks, damaged = [], []
    for number, item in enumerate(listed, 1):
        try:
            looks.append(LookRecord.of(item))
        except (ValueError, KeyError, TypeError, AttributeError):
            damaged.append(_damaged(path, f"look {number}", json.dumps(item)))
    return LedgerFile(tuple(looks), files, tuple(damaged))


def _named_files(text: str) -> Files | None:
    """Return the files that a text that is not whole names; None if that cannot be read."""
    begins = re.search(r'"files"\s*:\s*(?=\[)', text)
    try:
        files = None if begins is None else json.JSONDecoder().raw_decode(text, begins.end())[0]
    except json.JSONDecodeError:
        return None
    return files if isinstance(files, list) and all(isinstance(file, Mapping) for file in files) else None


def _damaged(path: Path, place: str, text: str) -> LookRecord:
    """Return the look that stands for what cannot be read, as of when the file was last written.

    Its risk is one that the text does not exceed: every look in it spent the largest risk that is named there.
    """
    try:
        when = datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC).isoformat(timespec="seconds")
    except OSError:
        when = "unknown"
    largest = max(USUAL_RISK, *map(float, _RISK_NUMBER.findall(text)), 0.0)
    risk = max(1, len(_LOOK_KEY.findall(text))) * largest
    words = f"{path}, {place}"
    return LookRecord(key=words, when=when, declared={}, verdict=UNREADABLE_VERDICT, share={"risk": risk}, damaged=words)


def ledger_folder() -> Path:
    """Return the folder of ledgers: AEGIS_LEDGER, else the user's state folder."""
    named = os.environ.get(LEDGER_VARIABLE)
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "aegis" / "looks"


def check_ledger_folder(folder: str | Path | None = None) -> None:
    """Raise OutputError if a look could not be written down in the folder of ledgers; writes nothing."""
    with hold_ledger_folder(ledger_folder() if folder is None else Path(folder)):
        pass


@dataclass(frozen=True, slots=True)
class Ledger:
    """The looks at one data set, in a file of its own. files: the parts of the data, by which other ledgers find it."""

    path: Path
    files: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(cls, data_digest: str, folder: str | Path | None = None, files: Files = ()) -> Ledger:
        """Return the ledger of the data with this digest."""
        place = ledger_folder() if folder is None else Path(folder)
        return cls(place / f"{data_digest[:32]}.json", tuple(files))

    @property
    def paths(self) -> list[Path]:
        """Return the files of this data set: its own, and those that looks went into while an earlier one was damaged."""
        return [self.path, *sorted(self.path.parent.glob(f"{self.path.stem}-*.json"))]

    def looks(self) -> list[LookRecord]:
        """Return the looks so far; what is damaged counts as a look of its own."""
        contents = [read_looks(path) for path in self.paths]
        return [look for item in contents for look in (*item.looks, *item.damaged)]

    def records(self) -> list[LookRecord]:
        """Return every record of these data, and of data that share a part with them."""
        return [*self.looks(), *self.sharing()]

    def add(self, choose: Callable[[Sequence[LookRecord]], LookRecord | None]) -> list[LookRecord]:
        """Write down the record that `choose` makes of all earlier ones, and return these; nothing is written if it makes none.

        The folder is held meanwhile, so that two processes cannot both be the first.
        """
        with hold_ledger_folder(self.path.parent):
            earlier = self.records()
            record = choose(earlier)
            if record is not None:
                path = self._whole()
                own = read_looks(path).looks
                at = max([time.time_ns(), *(look.at + 1 for look in own)])
                others = [look for look in own if not (record.kind == look.kind == REGISTER and look.key == record.key)]
                self._write(path, [*others, replace(record, at=at)])
        return earlier

    def close(self, declared: Mapping[str, Any], when: str, verdict: str, behaviour: Behaviours | None = None) -> None:
        """Write down what a look found, and how the candidates that are code behaved."""
        key = request_key(declared)
        with hold_ledger_folder(self.path.parent):
            for path in self.paths:
                content = read_looks(path)
                places = [
                    place
                    for place, look in enumerate(content.looks)
                    if (look.key, look.when) == (key, when) and look.kind != REGISTER and look.verdict is None
                ]
                if content.damaged or not places:
                    continue
                done = list(content.looks)
                done[places[-1]] = replace(done[places[-1]], verdict=verdict, behaviour=behaviour or {})
                self._write(path, done)

    def sharing(self) -> list[LookRecord]:
        """Return the looks at other data that share a part with these: a file, or the rows a file begins with.

        What is damaged in the ledgers of other data is mentioned, and counts if their files share a part with these or cannot
        be read. Other JSON in the folder, such as a certificate, does not.
        """
        records: list[LookRecord] = []
        own = self.paths
        for path in sorted(self.path.parent.glob("*.json")):
            if path in own or _is_other_json(path):
                continue
            content = read_looks(path)
            shared = content.files is None or any(_shared(one, other) for one in self.files for other in content.files)
            data = path.stem.partition("-")[0]
            listed = (*(content.looks if shared else ()), *content.damaged)
            records += [replace(look, part=True, data=data, elsewhere=not shared) for look in listed]
        return sorted(records, key=lambda look: look.when)

    def _whole(self) -> Path:
        """Return the file that the next look goes into: a damaged one is left as it is, until it is restored."""
        path, number = self.path, 1
        while read_looks(path).damaged:
            number += 1
            path = self.path.with_name(f"{self.path.stem}-{number}.json")
        return path

    def _write(self, path: Path, looks: Sequence[LookRecord]) -> None:
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
        return rows is not None and others is not None and rows_begin_with(rows, others)
    except (TypeError, ValueError, KeyError, AttributeError):
        return True  # checksums of rows that cannot be read: they may be shared


@contextlib.contextmanager
def hold_ledger_folder(folder: Path) -> Iterator[None]:
    """Hold the folder while a look is written down, waiting a while for others that do the same."""
    until = time.monotonic() + LOCK_PATIENCE
    with contextlib.ExitStack() as stack:
        while True:
            try:
                stack.enter_context(folder_lock(folder))
                break
            except OutputError as error:
                if not isinstance(error.__cause__, BlockingIOError) or time.monotonic() > until:
                    raise
                time.sleep(0.05)
        yield


def summarise_looks(
    earlier: Sequence[LookRecord], declared: Mapping[str, Any], ledger: Ledger, behaviour: Behaviours | None = None
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


def _is_other_json(path: Path) -> bool:
    """Say whether a file is no ledger: it is not called like one, and is whole JSON without a list of looks."""
    if _LEDGER_NAME.fullmatch(path.name):
        return False
    try:
        content = json.loads(path.read_bytes().decode("utf-8"))
    except (OSError, ValueError):
        return False
    return not (isinstance(content, dict) and isinstance(content.get("looks"), list))
