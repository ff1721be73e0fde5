"""Files of archived records, and what the store keeps of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aegis.errors import OutputError
from aegis.service.http_errors import StoreDamaged
from aegis.service.store import archive
from aegis.service.store.archive import (
    ARCHIVED,
    ArchivedKey,
    ArchiveMark,
    check_kept,
    compare_records,
    find_key,
    kept_digest,
    key_digest,
    keys_digest,
    mark_key,
    read_records,
    remove_records,
    write_records,
)
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal, JournalEntry


def row(seq: int, **changed: Any) -> dict[str, Any]:
    about = {"gate": "g", "seq": seq, "at": "2026", "kind": "event", "episode": None, "key": None, "request": None}
    return {**about, "body": '{"reward":0.1}', "caller": None, "hash": f"{seq:064d}", **changed}


def test_records_come_back_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "GROUP", 3)
    path = tmp_path / "deep" / "journal.parquet"
    rows = [row(1, key="Früh 1", caller="reactor/2"), row(2, episode=2**40, request="ab"), *map(row, range(3, 9))]
    write_records(path, iter(rows))
    assert list(read_records(path)) == rows
    assert [item["seq"] for item in read_records(path, 6)] == [7, 8]
    compare_records(path, rows)
    for wrong in (rows[:-1], [*rows, row(9)], [rows[0], row(2), *rows[2:]]):
        with pytest.raises(OutputError, match="nothing was removed"):
            compare_records(path, wrong)
    write_records(path, [])
    assert list(read_records(path)) == []
    with pytest.raises(StoreDamaged, match="cannot read the archive"):
        list(read_records(tmp_path / "nowhere.parquet"))


def mark_of(keys: list[ArchivedKey], rows: list[Any], last: int = 3) -> ArchiveMark:
    return ArchiveMark(1, 1, last, "h", False, keys_digest(keys), kept_digest(rows))


def test_a_mark_is_read_from_its_record_or_refused() -> None:
    mark = mark_of([], [])
    assert ArchiveMark.of("g", 4, ARCHIVED, mark.plain()) == mark
    assert mark.place("archive", "g") == Path("archive/g/000000000001-000000000003")
    body = mark.plain()
    for seq, kind, wrong in (
        (3, ARCHIVED, body),
        (4, "event", body),
        (4, ARCHIVED, {"last": 3}),
        (4, ARCHIVED, {**body, "x": 1}),
    ):
        with pytest.raises(StoreDamaged, match=f"record {seq} was altered"):
            ArchiveMark.of("g", seq, kind, wrong)


def test_records_are_removed_and_their_keys_kept(database: Database) -> None:
    journal = Journal(database, "g")
    journal.append([JournalEntry("opened", {}), JournalEntry("episode", {"id": "e"}, key="episode e", caller="reactor")])
    journal.append([JournalEntry("results", {}, key="r"), JournalEntry("event", {})])
    rows = [dict(item) for item in journal.rows()]
    keys = sorted(
        [ArchivedKey(key_digest("episode e"), 1, "reactor"), ArchivedKey(key_digest("r"), None, None)], key=lambda item: item.key
    )
    mark = mark_of(keys, rows[:1])
    assert journal.archived("r") is None
    journal.append(
        [JournalEntry(ARCHIVED, mark.plain(), key=mark_key(1))], also=lambda held: remove_records(held, "g", mark, keys)
    )
    assert journal.marks == (mark,) and journal.archived_to == journal.beginning == 3
    assert [item["seq"] for item in Journal(database, "g").rows(3)] == [4, 5]
    assert journal.archived("r") == ArchivedKey(key_digest("r"), None, None)
    assert find_key(database, "g", "episode e") == ArchivedKey(key_digest("episode e"), 1, "reactor")
    assert find_key(database, "g", "other") is None and find_key(database, "other", "r") is None
    with database.reading() as connection:
        check_kept(connection, "g", journal.marks)
    with pytest.raises(StoreDamaged, match="are in an archive"):
        list(Journal(database, "g").read())
    begun = Journal(database, "g")
    assert begun.has_fallen_behind()
    begun.begin()
    assert not begun.has_fallen_behind() and (begun.last, begun.head) == (3, "h")
