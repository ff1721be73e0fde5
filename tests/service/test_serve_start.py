"""`aegis serve` from the outside: why it cannot start, what it writes down; and what `aegis token` says about a new store."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from postgres_server import Server, free_port
from service_cases import GATE, SMALL, make_live, make_service, served, small_problem, started

from aegis.cli import main
from aegis.cli.gate_server import LOGGER_NAMES, JsonLineFormatter, ServerOptions, log_json_lines
from aegis.cli.gate_server import make_service as gate_service
from aegis.errors import SettingError
from aegis.service.app import Service
from aegis.service.auth import make_token
from aegis.service.http_errors import NotWriter
from aegis.service.status import GateStatus
from aegis.service.store.database import Database, journal_table
from aegis.service.store.journal_keys import make_journal_key


@pytest.fixture(autouse=True)
def speakers() -> Iterator[None]:
    """Let everybody speak afterwards as before."""
    found = {name: logging.getLogger(name) for name in LOGGER_NAMES}
    before = {name: (list(item.handlers), item.propagate, item.level) for name, item in found.items()}
    yield
    for name, item in found.items():
        item.handlers, item.propagate, item.level = before[name]


def typed(*words: str) -> int:
    """Run the command line."""
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    return int(stop.value.code or 0)


def serve(folder: Path, *more: str) -> int:
    """Serve the small problem."""
    (folder / "problem.yaml").write_text(SMALL)
    store = ("--store", str(folder / "gate.sqlite"), "--name", GATE, "--host", "greedy", "--seed", "7", "--mode", "live")
    return typed("serve", "--problem", str(folder / "problem.yaml"), *store, "--listen", f"127.0.0.1:{free_port()}", *more)


# ---- starting ----------------------------------------------------------------------------------------------------------------


def test_a_gate_that_is_served_already_is_an_error_in_one_line(
    file_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = make_service(make_live(file_database))
    one.start()
    try:
        code = serve(tmp_path)
    finally:
        one.stop()
    said = capsys.readouterr().err.splitlines()
    assert code == 2
    assert len(said) == 1, said
    assert said[0].startswith(f"aegis: another process is the writer of gate '{GATE}'")
    assert "--standby" in said[0]


def test_a_gate_that_was_altered_is_an_error_in_one_line(
    file_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = make_service(make_live(file_database))
    one.start()
    one.live.open_episode("key", "e")
    one.stop()
    with file_database.transaction() as connection:
        connection.execute(journal_table.update().where(journal_table.c.seq == 3).values(at="yesterday"))
    code = serve(tmp_path)
    said = capsys.readouterr().err.splitlines()
    assert (code != 0, len(said)) == (True, 1), said
    assert "record 3 was altered" in said[0]


def test_a_signed_gate_without_its_key_is_an_error_in_one_line(
    file_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "journal.key"
    keys = make_journal_key(path)
    with started(file_database, keys=keys, mode="live"):
        pass
    assert serve(tmp_path) == 2
    assert f"signed by the key {keys.current}: name the file that holds it" in capsys.readouterr().err
    path.chmod(0o640)
    assert serve(tmp_path, "--journal-key", str(path)) == 2
    assert "chmod 600" in capsys.readouterr().err
    options = ServerOptions("127.0.0.1", free_port(), journal_key=str(path))
    path.chmod(0o600)
    service, _ = gate_service(small_problem(), str(tmp_path / "gate.sqlite"), GATE, {}, None, "greedy", options)
    try:
        service.live.start()
        assert (service.live.journal.chain.signer, service.counting.worker.order.journal_key) == (keys.current, str(path))
    finally:
        service.stop()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"host": "0.0.0.0"}, "--listen 0.0.0.0 can be reached from other machines.* or listen on 127.0.0.1"),
        ({"trusted": ("10.0.0.7",)}, "--trust-proxy 10.0.0.7 lets other machines in.* or leave --trust-proxy out"),
        ({"names": ("localhost", "gate.example")}, "--allow-host gate.example is for callers on.* or leave --allow-host out"),
        ({"names": ("*", "localhost")}, r"--allow-host \* is for callers on other machines"),
    ],
)
def test_callers_on_other_machines_need_tokens(
    file_database: Database, tmp_path: Path, more: dict[str, Any], message: str
) -> None:
    options = ServerOptions(**{"host": "127.0.0.1", "port": free_port(), **more})

    def make() -> Service:
        return gate_service(small_problem(), str(tmp_path / "gate.sqlite"), GATE, {}, None, "greedy", options)[0]

    with pytest.raises(SettingError, match=message) as refused:
        make()
    assert "aegis token make" in str(refused.value)
    make_token(file_database, "ann", "operator")
    assert make().hosts == (() if "*" in options.names else options.names)


def test_names_and_proxies_of_the_command_line_need_tokens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "start", lambda _: pytest.fail("it is served without tokens"))
    for more in (("--trust-proxy", "10.0.0.7"), ("--allow-host", "gate.example"), ("--allow-host", "*")):
        assert serve(tmp_path, *more) == 2
        assert f"{' '.join(more)} " in capsys.readouterr().err


def test_what_could_not_start_lets_go_of_everything(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = make_service(make_live(file_database)), make_service(make_live(Database.at(str(file_database.file))))
    one.start()
    stopped: list[bool] = []
    monkeypatch.setattr(type(two.live), "stop", lambda live: stopped.append(live is two.live))
    with pytest.raises(NotWriter):
        two.start()
    assert stopped == [True]
    monkeypatch.undo()
    one.stop()


def test_a_service_that_was_started_is_not_started_by_its_server_again(file_database: Database) -> None:
    service = make_service(make_live(file_database))
    service.start()
    with served(service) as client:
        assert client.get("/v1/health").json()["writer"]
    with file_database.engine.connect() as connection:
        written = connection.execute(sa.select(journal_table.c.kind).order_by(journal_table.c.seq)).scalars().all()
    assert written == ["opened", "writer"]


# ---- what is written down ----------------------------------------------------------------------------------------------------


def test_every_line_is_one_json_object(
    file_database: Database, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: GateStatus) -> None:
        raise RuntimeError("it broke")

    monkeypatch.setattr(GateStatus, "levels_picture", broken)
    log_json_lines("info")
    with served(make_service(make_live(file_database))) as client:
        assert client.get("/v1/health").status_code == 200
        assert client.get("/v1/levels").status_code == 500
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert all({"at", "level", "from", "what"} <= set(line) for line in lines)
    requests = [line for line in lines if line["from"] == "aegis.service.requests"]
    assert [(line["what"], line["method"], line["route"], line["status"]) for line in requests] == [
        ("request", "GET", "/v1/health", 200),
        ("request", "GET", "/v1/levels", 500),
    ]
    assert all(isinstance(line["seconds"], float) for line in requests)
    (failed,) = [line for line in lines if "why" in line]
    assert failed["from"].startswith("uvicorn")
    assert failed["why"].startswith("Traceback") or "RuntimeError: it broke" in failed["why"]
    assert "\n" not in failed["what"]


def test_a_line_has_what_was_said_with_it() -> None:
    try:
        raise ValueError("wrong\nin two lines")
    except ValueError:
        record = logging.LogRecord("aegis.x", logging.ERROR, __file__, 1, "it %s", ("failed",), sys.exc_info())
    record.fields = {"gate": "plant", "where else": Path("/x")}
    line = JsonLineFormatter().format(record)
    assert "\n" not in line
    found = json.loads(line)
    assert (found["what"], found["level"], found["gate"], found["where else"]) == ("it failed", "error", "plant", "/x")
    assert found["why"].endswith("in two lines")
    assert found["at"].endswith("+00:00")


def test_levels_of_the_log_are_kept(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("serve", "--simulate", "additive", "--log-level", "loud") == 2
    assert "'debug', 'info', 'warning'" in capsys.readouterr().err
    log_json_lines("warning")
    logging.getLogger("aegis.service.requests").info("not said")
    assert capsys.readouterr().err == ""


# ---- tokens ------------------------------------------------------------------------------------------------------------------


def test_a_token_that_makes_a_store_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "a" / "gate.sqlite"
    assert typed("token", "make", "me", "--role", "viewer", "--store", str(path), "--json") == 0
    first = capsys.readouterr()
    assert f"made a new store {path}" in first.err
    assert json.loads(first.out)["name"] == "me"
    assert typed("token", "make", "you", "--role", "viewer", "--store", str(path)) == 0
    assert "new store" not in capsys.readouterr().err


def test_a_token_in_an_empty_database_says_so_too(postgres: Server, capsys: pytest.CaptureFixture[str]) -> None:
    address = postgres.fresh()
    try:
        for name, said in (("me", True), ("you", False)):
            assert typed("token", "make", name, "--role", "viewer", "--store", address) == 0
            assert ("made a new store postgresql" in capsys.readouterr().err) is said
    finally:
        postgres.drop(address)
