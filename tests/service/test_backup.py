"""The schema of a store, and its way into a backup and out of it."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from service_cases import GATE, count_records, played, started

from aegis.errors import AegisError, InputError, SettingError
from aegis.service.auth import find_token, make_token
from aegis.service.http_errors import StoreDamaged, StoreUnavailable
from aegis.service.store.backup import restore_backup, write_backup
from aegis.service.store.database import MIGRATIONS, Database, metadata
from aegis.service.store.journal import Journal, JournalEntry, list_heads

# ---- schema ------------------------------------------------------------------------------------------------------------------


def test_a_store_is_made_from_nothing(store: str) -> None:
    database = Database.at(store)
    try:
        if database.file is None:
            assert database.version() is None
            with pytest.raises(SettingError, match="aegis store upgrade"):
                database.check()
        database.upgrade()
        database.check()
        database.upgrade()  # once more does no harm
        assert database.version() == database.newest()
        inspected = sa.inspect(database.engine)
        for name, table in metadata.tables.items():
            assert {item["name"] for item in inspected.get_columns(name)} == set(table.c.keys())
    finally:
        database.close()


@pytest.mark.parametrize("version", ["0000", "9999"])
def test_another_release_is_refused(database: Database, version: str) -> None:
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :version"), {"version": version})
    with pytest.raises(SettingError, match=f"schema {version}, this release needs {database.newest()}"):
        database.check()
    with pytest.raises(AegisError, match=version):
        database.upgrade()


def test_an_upgrade_that_fails_leaves_nothing(store: str) -> None:
    database = Database.at(store)
    try:
        seen: list[str] = []

        def failing(_: Any, __: Any, statement: str, *___: Any) -> None:
            seen.append(statement)
            if "CREATE TABLE challengers" in statement:
                raise RuntimeError("the power is gone")

        sa.event.listen(database.engine, "before_cursor_execute", failing)
        with pytest.raises(RuntimeError):
            database.upgrade()
        sa.event.remove(database.engine, "before_cursor_execute", failing)
        assert any("CREATE TABLE journal" in item for item in seen)
        assert sa.inspect(database.engine).get_table_names() == []
        database.upgrade()
        database.check()
    finally:
        database.close()


def test_migrations_say_what_the_tables_say(database: Database) -> None:
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    with database.engine.connect() as connection:
        assert compare_metadata(MigrationContext.configure(connection), metadata) == []
    assert MIGRATIONS.is_dir()


@pytest.mark.parametrize("where", ["sqlite://", "mysql://a@b/c", "postgresql:/nowhere", "oracle+x://y"])
def test_what_is_no_store_is_refused(where: str) -> None:
    if where == "postgresql:/nowhere":
        assert Database.at(where).file is not None  # without '//' it is a file of that name
        return
    with pytest.raises(SettingError):
        Database.at(where)


def test_a_password_is_not_shown() -> None:
    database = Database.at("postgresql://me:hidden@127.0.0.1:1/none")
    assert "hidden" not in database.shown
    assert "hidden" not in repr(database)
    with pytest.raises(StoreUnavailable) as found:
        database.version()
    assert "hidden" not in str(found.value)


# ---- backups -----------------------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(database: Database, tmp_path: Path) -> Path:
    """Return a backup of a store with a gate, a challenger and tokens."""
    played(database, 3)
    written = Journal(database, "other")
    written.append([JournalEntry("event", {"a": 1.5, "ü": None})], {"1-dose-2": ("digest", bytes(range(256)))})
    make_token(database, "me", "viewer")
    path = tmp_path / "backup.jsonl.gz"
    backup = write_backup(database, path)
    assert backup.rows == 2 + 3 * 6 + 1 + 1 + 1
    assert {(head.gate, head.seq, head.hash) for head in backup.heads} == {
        (head.gate, head.seq, head.hash) for head in list_heads(database)
    }
    return path


def test_a_backup_goes_into_another_store(database: Database, kept: Path, other_store: str) -> None:
    secret = make_token(database, "late", "operator")
    write_backup(database, kept)
    other = Database.at(other_store)
    try:
        assert restore_backup(other, kept).rows == 24
        for gate in (GATE, "other"):
            assert list(Journal(other, gate).read()) == list(Journal(database, gate).read())
        assert Journal(other, "other").challenger("1-dose-2") == bytes(range(256))
        found = find_token(other, secret)
        assert found is not None
        assert found.name == "late"
        with started(other) as live:
            assert live.state.started == 3
        with pytest.raises(SettingError, match="not empty"):
            restore_backup(other, kept)
    finally:
        other.close()


def _lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def _rewritten(change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        lines = change(_lines(path))
        with gzip.open(path, "wt", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")

    return damage


def _flipped(path: Path) -> None:
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 0x55
    path.write_bytes(bytes(raw))


def _altered(lines: list[str]) -> list[str]:
    return [line.replace("margin", "profit").replace('\\"reward\\":4.0', '\\"reward\\":9.0') for line in lines]


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-40]) and None,
    "a bit": _flipped,
    "empty": lambda path: path.write_bytes(b"") and None,
    "text": lambda path: path.write_text("hello") and None,
    "altered": _rewritten(_altered),
    "a record is gone": _rewritten(lambda lines: lines[:5] + lines[6:]),
    "the first record is gone": _rewritten(lambda lines: lines[:1] + lines[2:]),
    "the last record is gone": _rewritten(lambda lines: [*lines[:21], *lines[22:]]),
    "a record twice": _rewritten(lambda lines: [*lines[:5], lines[4], *lines[5:]]),
    "another order": _rewritten(lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]]),
    "no head": _rewritten(lambda lines: lines[1:]),
    "another head": _rewritten(lambda lines: ["[1]", *lines[1:]]),
    "a newer schema": _rewritten(lambda lines: [json.dumps({"aegis store": "9999"}), *lines[1:]]),
    "no json": _rewritten(lambda lines: [*lines[:5], "{", *lines[5:]]),
    "a number": _rewritten(lambda lines: [*lines[:5], "3", *lines[5:]]),
    "another table": _rewritten(lambda lines: [*lines, '["users", {"name": "x"}]']),
    "another column": _rewritten(lambda lines: [*lines, '["tokens", {"nome": "x"}]']),
    "a column is gone": _rewritten(lambda lines: [*lines, '["tokens", {"name": "x"}]']),
    "rows that are none": _rewritten(lambda lines: [*lines, '["tokens", 3]']),
}


def test_a_damaged_backup_is_refused_and_leaves_nothing(kept: Path, database: Database, tmp_path: Path) -> None:
    for place, (what, damage) in enumerate(DAMAGES.items()):
        path = tmp_path / f"damaged-{place}.gz"
        path.write_bytes(kept.read_bytes())
        damage(path)
        other = Database.at(tmp_path / f"restored-{place}.sqlite")
        try:
            with pytest.raises((InputError, StoreDamaged)):
                print(what, restore_backup(other, path))  # the name of what was taken, if it was
            for name in ("journal", "challengers", "tokens"):
                with other.engine.connect() as connection:
                    assert connection.execute(sa.select(sa.func.count()).select_from(metadata.tables[name])).scalar() == 0, what
            assert restore_backup(other, kept).rows == 23, what
        finally:
            other.close()


def test_a_backup_that_is_not_there(tmp_path: Path, file_database: Database) -> None:
    with pytest.raises(InputError, match="nowhere"):
        restore_backup(file_database, tmp_path / "nowhere.gz")


def test_a_backup_while_the_gate_goes_on_is_of_one_moment(database: Database, tmp_path: Path, other_store: str) -> None:
    written, going = Journal(database, GATE), threading.Event()

    def write() -> None:
        place = 0
        while not going.is_set():
            place += 1
            written.append([JournalEntry("event", {"place": place})], {f"{place}-dose-2": ("digest", b"x" * 100)})

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for place in range(8):
            path = tmp_path / f"{place}.gz"
            write_backup(database, path)
            rows = [json.loads(line) for line in _lines(path)[1:-1]]
            journalled = {json.loads(row["body"])["place"] for name, row in rows if name == "journal"}
            kept = {int(row["name"].split("-")[0]) for name, row in rows if name == "challengers"}
            assert journalled == kept
    finally:
        going.set()
        thread.join()
    other = Database.at(other_store)
    try:
        restore_backup(other, path)
        assert count_records(other, GATE) == len(journalled)
    finally:
        other.close()
