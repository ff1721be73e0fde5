"""The client: in time whatever happens to the gate, and nothing lost of what it could not deliver."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from postgres_server import free_port
from service_cases import ALL, LEGACY, RECIPE, SMALL, records, served, small_problem

from aegis.errors import InputError, SettingError
from aegis.service.app import Service
from aegis.service.auth import make_token
from aegis.service.client.gate_client import ActionChoice, Client
from aegis.service.client.spool import Spool
from aegis.service.client.transport import GateAway, GateConnection
from aegis.service.live_gate import LiveGate
from aegis.service.store.database import Database

TIMEOUT = 0.3
SLACK = 1.5  # seconds that a busy machine may take beyond the deadline; what is shown is that nobody waits for the gate
TAKEN = {**LEGACY, "taken": 0.0}


pytestmark = pytest.mark.usefixtures("quick_retries")


def asked(gate: Client, legacy: dict[str, Any] | None = None, name: str | None = None) -> ActionChoice:
    """Ask for one recipe of a new episode, in time."""
    episode = gate.open_episode(name)
    started = time.monotonic()
    choice = episode.decide("recipe", RECIPE, legacy or {**LEGACY, "taken": "fast"}, available=ALL)
    assert time.monotonic() - started < gate.timeout + SLACK
    return choice


def doses(gate: Client, name: str, count: int = 3) -> list[ActionChoice]:
    """Take an episode through the gate."""
    episode = gate.open_episode(name)
    outer = episode.decide("recipe", RECIPE, {**LEGACY, "taken": "fast"}, available=ALL)
    found = [outer]
    for place in range(count):
        found.append(episode.decide("dose", {"temperature": place}, TAKEN, outer))
        episode.report(found[-1], 4.0, guards={"scrap": 0.5})
    episode.close()
    return found


# ---- while the gate answers --------------------------------------------------------------------------------------------------


def test_an_episode_through_the_client(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool", seed=1) as gate:
        choices = doses(gate, "e")
        assert [choice.by for choice in choices] == ["legacy"] * 4
        assert [choice.action for choice in choices] == ["fast", 0.0, 0.0, 0.0]
        assert [choice.propensity for choice in choices] == [pytest.approx(0.3)] * 4
        assert gate.flush()
        assert service.live.state.trees["e"].settled(service.live.problem)


def test_a_strict_client_raises_what_the_gate_refuses(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool", strict=True) as gate:
        episode = gate.open_episode("e")
        with pytest.raises(InputError, match="temperature"):
            episode.decide("recipe", {"temperature": 1.0}, LEGACY, available=ALL)
        for wrong in (float("nan"), float("inf"), object()):
            with pytest.raises(InputError, match="cannot be sent"):
                episode.decide("recipe", {"task": wrong}, LEGACY, available=ALL)
            with pytest.raises(InputError, match="cannot be sent"):
                episode.report("r", wrong)  # type: ignore[arg-type]
        assert episode.decide("recipe", RECIPE, LEGACY, available=ALL).by == "legacy"  # deliveries still go on


def test_the_address_of_a_gate_is_checked(tmp_path: Path) -> None:
    for url in ("127.0.0.1:8741", "ftp://x", "http://"):
        with pytest.raises(SettingError, match="http"):
            Client(url, spool=tmp_path / "spool")


# ---- while it does not -------------------------------------------------------------------------------------------------------


class Fake(BaseHTTPRequestHandler):
    """A gate that answers as a test says."""

    how: Callable[[Fake], None]

    def do_POST(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers.get("content-length", "0")))
        type(self).how(self)

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        """Say nothing."""

    def said(self, status: int, body: Any) -> None:
        """Send an answer."""
        content = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def trickle(fake: Fake) -> None:
    """Send one byte at a time, for ever."""
    try:
        fake.send_response(200)
        fake.send_header("content-length", "1000000")
        fake.end_headers()
        while True:
            fake.wfile.write(b" ")
            fake.wfile.flush()
            time.sleep(0.02)
    except OSError:
        return


def trickle_headers(fake: Fake) -> None:
    """Send one byte of a header at a time, for ever."""
    try:
        fake.wfile.write(b"HTTP/1.1 200 OK\r\nx: ")
        while True:
            fake.wfile.write(b"x")
            fake.wfile.flush()
            time.sleep(0.02)
    except OSError:
        return


HOW: dict[str, Callable[[Fake], None]] = {
    "trickles": trickle,
    "trickles headers": trickle_headers,
    "sleeps": lambda fake: time.sleep(3.0),
    "says 503": lambda fake: fake.said(503, {"detail": "not now"}),
    "says 500": lambda fake: fake.said(500, {"detail": "oh"}),
    "says 502 without JSON": lambda fake: fake.send_error(502),
    "says 421": lambda fake: fake.said(421, {"detail": "another name"}),
    "talks about something else": lambda fake: fake.said(200, ["hello"]),
    "hangs up": lambda fake: fake.connection.shutdown(socket.SHUT_RDWR),
}


@pytest.fixture
def fake(request: pytest.FixtureRequest) -> Iterator[str]:
    """Return the address of a gate that does not do its work."""
    handler = type("Chosen", (Fake,), {"how": staticmethod(HOW[request.param])})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads, server.block_on_close = True, False
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.parametrize("fake", HOW, indirect=True)
def test_the_deadline_is_kept(fake: str, tmp_path: Path) -> None:
    gate = Client(fake, timeout=TIMEOUT, spool=tmp_path / "spool")
    try:
        for _ in range(2):
            choice = asked(gate)
            assert (choice.action, choice.by) == ("fast", "fallback")
            time.sleep(0.12)  # so that the gate is asked again
        assert gate.spool.refused() == []
        assert gate.undelivered == 4  # two episodes, two decisions: all are kept
    finally:
        started = time.monotonic()
        gate.close(0.0)
        assert time.monotonic() - started < SLACK + 1.0


def test_a_gate_that_is_not_there(tmp_path: Path) -> None:
    with Client(f"http://127.0.0.1:{free_port()}", timeout=TIMEOUT, spool=tmp_path / "spool", seed=3) as gate:
        assert asked(gate).by == "fallback"
        own = asked(gate, {"action": "slow", "epsilon": 0.1})
        assert (own.action, own.propensity) == ("slow", None)
        with pytest.raises(InputError, match="does not follow"):
            gate.open_episode().decide("recipe", RECIPE, {}, available=ALL)
        assert gate.fallbacks == 3
        gate.close(0.0)


def test_actions_are_known_from_the_problem_or_from_before(service: Service, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with Client(url, timeout=TIMEOUT, spool=tmp_path / "told", seed=3, problem=small_problem()) as gate:
        own = asked(gate, dict(LEGACY))
        assert own.action == ("slow", "fast", "boost")[own.index or 0]
        gate.close(0.0)
    (tmp_path / "problem.yaml").write_text(SMALL)
    with Client(url, timeout=TIMEOUT, spool=tmp_path / "file", seed=3, problem=tmp_path / "problem.yaml") as gate:
        assert asked(gate, dict(LEGACY)).action == own.action
        gate.close(0.0)
    spool = tmp_path / "spool"
    with Client(url, timeout=TIMEOUT, spool=spool, seed=3) as gate:
        first = asked(gate, dict(LEGACY), "e")
        assert (first.action, first.index, first.propensity) == (None, own.index, own.propensity)
        with served(service, port=port):
            assert gate.flush(30)
        assert gate.refused == []
    (decision,) = service.live.state.trees["e"].decisions.values()
    assert (decision.action, decision.overruled) == (own.index, True)
    with Client(url, timeout=TIMEOUT, spool=spool, seed=3) as gate:  # a control system that was restarted
        assert asked(gate, dict(LEGACY)).action == own.action
        gate.close(0.0)


@pytest.mark.parametrize("fake", ["trickles", "trickles headers"], indirect=True)
def test_an_exchange_has_one_deadline(fake: str) -> None:
    line, started = GateConnection(fake, None, 0.2), time.monotonic()
    with pytest.raises(GateAway):
        line.ask("GET", "/v1/problem")
    assert time.monotonic() - started < 0.2 + SLACK


def test_the_legacy_is_drawn_as_it_says(service: Service, tmp_path: Path) -> None:
    port = free_port()
    gate = Client(f"http://127.0.0.1:{port}", timeout=5, spool=tmp_path / "spool", seed=5)
    with served(service, port=port):
        gate.learn_actions()
    gate.timeout = 0.01
    drawn = [asked(gate, dict(LEGACY)) for _ in range(60)]
    assert {choice.by for choice in drawn} == {"fallback"}
    counts = [sum(choice.action == value for choice in drawn) for value in ("slow", "fast", "boost")]
    assert all(count > 0 for count in counts)
    assert {choice.propensity for choice in drawn} == {0.5, 0.3, 0.2}
    means = [asked(gate, {"action": "fast", "epsilon": 0.3}) for _ in range(30)]
    assert {round(choice.propensity or 0.0, 9) for choice in means if choice.action == "fast"} == {0.8}
    masked = gate.open_episode().decide("recipe", RECIPE, {"action": "fast", "epsilon": 1.0}, available=[False, True, False])
    assert (masked.action, masked.propensity) == ("fast", 1.0)
    gate.close(0.0)


# ---- delivering --------------------------------------------------------------------------------------------------------------


def test_what_was_kept_is_delivered_once_and_in_order(service: Service, tmp_path: Path) -> None:
    port = free_port()
    gate = Client(f"http://127.0.0.1:{port}", timeout=TIMEOUT, spool=tmp_path / "spool")
    made = {name: doses(gate, name) for name in ("a", "b")}
    assert all(choice.by == "fallback" for choices in made.values() for choice in choices)
    assert gate.undelivered == 2 * (1 + 4 + 3 + 1)
    with served(service, port=port):
        assert gate.flush(30)
        gate.close()
    kinds = [item.kind for item in records(service.live)][2:]
    assert kinds == ["episode", "keyed", "overruled", *["overruled", "results"] * 3, "closed"] * 2
    for name, choices in made.items():
        tree = service.live.state.trees[name]
        assert list(tree.decisions) == [choice.id for choice in choices]
        assert tree.settled(service.live.problem)
        assert all(item.overruled for item in tree.decisions.values())
        assert tree.arm == "agent"  # drawn by the legacy, with its own probabilities


def test_a_decision_that_arrived_too_late_is_overruled(service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, real = threading.Event(), LiveGate.decide

    def slowly(live: LiveGate, *given: Any) -> Any:
        answer = real(live, *given)
        if not slow.is_set():
            time.sleep(0.5)
        return answer

    monkeypatch.setattr(LiveGate, "decide", slowly)
    with served(service) as http, Client(str(http.base_url), timeout=TIMEOUT, spool=tmp_path / "spool") as gate:
        choice = asked(gate, name="e")
        assert choice.by == "fallback"
        slow.set()
        assert gate.flush(30)
        (decision,) = service.live.state.trees["e"].decisions.values()
        assert (decision.id, decision.action, decision.overruled) == (choice.id, 1, True)
        assert gate.spool.refused() == []


KILLED = """
import sys
from aegis.service.client.gate_client import Client
gate = Client(sys.argv[1], timeout=0.1, spool=sys.argv[2])
episode = gate.open_episode("killed")
choice = episode.decide("recipe", {"task": "easy"}, {"distribution": [0.5, 0.3, 0.2], "taken": "fast"}, available=[True] * 3)
print(choice.by, flush=True)
import time
time.sleep(600)
"""


def test_what_a_killed_client_left_is_delivered_by_the_next(service: Service, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", KILLED, url, str(tmp_path / "spool")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == "fallback"
        os.kill(process.pid, signal.SIGKILL)
    with served(service, port=port), Client(url, spool=tmp_path / "spool") as gate:
        assert gate.flush(30)
        assert list(service.live.state.trees["killed"].decisions) == ["recipe-1"]
    assert [item.kind for item in records(service.live)][2:] == ["episode", "keyed", "overruled"]


EXITS = """
import sys
from aegis.service.client.gate_client import Client
gate = Client(sys.argv[1], timeout=0.2, spool=sys.argv[2])
episode = gate.open_episode("e")
gate.spool.arrived(gate.spool.first())
episode.decide("recipe", {"task": "easy"}, {"taken": "fast"})
print("done", flush=True)
"""


@pytest.mark.parametrize("fake", ["trickles"], indirect=True)
def test_a_client_without_a_gate_lets_its_process_end(fake: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", EXITS, fake, str(tmp_path / "spool")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == "done"


def test_refused_parcels_are_kept_and_listed(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool") as gate:
        episode = gate.open_episode("e")
        outer = episode.decide("recipe", RECIPE, LEGACY, available=ALL)
        inner = episode.decide("dose", {"temperature": 1.0}, LEGACY, outer)
        episode.report(inner, 99.0, guards={"scrap": 0.5})
        episode.report(inner, 4.0, guards={"scrap": 0.5})
        episode.close()
        assert gate.flush(30)
        (refusal,) = gate.refused
        assert (refusal.path, refusal.episode, refusal.body["items"][0]["reward"]) == ("/v1/results", "e", 99.0)
        assert refusal.why.startswith("422: item 0: reward")
    assert service.live.state.trees["e"].results[inner.id].reward == 4.0
    again = Spool(tmp_path / "spool")
    assert (len(again), len(again.refused())) == (0, 1)
    again.close()


def test_a_wrong_token_keeps_everything(service: Service, file_database: Database, tmp_path: Path) -> None:
    secret = make_token(file_database, "controller", "controller")
    with served(service) as http:
        url = str(http.base_url)
        with Client(url, "aegis_wrong", timeout=TIMEOUT, spool=tmp_path / "spool") as gate:
            assert asked(gate, name="e").by == "fallback"
            assert not gate.flush(0.5)
            gate._away_until = 0.0
            gate.spool.waits = lambda _: False  # type: ignore[method-assign]
            assert gate._decide("e", {"level": "recipe", "id": "r", "legacy": {"taken": "fast"}}).by == "fallback"
            parcel = gate.spool.first()
            assert parcel is not None
            assert gate.spool.refused() == []
            gate.close(0.0)
        with Client(url, secret, timeout=10, spool=tmp_path / "spool") as gate:
            assert gate.flush(30)
            assert len(gate.spool.refused()) == 1  # the question above lacks its context
    assert list(service.live.state.trees["e"].decisions) == ["recipe-1"]


def test_a_spool_that_cannot_be_written(tmp_path: Path) -> None:
    from aegis.errors import OutputError

    (tmp_path / "file").write_text("x")
    with pytest.raises(OutputError, match="spool"):
        Spool(tmp_path / "file" / "spool")


def test_a_full_disk_stops_no_plant(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    port, full, real = free_port(), threading.Event(), Spool._writing

    def writing(spool: Spool, connection: Any = None) -> Any:
        if full.is_set():
            raise sqlite3.OperationalError("database or disk is full")
        return real(spool, connection)

    monkeypatch.setattr(Spool, "_writing", writing)
    gate = Client(f"http://127.0.0.1:{port}", timeout=TIMEOUT, spool=tmp_path / "spool")
    full.set()
    made = doses(gate, "e")
    assert [choice.by for choice in made] == ["fallback"] * 4
    assert gate.undelivered == 9
    assert "in memory only" in caplog.text
    full.clear()
    with served(service, port=port):
        assert gate.flush(30)
        gate.close()
    assert list(service.live.state.trees["e"].decisions) == [choice.id for choice in made]
