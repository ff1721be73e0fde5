"""Connections that are not those of a well-behaved client: half-sent requests, slow ones, idle ones, many at once."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx

HALF = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Half"
HEALTH = b"GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
CLOSES = 60.0  # seconds that a server on a busy machine has to close a connection


def connect(client: httpx.Client, sends: bytes = b"", small: bool = False) -> socket.socket:
    """Return a new connection to the service of a client. small: its client takes few bytes before it has to read them."""
    where = urlsplit(str(client.base_url))
    line = socket.socket()
    if small:
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    line.settimeout(CLOSES)
    line.connect((where.hostname, where.port))
    line.sendall(sends)
    return line


@contextlib.contextmanager
def connected(client: httpx.Client, count: int, sends: bytes = b"") -> Iterator[list[socket.socket]]:
    """Yield many connections, on each of which the same was sent."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(connect(client, sends)) for _ in range(count)]


def request(method: str, path: str, token: str | None = None, length: int | None = None, *more: str) -> bytes:
    """Return the head of a request."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", *more]
    lines += [] if token is None else [f"Authorization: Bearer {token}"]
    lines += [] if length is None else [f"Content-Length: {length}", "Content-Type: application/json"]
    return "\r\n".join([*lines, "", ""]).encode()


def read_status(line: socket.socket) -> int:
    """Return the status of the next answer, which is read to its end, or a stream to the end of its head; 0 if there is none."""
    answer, size = b"", -1
    with contextlib.suppress(ConnectionError):
        while len(answer) < size or size < 0:
            more = line.recv(65536)
            if not more:
                return 0
            answer += more
            head, end, _ = answer.partition(b"\r\n\r\n")
            if end:
                length = re.search(rb"content-length: (\d+)", head.lower())
                size = len(head + end) + (int(length[1]) if length else 0)
    return int(answer.split()[1]) if answer else 0


def is_open(line: socket.socket) -> bool:
    """Say whether the server has not closed a connection so far."""
    line.setblocking(False)
    try:
        return line.recv(1, socket.MSG_PEEK) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        line.settimeout(CLOSES)


def wait_closed(line: socket.socket) -> None:
    """Wait until the server has closed a connection; TimeoutError if it does not."""
    with contextlib.suppress(ConnectionError):
        while line.recv(65536):
            pass


def drip(line: socket.socket, seconds: float = 0.05) -> None:
    """Send a byte now and then until the server closes the connection; TimeoutError if it does not."""
    end = time.monotonic() + CLOSES
    with contextlib.suppress(ConnectionError):
        while is_open(line):
            if time.monotonic() > end:
                raise TimeoutError("the connection is still open")
            line.sendall(b"a")
            time.sleep(seconds)
