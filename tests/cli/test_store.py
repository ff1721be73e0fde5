"""store as a user types it: made, verified, backed up and restored; and gates that are not there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typed import run


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
