"""A store of release 0.1 is upgraded in place, and its backups restore: everything in it is kept, and its gates go on.

The files were made with the code of that release (`release_0_1/make_store.py`): a backup, and what that release knew and
exported.
"""

from __future__ import annotations

import dataclasses
import gzip
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from service_cases import (
    SEED,
    count_all,
    counting_here,
    inner,
    key,
    meta,
    run_plant,
    small_plant,
    small_problem,
)

from aegis.cli import main
from aegis.errors import AegisError
from aegis.handover import GateSettings
from aegis.service import check_snapshots, check_store, export_gate
from aegis.service.auth import list_tokens
from aegis.service.live_gate import LiveGate
from aegis.service.live_state import LiveState
from aegis.service.schemas import Report
from aegis.service.snapshot_writer import SnapshotWriter
from aegis.service.store.backup import BACKUP_TABLES, _value, restore_backup, write_backup
from aegis.service.store.database import MIGRATIONS, Database
from aegis.service.store.journal import Journal, JournalRecord

FILES = Path(__file__).parent / "release_0_1"
BACKUP = FILES / "backup.jsonl.gz"
KNOWN = json.loads(gzip.decompress((FILES / "known.json.gz").read_bytes()))
GATES = ("plant", "small", "asked")
QUICK: dict[str, Any] = {"mode": "live", "first": 8, "caps": (2.0,), "patience": 1.0}
SETTINGS = {
    "plant": GateSettings(**QUICK),
    "small": GateSettings(mode="approve", delta=0.1),
    "asked": GateSettings(**{**QUICK, "mode": "approve", "upgrades": False}),
}
for _gate in GATES:
    for _seal in KNOWN[_gate]["sealed"].values():
        del _seal["policy"]  # the digest of the whole piece covers it


@pytest.fixture
def old(store: str) -> Iterator[Database]:
    """Return a store with the first schema and the rows of that release."""
    database = Database.at(store)
    with database.transaction() as connection:
        config = Config()
        config.set_main_option("script_location", str(MIGRATIONS))
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        for line in gzip.decompress(BACKUP.read_bytes()).decode().splitlines():
            entry = json.loads(line)
            if isinstance(entry, list):
                name, row = entry
                columns = sa.table(name, *(sa.column(item) for item in row))
                connection.execute(columns.insert(), {item: _value(value) for item, value in row.items()})
    yield database
    database.close()


def live_of(database: Database, gate: str) -> LiveGate:
    problem = small_problem() if gate == "small" else small_plant().problem
    return LiveGate(database, gate, problem, SETTINGS[gate], SEED)


def plain(value: Any) -> Any:
    """Return a value as plain data, as `make_store.py` does."""
    if isinstance(value, GateSettings):
        return plain({name: getattr(value, name) for name in GateSettings.model_fields})
    if dataclasses.is_dataclass(value):
        return {item.name: plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int | float):
        return value
    return repr(value)


def kept(before: Any, now: Any) -> Any:
    """Return what there is now without the fields that the old release did not have."""
    if isinstance(before, dict) and isinstance(now, dict):
        return {name: kept(item, now[name]) for name, item in before.items()}
    if isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        return [kept(*pair) for pair in zip(before, now, strict=True)]
    return now


def check_known(database: Database, gate: str) -> None:
    """Compare the replay of a gate with what the old release knew."""
    live = live_of(database, gate)
    for record in live.journal.news():
        live.state.apply(record)
    now = {name: plain(getattr(live.state, name)) for name in KNOWN[gate] if name not in ("last", "head")}
    now |= {"last": live.journal.last, "head": live.journal.head}
    assert kept(KNOWN[gate], now) == KNOWN[gate]


def check_exports(database: Database, folder: Path) -> None:
    """Compare the exports with those of the old release."""
    for gate in GATES:
        export = export_gate(database, gate, folder / gate)
        before = dict(KNOWN["exported"][gate])
        log = pq.read_table(folder / gate / "log.parquet").to_pydict()
        assert log == before.pop("log")
        assert {name: export[name] for name in before} == before


def test_an_old_store_is_refused_until_it_is_upgraded(old: Database) -> None:
    with pytest.raises(AegisError, match=r"has the schema 0001.*aegis store backup.*aegis store upgrade"):
        old.check()


