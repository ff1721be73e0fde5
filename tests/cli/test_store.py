"""store as a user types it: made, verified, backed up and restored; and gates that are not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typed import run

from aegis.errors import SettingError
from aegis.handover import GateSettings
from aegis.problem import parse_problem
from aegis.service import Database, JournalKeys, LiveGate, load_journal_keys
from aegis.service.snapshot_writer import SnapshotWriter

PROBLEM = """
episode: batch
reward: {column: margin, range: [0, 10], per: decision}
levels: [{name: dose, context: [heat], action: {column: dose, grid: {low: -1, high: 1, points: 3}}, propensity: {column: p}}]
"""


def opened(store: Path, name: str = "plant", episodes: int = 3, keys: JournalKeys | None = None) -> None:
    """Open a gate in a store, and a few episodes in it."""
    database = Database.at(store)
    database.upgrade()
    live = LiveGate(database, name, parse_problem(PROBLEM), GateSettings(), 1, keys)
    live.start()
    start = live.journal.last
    for number in range(episodes):
        live.open_episode(f"{start}-{number}", f"e{start}-{number}")
    live.stop()
    database.close()


def test_a_store_is_made_checked_backed_up_and_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store, backup = ("--store", tmp_path / "gate.sqlite"), tmp_path / "gate.jsonl.gz"
    code, out, _ = run("store", "upgrade", *store, "--json", capsys=capsys)
    assert code == 0 and json.loads(out)["before"] is None
    assert run("token", "make", "ann", "--role", "viewer", *store, capsys=capsys)[0] == 0
    assert run("store", "verify", *store, capsys=capsys)[:2] == (0, "the store holds no gate yet\n")
    code, out, _ = run("store", "backup", *store, "--out", backup, "--json", capsys=capsys)
    rows = json.loads(out)["rows"]
    assert code == 0 and rows > 0 and backup.exists()
    again = ("--store", tmp_path / "again.sqlite")
    code, out, _ = run("store", "restore", backup, *again, "--json", capsys=capsys)
    assert code == 0 and json.loads(out)["rows"] == rows
    assert "ann: viewer" in run("token", "list", *again, capsys=capsys)[1]


def test_gates_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ("--store", tmp_path / "gate.sqlite")
    code, _, err = run("store", "verify", *store, capsys=capsys)
    assert code == 2 and "there is no store" in err
    assert run("store", "upgrade", *store, capsys=capsys)[0] == 0
    code, _, err = run("store", "export", *store, "--out", tmp_path / "out", capsys=capsys)
    assert code == 2 and "the store holds 0 gates (none): name one with --name" in err
    code, _, err = run("store", "export", *store, "--name", "press", "--out", tmp_path / "out", capsys=capsys)
    assert code == 2 and "unknown gate 'press'" in err


def test_a_journal_that_was_cut_is_found_by_a_head(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gate.sqlite"
    store, kept = ("--store", path), tmp_path / "heads.txt"
    opened(path, "plant")
    opened(path, "line 3")
    code, out, _ = run("store", "head", *store, capsys=capsys)
    lines = out.splitlines()
    assert code == 0 and [line.rsplit(None, 2)[:2] for line in lines] == [["line 3", "8"], ["plant", "8"]]
    kept.write_text(out)
    assert run("store", "head", *store, "--name", "plant", capsys=capsys)[1] == lines[1] + "\n"
    heads = json.loads(run("store", "head", *store, "--json", capsys=capsys)[1])["heads"]
    assert [(head["seq"], head["keyed"]) for head in heads] == [(8, False), (8, False)]
    code, out, _ = run("store", "backup", *store, "--out", tmp_path / "b.gz", capsys=capsys)
    assert code == 0 and set(out.splitlines()[1:]) == set(lines)
    for words in (("--head", kept), ("--head", lines[0], "--head", lines[1]), ("--head", json.dumps(heads[1]))):
        code, out, _ = run("store", "verify", *store, *words, capsys=capsys)
        assert code == 0 and "records 8 have the hashes of the heads kept elsewhere" in out
    database = Database.at(path)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DELETE FROM journal WHERE gate = 'plant' AND seq > 5")
    database.close()
    code, out, _ = run("store", "verify", *store, capsys=capsys)
    assert code == 0 and "not checked: whether records after 5 were cut off: no head was kept (--head)" in out
    code, _, err = run("store", "verify", *store, "--head", kept, capsys=capsys)
    assert code != 0 and "3 records are missing at the end" in err and "Traceback" not in err
    code, _, err = run("store", "verify", *store, "--head", "plant 8", capsys=capsys)
    assert code == 2 and "GATE SEQ HASH" in err
    code, _, err = run("store", "verify", *store, "--head", tmp_path / "no heads.txt", capsys=capsys)
    assert code == 2 and "no heads.txt: there is no such file" in err
    (tmp_path / "wrong.txt").write_text("\nplant 8\n")
    code, _, err = run("store", "verify", *store, "--head", tmp_path / "wrong.txt", capsys=capsys)
    assert code == 2 and "line 2 is no head" in err


def test_a_stored_snapshot_that_was_altered_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "gate.sqlite"
    opened(path)
    database = Database.at(path)
    live = LiveGate(database, "plant", parse_problem(PROBLEM), GateSettings(), 1)
    live.start()
    SnapshotWriter(live).write()
    live.stop()
    code, out, _ = run("store", "verify", "--store", path, capsys=capsys)
    assert code == 0 and "checked: stored snapshots have the content that the journal notes" in out
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE snapshots SET content = 'xxx'")
    database.close()
    code, out, err = run("store", "verify", "--store", path, capsys=capsys)
    assert code != 0 and not out and "is not the one that was made" in err and "Traceback" not in err


def test_a_key_is_made_used_and_replaced(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, first, second = tmp_path / "gate.sqlite", tmp_path / "first.key", tmp_path / "second.key"
    store = ("--store", path)
    opened(path)
    code, out, _ = run("store", "key", "--out", first, "--json", capsys=capsys)
    name = json.loads(out)["key"]
    assert code == 0 and load_journal_keys(first).current == name
    assert first.read_text().strip() not in out
    code, _, err = run("store", "key", "--out", first, capsys=capsys)
    assert code == 2 and "never overwritten" in err
    code, _, err = run("store", "verify", *store, "--journal-key", first, capsys=capsys)
    assert code != 0 and "has no signature" in err and "aegis store rekey" in err
    assert run("store", "verify", *store, "--journal-key", first, "--unsigned", "plant", capsys=capsys)[0] == 0
    code, out, _ = run("store", "rekey", *store, "--journal-key", first, capsys=capsys)
    assert code == 0 and out == f"gate 'plant' is signed by the journal key {name}\n"
    with pytest.raises(SettingError, match="AEGIS_JOURNAL_KEY_FILE"):
        opened(path)
    opened(path, keys=load_journal_keys(first))
    code, out, _ = run("store", "verify", *store, capsys=capsys)
    assert code == 0 and f"not checked: the hashes of records 9 to 17, signed by the key {name}" in out
    monkeypatch.setenv("AEGIS_JOURNAL_KEY_FILE", str(first))
    code, out, _ = run("store", "verify", *store, capsys=capsys)
    assert code == 0 and f"checked: records 9 to 17 have the signature of the key {name}, which cover what is before" in out
    code, out, _ = run("store", "backup", *store, "--out", tmp_path / "b.gz", capsys=capsys)
    code, out, _ = run("store", "restore", tmp_path / "b.gz", "--store", tmp_path / "two.sqlite", capsys=capsys)
    assert code == 0 and f"gate 'plant': 17 records, signed by the key {name}" in out
    monkeypatch.delenv("AEGIS_JOURNAL_KEY_FILE")
    code, _, err = run("store", "restore", tmp_path / "b.gz", "--store", tmp_path / "three.sqlite", capsys=capsys)
    assert code == 2 and "--journal-key" in err
    assert run("store", "key", "--out", second, "--replaces", first, capsys=capsys)[0] == 0
    assert run("store", "verify", *store, "--journal-key", second, capsys=capsys)[0] != 0
    assert run("store", "rekey", *store, "--journal-key", second, capsys=capsys)[0] == 0
    assert run("store", "verify", *store, "--journal-key", second, capsys=capsys)[0] == 0
    first.chmod(0o644)
    code, _, err = run("store", "verify", *store, "--journal-key", first, capsys=capsys)
    assert code == 2 and "chmod 600" in err
