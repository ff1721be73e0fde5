"""Damaged spools: what can still be read of one that was set aside, and whether a write-ahead log lacks what was written."""

from __future__ import annotations

import json
import re
import sqlite3
import struct
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ASIDE = ".damaged-"  # between the name of a spool and the time at which it was set aside
WAL_ORDERS = {0x377F0682: "<", 0x377F0683: ">"}  # of the words that SQLite's checksums add up, by the first word of the file
HEADER, FRAME_HEADER = 32, 24  # bytes
EARLIER = 1 << 20  # SQLite counts the first salt up whenever it begins a log anew; frames of earlier ones may follow

ParcelRow = tuple[str, str, str, str, str | None]  # path, key, body, episode, why it was refused
ChoiceRow = tuple[str, str, str | None, int]  # episode, id, choice, reported


@dataclass(frozen=True, slots=True)
class SpoolRemains:
    """What can be read of a damaged spool. opened: how often each open episode was opened. incomplete: episodes never closed as
    whole."""

    parcels: list[ParcelRow] = field(default_factory=list)
    opened: dict[str, int] = field(default_factory=dict)
    choices: list[ChoiceRow] = field(default_factory=list)
    incomplete: set[str] = field(default_factory=set)

    @property
    def episodes(self) -> set[str]:
        """Return the episodes that were not done yet."""
        return {row[3] for row in self.parcels} | set(self.opened) | {row[0] for row in self.choices} | self.incomplete


def name_aside(path: Path) -> Path:
    """Return where a spool that is damaged now is kept."""
    return path.with_name(f"{path.name}{ASIDE}{time.time_ns()}")


def find_aside(path: Path) -> list[Path]:
    """Return the damaged files of a spool that are kept, in order."""
    form = re.compile(rf"{re.escape(path.name + ASIDE)}\d+")
    with suppress(OSError):
        return sorted(file for file in path.parent.iterdir() if form.fullmatch(file.name))
    return []


def read_remains(path: Path) -> SpoolRemains:
    """Return what can still be read of a damaged file, in order. A request that arrived already does no harm."""
    remains = SpoolRemains()
    for row in _rows(path, "SELECT path, key, body, episode, refused FROM parcels ORDER BY number"):
        with suppress(ValueError):
            if all(isinstance(item, str) for item in row[:4]) and isinstance(json.loads(row[2]), dict):
                remains.parcels.append(row)
    for episode, times in _rows(path, "SELECT episode, times FROM opened"):
        if isinstance(episode, str) and isinstance(times, int):
            remains.opened[episode] = times
    for row in _rows(path, "SELECT episode, id, choice, reported FROM choices ORDER BY number"):
        if isinstance(row[0], str) and isinstance(row[1], str):
            remains.choices.append(row)
    remains.incomplete.update(row[0] for row in _rows(path, "SELECT episode FROM incomplete") if isinstance(row[0], str))
    return remains


def _rows(path: Path, query: str) -> list[Any]:
    """Return the rows that can be read, up to the first one that cannot; a text that is none is None."""
    rows = []
    with suppress(sqlite3.Error), closing(sqlite3.connect(str(path))) as connection:
        connection.text_factory = _text
        for row in connection.execute(query):
            rows.append(row)
    return rows


def _text(content: bytes) -> str | None:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


# ---- the write-ahead log -----------------------------------------------------------------------------------------------------


def lacks_frames(path: Path) -> bool:
    """Say whether the write-ahead log of a file that is not open holds something that SQLite will leave out without a word.

    SQLite takes a frame with a wrong checksum as the end of the log: what was written after it is lost. True also where a crash
    cut off the last write.
    """
    try:
        content = Path(f"{path}-wal").read_bytes()
    except OSError:
        return False
    if not content:
        return False
    if len(content) < HEADER:
        return True
    magic, _, size, _, first, second, *sums = struct.unpack(">8I", content[:HEADER])
    order = WAL_ORDERS.get(magic)
    if order is None or _checksum(content[: HEADER - 8], order) != tuple(sums):
        return True
    state, ended = (sums[0], sums[1]), False
    for start in range(HEADER, len(content), FRAME_HEADER + size):
        frame = content[start : start + FRAME_HEADER + size]
        if len(frame) < FRAME_HEADER + size:
            return True
        salts, expected = struct.unpack(">2I", frame[8:16]), struct.unpack(">2I", frame[16:24])
        if salts != (first, second):
            ended = True  # what follows is of earlier logs
            if not 0 < (first - salts[0]) % (1 << 32) < EARLIER:
                return True
            continue
        state = _checksum(frame[FRAME_HEADER:], order, _checksum(frame[:8], order, state))
        if ended or state != expected:
            return True
    return False


def _checksum(content: bytes, order: str, state: tuple[int, int] = (0, 0)) -> tuple[int, int]:
    """Return SQLite's checksum of a part of a write-ahead log, after another part."""
    one, two = state
    words = struct.unpack(f"{order}{len(content) // 4}I", content)
    for even, odd in zip(words[::2], words[1::2], strict=True):
        one = (one + even + two) & 0xFFFFFFFF
        two = (two + odd + one) & 0xFFFFFFFF
    return one, two
