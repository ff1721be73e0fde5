"""Archiving a gate: nothing is lost, the chain goes on, no request is done twice, and the gate works as before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from service_cases import SEED, Here, count_all, inner, key, meta, run_plant, small_plant
from test_old_store import BACKUP, live_of, plain

from aegis.cli import main
from aegis.errors import AegisError, InputError, OutputError
from aegis.handover import HOSTS
from aegis.service import check_gate, check_snapshots, export_gate, list_heads
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.http_errors import Conflict, NotAllowed, NotFound, NotWriter, StoreDamaged
from aegis.service.integrity import rekey_gate
from aegis.service.journal_archive import ArchiveReport, archive_gate
from aegis.service.journal_export import LOG
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Report
from aegis.service.snapshot_writer import SnapshotWriter
from aegis.service.status import GateStatus
from aegis.service.store import archive as archive_module
from aegis.service.store.archive import ARCHIVED, RECORDS
from aegis.service.store.backup import restore_backup, write_backup
from aegis.service.store.database import Database, archived_keys_table, blocks_table, journal_table
from aegis.service.store.journal import Journal
from aegis.service.store.journal_keys import JournalKeys, make_journal_key
from aegis.service.trainer import Trainer, TrainerSetup, resume_trainer

GATE = "plant"
LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def plant(database: Database) -> Database:
    """Return a store with a gate that has handed a level over, and has open episodes."""
    restore_backup(database, BACKUP)
    return database


@pytest.fixture
def file_plant(file_database: Database) -> Database:
    """Return the same in SQLite, where one kind is enough."""
    restore_backup(file_database, BACKUP)
    return file_database


def archived(database: Database, folder: Path | None, before: datetime = LATER, **more: Any) -> ArchiveReport:
    return archive_gate(database, GATE, before, folder, **more)


def address(database: Database) -> str:
    return str(database.file) if database.file is not None else database.url.render_as_string(hide_password=False)


def counting_resumed(live: LiveGate) -> EpisodeCounter:
    """Return a counter whose trainer resumes as one in a process of its own does."""
    order = TrainerSetup(address(live.database), live.name, live.problem, HOSTS["greedy"](), live.seed)
    return EpisodeCounter(live, Here(resumed(order, live.database)))  # type: ignore[arg-type]


def resumed(order: TrainerSetup, database: Database) -> Trainer:
    """Return a trainer that leaves no connection open."""
    trainer, _ = resume_trainer(order)
    assert trainer.database is not None
    trainer.database.close()
    trainer.database = database
    return trainer


def started_plant(database: Database, keys: JournalKeys | None = None) -> LiveGate:
    live = live_of(database, GATE)
    live.keys = live.journal.keys = keys
    GateStatus(live)
    live.start()
    return live


def knows(database: Database) -> dict[str, Any]:
    """Return what a gate knows after a start, and its page."""
    live = started_plant(database)
    live.stop()
    names = ("seed", "gate", "trees", "numbers", "started", "changed", "sealed", "silent")
    followed = None if live.follower is None else live.follower.kept()
    state = json.loads(json.dumps({name: plain(getattr(live.state, name)) for name in names} | {"page": followed}))
    for tree in state["trees"].values():
        del tree["known"], tree["heard"]
    return state


def go_on(database: Database, first: int, episodes: int) -> None:
    """Close what is open, and run more episodes."""
    live = started_plant(database)
    counting = counting_resumed(live)
    for name in list(live.state.trees):
        live.close(key(), name, abandoned=True, incomplete=True)
    count_all(counting)
    run_plant(small_plant(), live, first, episodes, counting)
    live.stop()


def seqs(database: Database) -> list[int]:
    table = journal_table.c
    with database.reading() as connection:
        return list(connection.execute(sa.select(table.seq).where(table.gate == GATE).order_by(table.seq)).scalars())


def log_of(folder: Path) -> dict[str, list[Any]]:
    return pq.read_table(folder / "log.parquet").to_pydict()


def test_what_was_archived_is_read_together_with_the_store(plant: Database, tmp_path: Path) -> None:
    before, folder = knows(plant), tmp_path / "archive"
    rows = [dict(row) for row in Journal(plant, GATE).rows()]
    whole = export_gate(plant, GATE, tmp_path / "before")
    report = archived(plant, folder)
    opened = Journal(plant, GATE).under("episode one")
    assert opened is not None
    assert report.waits_for == "one" and report.last == opened.seq - 1 and report.records == report.last > 300
    assert report.episodes == 41 and report.folder is not None
    kept = seqs(plant)
    assert kept[0] == 1 and kept[1] == report.last + 1  # the first record stays
    assert knows(plant) == before
    assert [dict(row) for row in Journal(plant, GATE, archive=folder).rows()][: len(rows)] == rows  # the same hashes
    # Verifying with and without the archive, and exporting.
    alone, together = check_gate(plant, GATE), check_gate(plant, GATE, archive=folder)
    assert alone.after == report.last and together.after == 0
    assert f"records 1 to {report.last}, which are in an archive: name it with --archive" in alone.unchecked
    assert together.checked[0] == f"records 1 to {together.records} are there, in sequence, up to {report.last} in the archive"
    assert (alone.challengers, together.challengers) == (8, 8)
    assert together.events == 47 and alone.events < 47
    assert check_snapshots(plant, GATE) == (0, 1)
    assert check_snapshots(plant, GATE, archive=folder) == (1, 0)
    with pytest.raises(InputError, match="name it with --archive"):
        export_gate(plant, GATE, tmp_path / "alone")
    again = export_gate(plant, GATE, tmp_path / "after", archive=folder)
    assert {**again, "head": ""} == {**whole, "head": ""}
    assert log_of(tmp_path / "after") == log_of(tmp_path / "before") == log_of(Path(report.folder))
    for name in ("problem.yaml", "problem-others.yaml", f"{whole['certificates'][0]['folder']}/claims.json"):
        if (tmp_path / "before" / name).exists():
            assert (tmp_path / "after" / name).read_bytes() == (tmp_path / "before" / name).read_bytes()
    # The other gates of the store are as they were.
    assert Journal(plant, "small").archived_to == 0
    assert check_gate(plant, "asked").after == 0


@pytest.mark.ci
def test_a_gate_goes_on_and_is_archived_again(plant: Database, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    first = archived(plant, folder)
    assert archived(plant, folder).records == 0  # nothing is left that may go
    go_on(plant, 1000, 12)
    second = archived(plant, folder)
    assert second.first == first.last + 1 and second.records > 50
    assert second.waits_for is None and second.episodes == 4 + 12
    go_on(plant, 1100, 10)
    check = check_gate(plant, GATE, archive=folder)
    assert check.after == 0 and check.archived == second.last
    assert check_snapshots(plant, GATE, archive=folder)[1] == 0
    assert check_gate(plant, GATE).after == second.last
    export = export_gate(plant, GATE, tmp_path / "out", archive=folder)
    assert export["episodes"] == 41 + 2 + 22
    logs = [log_of(Path(str(item.folder)))["episode"] for item in (first, second)]
    assert set(logs[0]) | set(logs[1]) < set(log_of(tmp_path / "out")["episode"])
    assert not set(logs[0]) & set(logs[1])
    # An archive of which a part is gone is noticed.
    (Path(str(first.folder)) / RECORDS).unlink()
    with pytest.raises(StoreDamaged, match="cannot read the archive"):
        check_gate(plant, GATE, archive=folder)


def test_only_records_before_the_time_go(file_plant: Database, tmp_path: Path) -> None:
    middle = list(Journal(file_plant, GATE).read())[200]
    report = archived(file_plant, tmp_path, datetime.fromisoformat(middle.at))
    assert report.waits_for is None
    assert report.last < middle.seq
    assert next(iter(Journal(file_plant, GATE).rows(report.last)))["at"] >= middle.at
    assert archived(file_plant, tmp_path, datetime.fromisoformat(middle.at)).records == 0
    # Episodes that were opened before the last record and counted after it are in the log of the run.
    assert check_gate(file_plant, GATE, archive=tmp_path).archived == report.last
    assert len(set(log_of(Path(str(report.folder)))["episode"])) == report.episodes


def test_no_request_is_done_twice(plant: Database, tmp_path: Path) -> None:
    live = started_plant(plant)
    live.open_episode("my-open", "mine", caller="reactor")
    live.decide("my-decision", "mine", meta(), caller="reactor")
    live.decide("my-dose", "mine", inner("i"), caller="reactor")
    mine = [Report(episode="mine", decision="i", reward=0.5, outcome=0.5)]
    live.report("my-report", mine, caller="reactor")
    live.close("my-close", "mine", caller="reactor")
    live.say("my-pause", "pause", "ann", "cleaning")
    live.say("my-resume", "resume", "ann", "clean")
    live.stop()
    go_on(plant, 1000, 2)
    report = archived(plant, tmp_path)
    assert report.waits_for is None
    live = started_plant(plant)
    last, phase = live.journal.last, live.state.opened.phases
    requests = {
        "my-open": lambda: live.open_episode("my-open", "mine", caller="reactor"),
        "my-decision": lambda: live.decide("my-decision", "mine", meta(), caller="reactor"),
        "my-report": lambda: live.report("my-report", mine, caller="reactor"),
        "my-close": lambda: live.close("my-close", "mine", caller="reactor"),
        "my-pause": lambda: live.say("my-pause", "pause", "ann", "cleaning"),
    }
    for name, request in requests.items():
        with pytest.raises(Conflict, match=f"key '{name}' was used before, for a request whose record was archived"):
            request()
    with pytest.raises(Conflict, match="'mine' was opened before"):
        live.open_episode("another", "mine", caller="reactor")
    with pytest.raises(NotAllowed, match="another controller"):
        live.report("other", mine, caller="mixer")
    with pytest.raises(NotFound, match="there is no episode 'nowhere'"):
        live.decide("new", "nowhere", meta())
    with pytest.raises(Conflict, match="used before"):  # for another request, about another episode
        live.open_episode("my-report", "fresh")
    assert live.journal.last == last
    assert live.report("later", mine, caller="reactor")["late"]
    assert live.state.opened.phases == phase
    # A decision that comes late ends the tests that counted the episode, archived or not, and once.
    for _ in range(2):
        with pytest.raises(Conflict, match="counted already"):
            live.decide(key(), "mine", inner("j"), caller="reactor")
    late = [item.body["event"] for item in live.journal.events(last, "event", 100) if item.body["event"]["kind"] == "late"]
    assert [item["unit"] for item in late] == [45]
    live.stop()
    archived(plant, tmp_path)  # with the record of the late decision
    live = started_plant(plant)
    with pytest.raises(Conflict, match="counted already"):
        live.decide(key(), "mine", inner("k"), caller="reactor")
    assert live.state.opened.late == 1
    live.stop()
    check_gate(plant, GATE, archive=tmp_path)


class Killed(BaseException):
    """The process ends."""


@pytest.mark.parametrize("moment", ["before", "within"])
def test_a_run_that_is_interrupted_has_removed_nothing(
    plant: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    before, folder = knows(plant), tmp_path / "archive"
    records, removing = len(seqs(plant)), archive_module.remove_records

    def remove(*arguments: Any) -> None:
        if moment == "within":
            removing(*arguments)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("aegis.service.journal_archive.remove_records", remove)
        with pytest.raises(Killed):
            archived(plant, folder)
    assert len(seqs(plant)) > records and seqs(plant)[:5] == [1, 2, 3, 4, 5]
    assert Journal(plant, GATE).marks == ()
    (written,) = folder.rglob(RECORDS)
    content = written.read_bytes()
    assert knows(plant) == before
    report = archived(plant, folder)
    assert report.folder == str(written.parent) and written.read_bytes() == content
    assert check_gate(plant, GATE, archive=folder).after == 0
    assert knows(plant) == before


def test_a_run_that_was_interrupted_leaves_nothing_beside_the_next_one(
    file_plant: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, middle = tmp_path / "archive", list(Journal(file_plant, GATE).read())[200]

    def killed(*_: Any) -> None:
        raise Killed

    def interrupted(before: datetime) -> Path:
        with monkeypatch.context() as patched:
            patched.setattr("aegis.service.journal_archive.remove_records", killed)
            with pytest.raises(Killed):
                archived(file_plant, folder, before)
        (place,) = (path.parent for path in folder.rglob("unfinished"))
        return place

    first = interrupted(datetime.fromisoformat(middle.at))
    assert (first / RECORDS).exists()
    foreign = folder / GATE / "000000000001-000000000100"  # as another store of the same gate has written it
    foreign.mkdir()
    (foreign / RECORDS).write_bytes(b"records")
    second = interrupted(LATER)
    assert second != first and not first.exists()
    (second / "notes.txt").write_text("mine")
    report = archived(file_plant, folder, datetime.fromisoformat(middle.at))
    assert report.folder == str(first) and report.records > 100
    assert sorted(path.name for path in first.iterdir()) == [RECORDS, LOG, "problem.yaml"]
    assert [path.name for path in second.iterdir()] == ["notes.txt"]
    assert [path.name for path in foreign.iterdir()] == [RECORDS]
    # Interrupted after the records were removed: the run stays.
    (first / "unfinished").touch()
    last = archived(file_plant, folder)
    assert last.first == report.last + 1
    assert not list(folder.rglob("unfinished"))
    assert check_gate(file_plant, GATE, archive=folder).after == 0


PROGRAM = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
import aegis.service.journal_archive as module
from aegis.service.store.database import Database

removing = module.remove_records

def remove(*arguments):
    removing(*arguments)
    os.kill(os.getpid(), signal.SIGKILL)

module.remove_records = remove
module.archive_gate(Database.at(sys.argv[1]), "plant", datetime(2100, 1, 1, tzinfo=UTC), Path(sys.argv[2]))
"""


