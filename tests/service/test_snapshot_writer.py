"""Snapshots: a gate taken up from any of them is the gate of its whole journal, and one that does not fit is never used."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from service_cases import (
    GATE,
    QUICK,
    begin,
    count_all,
    counting_here,
    inner,
    key,
    make_live,
    play,
    quick_database,
    recipe,
    records,
    run_plant,
    say,
    small_plant,
    started,
    told,
)
from test_live_state import CALLS, done, empty  # noqa: F401  # the fixture

from aegis.service import snapshot_writer
from aegis.service.http_errors import NotWriter, ServiceError, StoreDamaged, StoreUnavailable
from aegis.service.live_gate import LiveGate
from aegis.service.live_state import SNAPSHOT
from aegis.service.schemas import Ask
from aegis.service.snapshot_writer import SnapshotCut, SnapshotWriter, check_snapshots
from aegis.service.status import GateStatus
from aegis.service.store import snapshots
from aegis.service.store.database import Database, blocks_table, snapshots_table
from aegis.service.store.snapshots import list_snapshots


def everything(live: LiveGate, reading: GateStatus) -> dict[str, Any]:
    """Everything that a writer holds in memory."""
    kept = {name: getattr(live.state, name) for name in ("sealed", "writer", "snapshot", "blocks")}
    return {**told(live), **kept, "shown": reading.gate(), "kept": reading.kept()}


def follow(database: Database, **more: Any) -> tuple[LiveGate, GateStatus, int]:
    """Return a gate that follows its journal, what it shows, and from which record on it read."""
    live = make_live(database, **more)
    reading, read = GateStatus(live), list[int]()

    class Counted(type(live.state)):  # type: ignore[misc]
        __slots__ = ()

        def apply(self, record: Any) -> None:
            read.append(record.seq)
            super().apply(record)

    live.state.__class__ = Counted
    live.follow()
    return live, reading, (read or [live.journal.last + 1])[0]


def drop_snapshots(database: Database, *which: int) -> None:
    with database.transaction() as connection:
        connection.execute(snapshots_table.delete().where(snapshots_table.c.seq.in_(which)))


@settings(max_examples=15, deadline=None)
@given(calls=st.lists(st.one_of(CALLS, st.just(("snapshot",))), max_size=25))
def test_a_snapshot_and_the_records_after_it_are_the_whole_journal(
    empty: Path,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
    calls: list[Any],
) -> None:
    path = tmp_path_factory.mktemp("snapshots") / "gate.sqlite"
    shutil.copy(empty, path)
    database = quick_database(path)
    try:
        live = make_live(database, first=10_000)
        reading = GateStatus(live)
        live.start()
        counting, writer = counting_here(live), SnapshotWriter(live)
        for call in [*calls, ("snapshot",), ("play", 3)]:
            try:
                writer.write() if call[0] == "snapshot" else done(live, counting, call)
            except ServiceError:
                assert not live.journal.doubtful
        before = everything(live, reading)
        live.stop()
        again, read, first = follow(database, first=10_000)
        assert everything(again, read) == before
        assert first == list_snapshots(database, GATE)[0] + 1
        compared, other = check_snapshots(database, GATE)  # the replay of all of it comes to the same digests
        assert (compared > 0, other) == (True, 0)
    finally:
        database.close()


def lively(live: LiveGate, random: Random) -> None:
    """A plant with freezes and a flip, then overruled decisions, open episodes and a revert, and snapshots in between."""
    plant, counting, writer, number = small_plant(), counting_here(live), SnapshotWriter(live), 0
    while not live.state.opened.deployed:
        run_plant(plant, live, number, 1, counting)
        number += 1
        if random.random() < 0.2:
            writer.write()
    for last in range(number + 12, number, -1):
        run_plant(plant, live, last, 1, counting)
        begin(live, f"open-{last}")
        live.decide(key(), f"open-{last}", inner("i"))
        begin(live, f"overruled-{last}")
        used = live.problem.level("inner").actions.values[1]
        live.overrule(key(), f"overruled-{last}", inner("i"), used, True)
        if last == number + 6:
            say(live, "revert", "inner")
        if random.random() < 0.3:
            writer.write()


@pytest.mark.ci
def test_a_gate_is_taken_up_from_any_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "KEPT", 1000)
    database, plant = quick_database(tmp_path / "gate.sqlite"), small_plant()
    live = make_live(database, plant.problem, mode="live", **QUICK)
    reading = GateStatus(live)
    live.start()
    lively(live, Random(1))
    before, kinds = everything(live, reading), {record.body["event"]["kind"] for record in records(live, "event")}
    assert {"frozen", "flip", "reverted", "unit"} <= kinds
    assert len(before["trees"]) > 2
    live.stop()
    stored = list_snapshots(database, GATE)
    assert len(stored) > 5
    for place, seq in enumerate(stored):
        again, read, first = follow(database, problem=plant.problem, mode="live", **QUICK)
        assert first == seq + 1
        assert everything(again, read) == before
        drop_snapshots(database, *stored[: place + 1])
    again, read, first = follow(database, problem=plant.problem, mode="live", **QUICK)
    assert first == 1
    assert everything(again, read) == before
    assert check_snapshots(database, GATE) == (len(stored), 0)
    database.close()


def test_episodes_that_change_meanwhile_are_stored_as_they_were(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_writer, "SLICE", 0.0)  # one episode at a time
    with started(file_database) as live:
        reading, counting, writer = GateStatus(live), counting_here(live), SnapshotWriter(live)
        del reading
        for number in range(6):
            play(live, f"e{number}")
        live.open_episode(key(), "open")
        real, turn = SnapshotCut.next_lines, iter(range(100))

        def meanwhile(cut: SnapshotCut) -> list[bytes]:
            number = next(turn)
            if number == 1:
                live.decide(key(), "open", Ask(**recipe()))
                count_all(counting)
                play(live, "later")
            return real(cut)

        monkeypatch.setattr(SnapshotCut, "next_lines", meanwhile)
        at = writer.write()
        assert next(turn) == 8  # seven episodes, one after the other, and the end
        assert at < live.journal.last - 10
        assert live.state.on_change is None
        after = told(live)
    assert check_snapshots(file_database, GATE) == (1, 0)
    again, _, first = follow(file_database)
    assert first == at + 1
    assert told(again) == after


def test_a_snapshot_is_given_up_if_too_much_changes(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_writer, "MOST_CHANGED", 1)
    with started(file_database) as live:
        for number in range(4):
            live.open_episode(key(), f"e{number}")
        cut = SnapshotCut.of(live)
        live.state.on_change = cut.save
        for number in range(4):
            live.decide(key(), f"e{number}", Ask(**recipe()))
        with pytest.raises(ServiceError, match="too many"):
            cut.next_lines()
        assert len(cut.saved) == 2


@pytest.mark.parametrize("how", ["content", "format", "orphan", "hash"])
def test_a_snapshot_that_does_not_fit_is_skipped(
    file_database: Database, how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    live = make_live(file_database)
    reading = GateStatus(live)
    live.start()
    writer = SnapshotWriter(live)
    play(live, "a")
    first = writer.write()
    play(live, "b")
    if how == "format":
        monkeypatch.setattr(snapshots, "FORMAT", 2)
    if how == "orphan":  # killed before it became part of the journal
        monkeypatch.setattr(LiveGate, "note", lambda *_: None)
    second = writer.write()
    monkeypatch.undo()
    play(live, "c")
    before = everything(live, reading)
    live.stop()
    table = snapshots_table.c
    with file_database.transaction() as connection:
        content = bytes(connection.execute(sa.select(table.content).where(table.seq == second)).scalar_one())
        wrong = {"content": content[:-20] + b"x" * 20} if how == "content" else {"seq": first + 1} if how == "hash" else None
        if wrong is not None:
            connection.execute(snapshots_table.update().where(table.seq == second).values(**wrong))
    with caplog.at_level(logging.WARNING):
        again, read, start = follow(file_database)
    assert start == first + 1
    assert everything(again, read) == before
    assert ("does not fit" in caplog.text) == (how in ("content", "format"))


def test_what_does_not_follow_from_the_journal_is_found(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(file_database) as live:
        counting, writer = counting_here(live), SnapshotWriter(live)
        play(live, "a")
        count_all(counting)
        writer.write()
        with file_database.transaction() as connection:
            row = connection.execute(blocks_table.select()).mappings().one()
        assert check_snapshots(file_database, GATE) == (1, 0)
        with file_database.transaction() as connection:
            (content,) = connection.execute(sa.select(snapshots_table.c.content)).one()
            connection.execute(snapshots_table.update().values(content=b"xxx"))
        with pytest.raises(StoreDamaged, match="stored snapshot at record"):
            check_snapshots(file_database, GATE)
        with file_database.transaction() as connection:
            connection.execute(snapshots_table.update().values(content=content))
            connection.execute(blocks_table.update().values(content=b"nothing"))
        with pytest.raises(StoreDamaged, match="block of counted episodes"):
            check_snapshots(file_database, GATE)
        with file_database.transaction() as connection:
            connection.execute(blocks_table.update().values(content=row["content"]))
        live.state.silent = 7  # memory is not what the journal says
        writer.write()
    with pytest.raises(StoreDamaged, match="does not hold what the journal adds up to"):
        check_snapshots(file_database, GATE)


def test_old_snapshots_go_and_only_the_writer_makes_new_ones(database: Database) -> None:
    with started(database) as live:
        writer = SnapshotWriter(live)
        made = []
        for number in range(5):
            play(live, f"e{number}")
            made.append(writer.write())
        assert list_snapshots(database, GATE) == made[:-4:-1]
        assert [record.body["at"] for record in records(live, SNAPSHOT)] == made
    with pytest.raises(NotWriter):
        writer.write()


def test_a_snapshot_is_not_noted_after_a_newer_one(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(file_database) as live:
        counting, real = counting_here(live), snapshot_writer.store_snapshot
        play(live, "a")

        def slow(*arguments: Any) -> None:
            monkeypatch.setattr(snapshot_writer, "store_snapshot", real)
            play(live, "b")
            count_all(counting)
            made.append(SnapshotWriter(live).write())
            real(*arguments)

        made = list[int]()
        monkeypatch.setattr(snapshot_writer, "store_snapshot", slow)
        with pytest.raises(NotWriter, match="meanwhile"):
            SnapshotWriter(live).write()
        assert [record.body["at"] for record in records(live, SNAPSHOT)] == made
        play(live, "c")
        count_all(counting)
        SnapshotWriter(live).write()
        before = told(live)
    assert check_snapshots(file_database, GATE) == (2, 0)
    assert told(follow(file_database)[0]) == before


def test_a_snapshot_was_made_although_older_ones_could_not_be_removed(
    file_database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: Any) -> None:
        raise StoreUnavailable("the store does not answer")

    with started(file_database) as live:
        play(live, "a")
        monkeypatch.setattr(snapshot_writer, "drop_unused_blocks", refuse)
        assert SnapshotWriter(live).write() == live.state.snapshot
    assert "a snapshot was made, older ones could not be removed: the store does not answer" in caplog.text


def test_a_snapshot_is_made_every_so_many_records_and_at_the_end(
    file_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_writer, "LOOK", 0.01)
    monkeypatch.setattr(snapshot_writer, "AT_STOP", 3)
    with started(file_database) as live:
        writer = SnapshotWriter(live, every=50)
        writer.start()
        writer.start()  # a second time nothing happens
        for number in range(9):  # six records each
            play(live, f"e{number}")
        for _ in range(1000):
            if live.state.snapshot:
                break
            writer._stopping.wait(0.01)
        assert live.state.snapshot >= 50
        play(live, "last")
        last = live.journal.last
        writer.stop()
        assert live.state.snapshot >= last
