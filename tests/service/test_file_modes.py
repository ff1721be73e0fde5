"""Files with secrets or the journal are for their owner alone; those that others may use are named in one warning."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from client_cases import doses
from postgres_server import free_port
from service_cases import GATE, make_live, small_problem
from test_journal_archive import LATER
from test_old_store import BACKUP

from aegis.cli.gate_server import ServerOptions
from aegis.cli.gate_server import make_service as gate_service
from aegis.service import make_token
from aegis.service.client.gate_client import Client
from aegis.service.client.spool import Spool
from aegis.service.journal_archive import archive_gate
from aegis.service.store.backup import restore_backup, write_backup
from aegis.service.store.database import Database

pytestmark = pytest.mark.skipif(os.name != "posix", reason="modes of files are a matter of POSIX systems")


@pytest.fixture(autouse=True)
def wide_mask() -> Iterator[None]:
    """Let the system take no rights away by itself."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, str]:
    """Return the mode of everything in a folder, by its path in there."""
    return {str(path.relative_to(folder)): f"{stat.S_IMODE(path.stat().st_mode):o}" for path in folder.rglob("*")}


def test_a_store_with_all_of_its_files(tmp_path: Path) -> None:
    database = Database.at(tmp_path / "new" / "state" / "gate.sqlite")
    database.upgrade()
    make_token(database, "reactor-7", "controller")
    live = make_live(database)
    live.start()
    try:
        beside = {f"new/state/gate.sqlite{end}": "600" for end in ("", "-wal", "-shm", f".{GATE}.lock")}
        assert modes(tmp_path) == {"new": "700", "new/state": "700", **beside}
    finally:
        live.stop()
        database.close()


def test_a_store_that_a_reader_makes(tmp_path: Path) -> None:
    database = Database.at(f"sqlite:///{tmp_path / 'gate.sqlite'}")
    assert database.version() is None
    database.close()
    assert modes(tmp_path)["gate.sqlite"] == "600"


def test_a_spool_with_all_of_its_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "plant" / "spool.sqlite"
    gate = Client(f"http://127.0.0.1:{free_port()}", timeout=0.2, spool=path, problem=small_problem())
    doses(gate, "a", 1)
    assert modes(tmp_path) == {"plant": "700", **{f"plant/spool.sqlite{end}": "600" for end in ("", "-wal", "-shm")}}
    gate.close(0.0)
    assert "open to others" not in caplog.text


def test_a_spool_in_the_place_of_a_damaged_one(tmp_path: Path) -> None:
    path = tmp_path / "spool.sqlite"
    path.write_bytes(b"no database at all" * 100)
    path.chmod(0o644)
    spool = Spool(path)
    assert modes(tmp_path)["spool.sqlite"] == "600"
    spool.close()


def test_backup_and_archive(file_database: Database, tmp_path: Path) -> None:
    restore_backup(file_database, BACKUP)
    write_backup(file_database, tmp_path / "backups" / "one.jsonl.gz")
    assert modes(tmp_path / "backups") == {"one.jsonl.gz": "600"} and modes(tmp_path)["backups"] == "700"
    report = archive_gate(file_database, GATE, LATER, tmp_path / "archive")
    assert report.records > 0
    written = modes(tmp_path / "archive")
    assert any(name.endswith("journal.parquet") for name in written) and any(name.endswith("log.parquet") for name in written)
    for name, mode in written.items():
        assert mode == ("700" if (tmp_path / "archive" / name).is_dir() else "600"), name
    assert modes(tmp_path)["archive"] == "700"


def test_a_spool_that_others_may_read_is_named_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "my spool.sqlite"
    path.touch(mode=0o644)
    with caplog.at_level(logging.WARNING, "aegis.client"):
        spool = Spool(path)
        spool.learn("x", 1)
        spool.close()
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"{path} (mode 0644)" in line and f"chmod 600 '{path}'" in line


def test_a_store_that_others_may_read_is_named_once(file_database: Database, caplog: pytest.LogCaptureFixture) -> None:
    path = Path(str(file_database.file))
    options = ServerOptions("127.0.0.1", free_port())
    with caplog.at_level(logging.WARNING, "aegis.service"):
        gate_service(small_problem(), str(path), GATE, {}, None, "greedy", options)
        assert not caplog.records
        path.chmod(0o640)
        gate_service(small_problem(), str(path), GATE, {}, None, "greedy", options)
    (line,) = [record.getMessage() for record in caplog.records]
    assert f"{path} (mode 0640)" in line and f"chmod 600 {path}" in line
