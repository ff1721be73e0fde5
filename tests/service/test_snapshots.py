"""The stored form of a snapshot: lines of JSON that come back as they were, or not at all."""

from __future__ import annotations

import json
import zlib

import pytest
from service_cases import GATE, dose, key, play, recipe, result, started

from aegis.service.http_errors import StoreDamaged
from aegis.service.live_state import LiveState
from aegis.service.schemas import Ask, Report
from aegis.service.snapshot_writer import SnapshotWriter
from aegis.service.store import snapshots
from aegis.service.store.blocks import BlockMark
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal
from aegis.service.store.snapshots import (
    SnapshotText,
    _episode,
    _lines,
    check_stored_snapshots,
    encode_episode,
    list_snapshots,
    newest_mark,
    restore_newest,
    snapshot_entry,
)


def test_open_episodes_come_back_through_a_line(file_database: Database) -> None:
    with started(file_database) as live:
        live.open_episode(key(), "a")
        live.decide(key(), "a", Ask(**recipe(available=[True, True, False], legacy={"distribution": [1 / 3, 2 / 3, 0]})))
        live.decide(key(), "a", Ask(**dose(context={"temperature": 0.1 + 0.2})))
        live.report(key(), [Report(**result("a", reward=10 / 3))])
        live.open_episode(key(), "empty")
        for tree in live.state.trees.values():
            line = encode_episode(tree)
            assert line.count(b"\n") == 1
            assert _episode(line) == tree
            assert repr(_episode(line)) == repr(tree)


def test_a_text_is_read_back_or_refused() -> None:
    text = SnapshotText.empty()
    lines = [json.dumps({"line": number}).encode() + b"\n" for number in range(3000)]
    text.add(lines[:1])
    text.add(lines[1:])
    digest, content = text.done()
    assert [line + b"\n" for line in _lines(content, digest)] == lines
    for wrong, expected in ((content, "0" * 64), (content[:-3], digest), (zlib.compress(b"other\n"), digest)):
        with pytest.raises(StoreDamaged):
            list(_lines(wrong, expected))


def test_nothing_is_restored_from_an_empty_store(file_database: Database) -> None:
    with started(file_database) as live:
        play(live, "a")
        journal, state = Journal(file_database, GATE), LiveState(live.problem)
        assert not restore_newest(journal, state)
        assert newest_mark(journal) == BlockMark()
        assert (journal.last, state) == (0, LiveState(live.problem))
        SnapshotWriter(live).write()
        assert restore_newest(journal, state)
        assert [journal.last] == list_snapshots(file_database, GATE)


@pytest.mark.parametrize("content", ["x'00'", "'xxx'", "substr(content, 1, length(content) - 3)"])
def test_a_stored_snapshot_that_was_altered_is_found(file_database: Database, content: str) -> None:
    with started(file_database) as live:
        play(live, "a")
        seqs = [SnapshotWriter(live).write() for _ in range(2)]
    check_stored_snapshots(live.journal)
    with file_database.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE snapshots SET content = {content} WHERE seq = {seqs[0]}")
    with pytest.raises(
        StoreDamaged, match=rf"stored snapshot at record {seqs[0]} is not the one that was made.*starts without it"
    ):
        check_stored_snapshots(live.journal)
    assert restore_newest(Journal(file_database, GATE), LiveState(live.problem))


def test_a_snapshot_that_the_writer_removes_meanwhile_is_not_missed(
    file_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with started(file_database) as live:
        play(live, "a")
        seq = SnapshotWriter(live).write()
    with file_database.transaction() as connection:
        connection.exec_driver_sql("DELETE FROM snapshots")
    monkeypatch.setattr(snapshots, "list_snapshots", lambda *_: [seq])
    check_stored_snapshots(live.journal)
    assert not restore_newest(Journal(file_database, GATE), LiveState(live.problem))


def test_the_journal_holds_the_digest() -> None:
    entry = snapshot_entry(7, "h", "d", BlockMark(3, "l"), True)
    assert (entry.kind, entry.key) == ("snapshot", "snapshot 7")
    assert {name: entry.body[name] for name in ("at", "hash", "digest", "blocks")} == {
        "at": 7,
        "hash": "h",
        "digest": "d",
        "blocks": [3, "l"],
    }
