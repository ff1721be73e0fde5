"""Clients to test: gates that do not do their work, and episodes through a client."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from typing import Any

from service_cases import ALL, LEGACY, RECIPE

from aegis.service.client.gate_client import ActionChoice, Client
from aegis.service.client.spool import Spool

TIMEOUT = 0.3


SLACK = 1.5  # seconds that a busy machine may take beyond the deadline; what is shown is that nobody waits for the gate


TAKEN = {**LEGACY, "taken": 0.0}


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


def damage(spool: Spool) -> None:
    """Write over the whole file of a spool that is in use."""
    with spool._lock:
        spool._safe.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        size = spool.path.stat().st_size
        with spool.path.open("r+b") as file:
            file.seek(100)
            file.write(b"\xff" * (size - 100))
        for connection in (spool._safe, spool._quick):
            connection.execute("PRAGMA shrink_memory")  # pages that it remembers are read again


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