@pytest.mark.ci
def test_a_process_that_is_killed_has_removed_nothing(plant: Database, tmp_path: Path) -> None:
    before, folder = knows(plant), tmp_path / "archive"
    done = subprocess.run([sys.executable, "-c", PROGRAM, address(plant), str(folder)], env=os.environ, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL
    assert Journal(plant, GATE).marks == ()
    assert knows(plant) == before
    assert archived(plant, folder).records > 300
    assert check_gate(plant, GATE, archive=folder).after == 0


def test_a_disk_that_is_full_leaves_the_store_as_it_was(
    file_plant: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, folder = knows(file_plant), tmp_path / "archive"

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    for what in ("aegis.service.store.archive.pq.ParquetWriter.write_table", "aegis.service.journal_export.save_problem"):
        with monkeypatch.context() as patched:
            patched.setattr(what, full)
            with pytest.raises((OutputError, OSError), match="No space left"):
                archived(file_plant, folder)
        assert Journal(file_plant, GATE).marks == ()
        assert knows(file_plant) == before
    assert archived(file_plant, folder).records > 300
    assert not list(folder.rglob("*.part"))


def test_a_file_that_does_not_come_back_as_it_was_leaves_the_store_as_it_was(
    file_plant: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    making = archive_module._table

    def wrong(rows: Any) -> pa.Table:
        return making([{**row, "body": row["body"].replace("0.5", "0.25")} for row in rows])

    for table in (wrong, lambda rows: making(rows[:-1])):
        with monkeypatch.context() as patched:
            patched.setattr(archive_module, "_table", table)
            with pytest.raises(OutputError, match="nothing was removed"):
                archived(file_plant, tmp_path)
        assert Journal(file_plant, GATE).marks == ()
    check_gate(file_plant, GATE)


def test_a_gate_that_is_served_is_not_archived(plant: Database, tmp_path: Path) -> None:
    live = started_plant(plant)
    count = len(seqs(plant))
    with pytest.raises(NotWriter, match=r"is served: .*stop it, and its standby, first$"):
        archived(plant, tmp_path)
    live.stop()
    assert len(seqs(plant)) == count
    with pytest.raises(InputError, match="no gate 'nothing'"):
        archive_gate(plant, "nothing", LATER, tmp_path)


def test_records_that_are_discarded_leave_an_anchor(plant: Database, tmp_path: Path) -> None:
    before = knows(plant)
    report = archived(plant, None)
    assert report.folder is None and report.records > 300
    assert knows(plant) == before
    check = check_gate(plant, GATE, archive=tmp_path)
    assert f"records 1 to {report.last}, which were discarded" in check.unchecked
    with pytest.raises(InputError, match=rf"no whole episode that was opened after record {report.last}"):
        export_gate(plant, GATE, tmp_path / "none")
    go_on(plant, 1000, 6)
    export = export_gate(plant, GATE, tmp_path / "out")
    assert export["episodes"] == 2 + 6 and export["discarded"] == report.last and export["certificates"] == []
    with plant.reading() as connection:
        texts = connection.execute(sa.select(journal_table.c.body).where(journal_table.c.gate == GATE)).scalars()
        assert not any('"episode-0"' in text or "batch" in text for text in texts if "problem" not in text)
    # Blocks that no audit needs went with the records, and the trainer learns from the others.
    with plant.reading() as connection:
        sizes = list(
            connection.execute(sa.select(sa.func.length(blocks_table.c.content)).order_by(blocks_table.c.last)).scalars()
        )
    live = started_plant(plant)
    assert all(size > 0 for size in sizes) or sizes[0] == 0
    SnapshotWriter(live).write()
    live.stop()
    check_gate(plant, GATE)
    check_snapshots(plant, GATE)


def test_an_archive_is_checked_although_records_after_it_were_discarded(plant: Database, tmp_path: Path) -> None:
    heads = [chain for chain, record in Journal(plant, GATE).walk() if record.seq in (100, 349)]
    middle = list(Journal(plant, GATE).read())[200]
    folder = tmp_path / "archive"
    first = archived(plant, folder, datetime.fromisoformat(middle.at))
    second = archived(plant, folder)
    go_on(plant, 1000, 2)
    third = archived(plant, None)
    last = third.last
    assert first.last < second.last < third.last
    check = check_gate(plant, GATE, heads=heads, archive=folder)
    assert f"records 1 to {second.last} are there, in sequence, in the archive, and end with the hash that the journal notes" in (
        check.checked
    )
    assert f"records {second.last + 1} to {last}, which were discarded" in check.unchecked
    assert f"whether the events in records 1 to {second.last} follow from each other" in check.unchecked
    assert (check.kept, check.unknown) == ((100,), (349,))
    alone = check_gate(plant, GATE, heads=heads)
    assert f"records 1 to {second.last}, which are in an archive: name it with --archive" in alone.unchecked
    assert f"records {second.last + 1} to {last}, which were discarded" in alone.unchecked
    assert (alone.kept, alone.unknown) == ((), (100, 349))
    with pytest.raises(StoreDamaged, match="kept elsewhere"):
        check_gate(plant, GATE, heads=[type(heads[0])(GATE, 100, "ab" * 32)], archive=folder)
    for where in (None, folder):
        with pytest.raises(
            InputError, match=rf"opened after record {last}, .* discarded.*log\.parquet in the folder of each run"
        ):
            export_gate(plant, GATE, tmp_path / "out", archive=where)
    assert log_of(Path(str(first.folder)))["episode"]
    path = Path(str(first.folder)) / RECORDS
    table = pq.read_table(path)
    bodies = table["body"].to_pylist()
    bodies[5] = bodies[5].replace(":", ": ", 1)
    pq.write_table(table.set_column(table.column_names.index("body"), "body", pa.array(bodies)), path)
    with pytest.raises(StoreDamaged, match="record 6 was altered"):
        check_gate(plant, GATE, archive=folder)


@pytest.mark.ci
def test_discarded_blocks_are_neither_learned_from_nor_missed(file_plant: Database) -> None:
    """A new phase has begun, so that the audit needs none of the old episodes."""
    go_on(file_plant, 1000, 3)
    live = started_plant(file_plant)
    SnapshotWriter(live).write()
    live.say(key(), "pause", "ann", "cleaning")
    live.say(key(), "resume", "ann", "clean")
    live.stop()
    report = archived(file_plant, None)
    assert report.waits_for is None
    with file_plant.reading() as connection:
        assert list(connection.execute(sa.select(sa.func.length(blocks_table.c.content))).scalars()) == [0]
    go_on(file_plant, 1100, 30)
    live = started_plant(file_plant)
    SnapshotWriter(live).write()  # keeps what is left of the old blocks
    counting = counting_resumed(live)
    numbers = [block.first for block in counting.worker.workshop.blocks]  # type: ignore[attr-defined]
    assert numbers == [live.state.opened.start + 1]
    run_plant(small_plant(), live, 1200, 2, counting)
    live.stop()
    check_gate(file_plant, GATE)
    assert check_snapshots(file_plant, GATE)[0] == 1


def test_a_backup_of_an_archived_store_restores(file_plant: Database, other_store: str, tmp_path: Path) -> None:
    archived(file_plant, tmp_path / "archive")
    go_on(file_plant, 1000, 3)
    archived(file_plant, tmp_path / "archive")
    knew = knows(file_plant)
    path = tmp_path / "backup.jsonl.gz"
    write_backup(file_plant, path)
    other = Database.at(other_store)
    try:
        backup = restore_backup(other, path)
        assert backup.archived == {GATE: Journal(file_plant, GATE).archived_to}
        assert knows(other) == knew
        assert check_gate(other, GATE, archive=tmp_path / "archive").after == 0
        live = started_plant(other)
        with pytest.raises(Conflict):
            live.open_episode(key(), "one")
        live.stop()
    finally:
        other.close()


def _change(table: sa.Table, condition: Any, **values: Any) -> Any:
    def change(database: Database) -> None:
        with database.transaction() as connection:
            query = table.update().values(**values) if values else table.delete()
            assert connection.execute(query.where(table.c.gate == GATE, condition)).rowcount

    return change


JOURNAL, KEYS = journal_table.c, archived_keys_table.c
TAMPERED = {
    "the first record": (_change(journal_table, JOURNAL.seq == 1, at="2020"), "was altered"),
    "the note": (_change(journal_table, JOURNAL.kind == ARCHIVED, body='{"last": 5}'), "was altered"),
    "a key is gone": (_change(archived_keys_table, KEYS.number == 7), "keys of records"),
    "another number": (_change(archived_keys_table, KEYS.number == 7, number=8), "keys of records"),
    "all keys": (_change(archived_keys_table, KEYS.run == 1), "keys of records"),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_what_is_kept_of_archived_records_is_checked(file_plant: Database, tmp_path: Path, what: str) -> None:
    change, expected = TAMPERED[what]
    archived(file_plant, tmp_path / "archive")
    change(file_plant)
    for folder in (None, tmp_path / "archive"):
        with pytest.raises(StoreDamaged, match=expected):
            check_gate(file_plant, GATE, archive=folder)
    write_backup(file_plant, tmp_path / "backup.gz")
    other = Database.at(tmp_path / "other.sqlite")
    with pytest.raises((StoreDamaged, InputError)):
        restore_backup(other, tmp_path / "backup.gz")
    assert seqs(other) == []
    other.close()


def test_an_archive_that_was_altered_is_found(file_plant: Database, tmp_path: Path) -> None:
    report = archived(file_plant, tmp_path)
    path = Path(str(report.folder)) / RECORDS
    table = pq.read_table(path)
    bodies = table["body"].to_pylist()
    place = next(place for place in range(100, 200) if "0.2" in bodies[place])
    bodies[place] = bodies[place].replace("0.2", "0.3")
    for changed, expected in (
        (table.set_column(table.column_names.index("body"), "body", pa.array(bodies)), f"record {place + 1} was altered"),
        (table.slice(0, table.num_rows - 1), "not those that the journal notes"),
        (pa.concat_tables([table.slice(0, 50), table.slice(51)]), "record 51 is missing"),
    ):
        pq.write_table(changed, path)
        with pytest.raises(StoreDamaged, match=expected):
            check_gate(file_plant, GATE, archive=tmp_path)
    path.write_bytes(b"no parquet")
    with pytest.raises(StoreDamaged, match="cannot read the archive"):
        check_gate(file_plant, GATE, archive=tmp_path)


def test_heads_that_were_kept_are_compared_where_the_records_are(file_plant: Database, tmp_path: Path) -> None:
    heads = [item for item in list_heads(file_plant) if item.gate == GATE]
    early = next(chain for chain, record in Journal(file_plant, GATE).walk() if record.seq == 100)
    report = archived(file_plant, tmp_path)
    check = check_gate(file_plant, GATE, heads=[early, *heads])
    assert check.kept == (349,) and check.unknown == (100,)
    assert "the heads at records 100, which are not in the store" in check.unchecked
    assert check_gate(file_plant, GATE, heads=[early, *heads], archive=tmp_path).kept == (100, 349)
    anchor = Journal(file_plant, GATE).marks[0]
    at_anchor = type(early)(GATE, report.last, anchor.hash)
    assert check_gate(file_plant, GATE, heads=[at_anchor]).kept == (report.last,)
    with pytest.raises(StoreDamaged, match="kept elsewhere"):
        check_gate(file_plant, GATE, heads=[type(early)(GATE, report.last, "ab" * 32)])


def test_a_signed_journal_is_archived_with_its_key(plant: Database, tmp_path: Path) -> None:
    keys = make_journal_key(tmp_path / "journal.key")
    rekey_gate(plant, GATE, keys)
    with pytest.raises(AegisError, match="name the file that holds it"):
        archived(plant, tmp_path / "archive")
    live = started_plant(plant, keys)
    for name in list(live.state.trees):
        live.close(key(), name, abandoned=True, incomplete=True)
    order = TrainerSetup(address(plant), GATE, live.problem, HOSTS["greedy"](), SEED, str(tmp_path / "journal.key"))
    count_all(EpisodeCounter(live, Here(resumed(order, plant))))  # type: ignore[arg-type]
    live.stop()
    report = archived(plant, tmp_path / "archive", keys=keys)
    assert report.last > 350  # the record that names the key is among them
    alone, together = check_gate(plant, GATE, keys), check_gate(plant, GATE, keys, archive=tmp_path / "archive")
    assert alone.signed_from == report.last + 1 and together.signed_from == 350
    assert alone.head.signer == together.head.signer == keys.current
    newer = make_journal_key(tmp_path / "new.key", tmp_path / "journal.key")
    rekey_gate(plant, GATE, newer)
    live = started_plant(plant, newer)
    live.stop()
    assert check_gate(plant, GATE, newer, archive=tmp_path / "archive").keys == (keys.current, newer.current)
    with pytest.raises(AegisError, match=r"signed by the journal key|expected one of the key"):
        check_gate(plant, GATE, make_journal_key(tmp_path / "other.key"))


def test_a_standby_that_has_fallen_behind_begins_at_the_snapshot(plant: Database, tmp_path: Path) -> None:
    standby = live_of(plant, GATE)
    GateStatus(standby)
    live = started_plant(plant)
    for record in standby.journal.news():
        standby.state.apply(record)
        if record.seq == 50:
            break
    assert standby.journal.last == 50
    live.stop()
    archived(plant, tmp_path)
    standby.follow()
    knew = knows(plant)
    standby.follow()
    standby.start()
    counting = counting_resumed(standby)
    names = ("gate", "trees", "numbers", "started")
    assert plain(standby.state.gate) == knew["gate"]
    assert all(getattr(standby.state, name) is not None for name in names) and list(standby.state.trees) == list(knew["trees"])
    run_plant(small_plant(), standby, 1000, 1, counting)
    standby.stop()


def test_without_a_snapshot_that_fits_an_archived_gate_does_not_start(file_plant: Database, tmp_path: Path) -> None:
    archived(file_plant, tmp_path)
    with file_plant.transaction() as connection:
        connection.execute(sa.text("UPDATE snapshots SET content = x'00'"))
    with pytest.raises(StoreDamaged, match="are in an archive, and no snapshot after them fits"):
        started_plant(file_plant)
    with pytest.raises(StoreDamaged, match="fits"):
        check_gate(file_plant, GATE)


def test_the_command(plant: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, folder = address(plant), str(tmp_path / "archive")

    def typed(*words: str) -> tuple[int, str]:
        with pytest.raises(SystemExit) as stop:
            main(["store", words[0], "--store", store, *words[1:]])
        shown = capsys.readouterr()
        return int(stop.value.code or 0), shown.out + shown.err

    chosen = ("archive", "--gate", GATE)
    for words in (
        (*chosen, "--keep-days", "1"),
        (*chosen, "--out", folder),
        (*chosen, "--keep-days", "1", "--before", "2026-01-01", "--out", folder),
        (*chosen, "--keep-days", "1", "--out", folder, "--discard"),
        (*chosen, "--before", "yesterday", "--out", folder),
        ("archive", "--keep-days", "1", "--out", folder),  # there are three gates
    ):
        code, shown = typed(*words)
        assert code == 2 and "aegis: " in shown, words
        assert ("were both given" in shown) is (len(words) > 7 or "--discard" in words), shown
    assert "nothing to archive" in typed(*chosen, "--before", "2020-01-31", "--out", folder)[1]
    tomorrow = (datetime.now(UTC) + timedelta(days=400000)).isoformat()
    code, shown = typed(*chosen, "--before", tomorrow, "--out", folder)
    assert code == 0 and "41 episodes are in" in shown and "episode 'one' is not counted yet" in shown
    code, shown = typed("verify")
    assert code == 0 and "which are in an archive: name it with --archive" in shown
    code, shown = typed("verify", "--archive", folder)
    assert code == 0 and "in the archive" in shown and "name it" not in shown
    code, shown = typed("export", "--name", GATE, "--out", str(tmp_path / "out"), "--archive", folder)
    assert code == 0 and "41 episodes" in shown
    code, shown = typed("archive", "--gate", "small", "--keep-days", "0", "--discard", "--json")
    assert code == 0 and json.loads(shown)["folder"] is None and json.loads(shown)["records"] > 50
    code, shown = typed("verify", "--archive", folder)
    assert code == 0 and "which were discarded" in shown
