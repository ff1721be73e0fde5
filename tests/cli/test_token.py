"""token as a user types it: a secret is shown once, listed without it, and revoked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typed import run

from aegis.service import Database


def test_a_token_is_made_listed_and_revoked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ("--store", tmp_path / "gate.sqlite")
    code, out, err = run("token", "make", "ann", "--role", "operator", *store, capsys=capsys)
    secret = out.strip()
    assert code == 0 and secret and "made a new store" in err and "not shown again" in err
    _, out, _ = run("token", "list", *store, "--json", capsys=capsys)
    (token,) = json.loads(out)["tokens"]
    assert (token["name"], token["role"], token["revoked"]) == ("ann", "operator", None) and secret not in out
    assert run("token", "revoke", "ann", *store, capsys=capsys)[:2] == (0, "the token 'ann' is revoked\n")
    assert ", revoked " in run("token", "list", *store, capsys=capsys)[1]
    code, _, err = run("token", "make", "bob", "--role", "king", *store, capsys=capsys)
    assert code == 2 and "king" in err


def test_names_of_earlier_releases_are_shown_without_what_a_terminal_obeys(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store = tmp_path / "gate.sqlite"
    assert run("token", "make", "ann", "--role", "viewer", "--store", store, capsys=capsys)[0] == 0
    database = Database.at(store)
    with database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE tokens SET name = ?", ("ann\n\u202eboss",))
    database.close()
    out = run("token", "list", "--store", store, capsys=capsys)[1]
    assert out.startswith(r"'ann\n\u202eboss': viewer") and len(out.splitlines()) == 1
    assert run("token", "revoke", "ann\n\u202eboss", "--store", store, capsys=capsys)[0] == 0


def test_a_store_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run("token", "list", "--store", tmp_path / "none.sqlite", capsys=capsys)
    assert code == 2 and "there is no store" in err and not (tmp_path / "none.sqlite").exists()