def test_an_old_store_is_backed_up_before_its_upgrade(
    old: Database, other_store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, store = tmp_path / "before.jsonl.gz", old.url.render_as_string(hide_password=False)
    with pytest.raises(SystemExit) as stop:
        main(["store", "backup", "--store", store if old.file is None else str(old.file), "--out", str(path)])
    assert not stop.value.code, capsys.readouterr()
    assert capsys.readouterr().out.startswith("727 rows in")
    assert old.version() == "0001"
    rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    assert rows == [json.loads(line) for line in gzip.decompress(BACKUP.read_bytes()).decode().splitlines()]
    other = Database.at(other_store)
    try:
        assert restore_backup(other, path).rows == 727
        check_known(other, "plant")
    finally:
        other.close()


def test_an_old_store_is_upgraded_with_everything_in_it(old: Database, tmp_path: Path) -> None:
    old.upgrade()
    old.check()
    for gate in GATES:
        check_known(old, gate)
    checks = check_store(old)
    assert {item.gate: item.records for item in checks} == {gate: KNOWN[gate]["last"] for gate in GATES}
    assert {item.gate: item.challengers for item in checks} == {"asked": 4, "plant": 8, "small": 0}
    assert [(item.name, item.role, item.revoked is None) for item in list_tokens(old)] == [
        ("gone", "viewer", False),
        ("reactor", "controller", True),
    ]
    check_exports(old, tmp_path)


def test_an_old_backup_restores(database: Database, tmp_path: Path) -> None:
    assert restore_backup(database, BACKUP).rows == 727
    for gate in GATES:
        check_known(database, gate)
    check_exports(database, tmp_path)
    again = tmp_path / "again.jsonl.gz"
    assert write_backup(database, again).rows == 727


def test_an_old_backup_with_columns_missing_is_refused(file_database: Database, tmp_path: Path) -> None:
    lines = gzip.decompress(BACKUP.read_bytes()).decode().splitlines()
    for change in ('"body": ', '"hash": ', '"more": 1, "kind": '):
        broken = [line.replace(change.split(", ")[-1], '"bodi": ' if change[1] != "m" else change) for line in lines]
        path = tmp_path / "broken.jsonl.gz"
        path.write_bytes(gzip.compress("\n".join(broken).encode()))
        with pytest.raises(AegisError, match="other columns"):
            restore_backup(file_database, path)
    for table in BACKUP_TABLES.values():
        with file_database.reading() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() == 0


def test_requests_that_are_sent_again_after_the_upgrade_get_the_same_answers(old: Database) -> None:
    old.upgrade()
    live = live_of(old, "plant")
    live.start()
    last = live.journal.last
    answers = {
        "decide one": live.decide("decide one", "one", meta()),
        "open two": live.open_episode("open two", "two"),
        "report two": live.report("report two", [Report(episode="two", decision="i", reward=0.125, outcome=0.5)]),
    }
    assert answers == KNOWN["answers"]
    asked = live_of(old, "asked")
    asked.start()
    challenge = KNOWN["exported"]["asked"]["certificates"][0]["challenge"]
    assert asked.say("approve", "approve", "ann", "looks well", "inner", challenge)["done"] == "approve"
    assert live.journal.last == last
    live.stop()
    asked.stop()


def test_gates_of_an_old_store_go_on(old: Database, tmp_path: Path) -> None:
    old.upgrade()
    plant, live = small_plant(), live_of(old, "plant")
    live.start()
    counting, counted = counting_here(live), live.state.opened.episode
    before = {name: live.state.trees[name].policies for name in ("one", "two")}
    assert all(policies == {"inner": "1-inner-2"} for policies in before.values())
    assert live.decide(key(), "one", inner("i"))["by"] == "agent"
    live.report(key(), [Report(episode="one", decision="i", reward=0.5, outcome=0.5)])
    live.close(key(), "one")
    live.close(key(), "two")
    live.decide(key(), "four", meta())
    live.close(key(), "four", incomplete=True)
    count_all(counting)
    assert live.state.opened.episode == counted + 4
    run_plant(plant, live, 1000, 20, counting)
    SnapshotWriter(live).write()
    run_plant(plant, live, 1020, 2, counting)
    known = plain(live.state.gate)
    live.stop()
    again = live_of(old, "plant")
    again.start()
    assert plain(again.state.gate) == known
    assert again.state.snapshot > 349
    again.stop()
    check_store(old)
    assert check_snapshots(old, "plant") == (1, 0)
    assert export_gate(old, "plant", tmp_path / "out")["episodes"] == counted + 3 + 22


def test_a_journal_from_before_drawn_was_written_is_read_as_it_was() -> None:
    """Release 0.1 reads journals that are older than itself."""
    state = LiveState(small_problem())
    body = {
        **{"id": "r", "episode": "e", "level": "recipe", "parent": None, "context": {"task": 0}, "available": None},
        **{"legacy": [0.5, 0.3, 0.2], "chances": [0.5, 0.3, 0.2], "action": 0, "by": "legacy", "overruled": True},
        **{"number": 1, "arm": "agent", "policies": {}},
    }
    for mixed in (True, False):
        for seq, (kind, content) in enumerate([("episode", {"id": "e", "time": None}), ("overruled", {**body, "mixed": mixed})]):
            state.apply(JournalRecord(seq + 1, "2024-01-01T00:00:00+00:00", kind, content, None, None, None, ""))
        assert state.trees["e"].decisions["r"].drawn is not mixed
        assert state.trees["e"].gap is mixed


@pytest.mark.parametrize("way", ["upgrade", "restore"])
def test_the_commands_do_it(old: Database, tmp_path: Path, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    store = old.url.render_as_string(hide_password=False)
    if old.file is not None:
        store = str(old.file)
    if way == "restore":
        store = str(tmp_path / "restored.sqlite")
    words = ["upgrade"] if way == "upgrade" else ["restore", str(BACKUP)]
    for command_words in (words, ["verify"], ["export", "--name", "asked", "--out", str(tmp_path / "out")]):
        with pytest.raises(SystemExit) as stop:
            main(["store", *command_words, "--store", store])
        assert not stop.value.code, capsys.readouterr()
    assert "each of 41 events follows" in capsys.readouterr().out


def test_the_first_records_are_as_they_were(old: Database) -> None:
    old.upgrade()
    for gate in GATES:
        first = Journal(old, gate).first()
        assert first is not None and first.caller is None
        assert GateSettings.of(first.body["event"]["settings"]) == SETTINGS[gate]
