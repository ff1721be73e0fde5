"""Damaged spools: what can be read of them is read, and a write-ahead log says whether writes are missing from it."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from aegis.service.client.damaged_spool import SpoolRemains, find_aside, lacks_frames, name_aside, read_remains
from aegis.service.client.spool import Spool


def test_what_can_be_read_is_read(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool")
    spool.open("open")
    spool.choose("open", "dose-1", None)
    for place in range(3):
        spool.put("/v1/results", f"key-{place}", {"n": place}, f"e{place}")
    spool._safe.execute("UPDATE parcels SET body = '{' WHERE key = 'key-0'")
    spool._safe.execute("UPDATE parcels SET episode = CAST(x'ff' AS TEXT), refused = 'no' WHERE key = 'key-1'")
    spool._safe.execute("UPDATE parcels SET refused = '422: no' WHERE key = 'key-2'")
    spool._safe.execute("INSERT INTO incomplete VALUES ('cut')")
    spool.close()
    remains = read_remains(tmp_path / "spool")
    assert remains.parcels == [("/v1/results", "key-2", '{"n": 2}', "e2", "422: no")]
    assert (remains.opened, remains.choices, remains.incomplete) == ({"open": 1}, [("open", "dose-1", None, 0)], {"cut"})
    assert remains.episodes == {"open", "e2", "cut"}


def test_of_what_is_no_spool_nothing_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"something else" * 500)
    assert read_remains(tmp_path / "file") == SpoolRemains() == read_remains(tmp_path / "missing")


def test_damaged_files_are_found_by_their_names(tmp_path: Path) -> None:
    spool = tmp_path / "spool[1]"
    aside = [name_aside(spool) for _ in range(2)]
    for file in (*aside, Path(f"{aside[0]}-wal"), tmp_path / "spool[1].damaged-x", tmp_path / "spool1.damaged-3"):
        file.touch()
    assert find_aside(spool) == aside and find_aside(tmp_path / "nowhere" / "spool") == []


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """Return a file as a kill leaves it, with frames of two earlier logs at the end of its log."""
    live = tmp_path / "live"
    connection = sqlite3.connect(live, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE things (words TEXT)")
    for size in (90_000, 50_000):
        connection.execute("INSERT INTO things VALUES (?)", ("x" * size,))
        connection.execute("PRAGMA wal_checkpoint(RESTART)")
    for _ in range(3):
        connection.execute("INSERT INTO things VALUES ('y')")
    for end in ("", "-wal"):
        shutil.copy(f"{live}{end}", tmp_path / f"killed{end}")
    connection.close()
    return tmp_path / "killed"


def test_a_log_after_a_kill_lacks_nothing(killed: Path, tmp_path: Path) -> None:
    assert not lacks_frames(killed) and not lacks_frames(tmp_path / "missing")
    Path(f"{killed}-wal").write_bytes(b"")
    assert not lacks_frames(killed)


@pytest.mark.parametrize(
    ("place", "content"),
    [
        (0, b"\xff" * 32),
        (20, b"\xff"),
        (32 + 24 + 100, b"\xff" * 10),
        (32 + 2 * 4120 + 8, b"\xff" * 8),
        (32 + 5 * 4120, b"\xff" * 4120),
    ],
    ids=["its head", "a salt", "a page", "the salts of a frame", "what was of earlier logs"],
)
def test_a_damaged_log_lacks_something(killed: Path, place: int, content: bytes) -> None:
    with Path(f"{killed}-wal").open("r+b") as file:
        file.seek(place)
        file.write(content)
    assert lacks_frames(killed)


@pytest.mark.parametrize("length", [10, 32 + 4120 + 500])
def test_a_log_that_was_cut_off_lacks_something(killed: Path, length: int) -> None:
    with Path(f"{killed}-wal").open("r+b") as file:
        file.truncate(length)
    assert lacks_frames(killed)
