"""The transport of a client: JSON requests over one open connection, by the standard library alone."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import socket
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from aegis.errors import InputError, SettingError


def to_json_value(value: Any, strict: bool = False) -> Any:
    """Return a value that can be sent. Anything but finite numbers and text is sent as text; InputError at once if strict.

    The gate refuses that text, with a reason, where it expects a number.
    """
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal) and value.is_finite():
        return float(value)
    if isinstance(value, Mapping):
        return {str(name): to_json_value(item, strict) for name, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset | range):
        return [to_json_value(item, strict) for item in value]
    if hasattr(value, "tolist"):  # numpy's, and those of its relatives
        return to_json_value(value.tolist(), strict)
    if strict:
        raise InputError(f"cannot be sent to the gate, which takes finite numbers and text: {value!r}")
    return repr(value)[:200]


NOT_NOW = (408, 421, 425, 429)  # answers that say something about the way to the gate, not about the request


class GateAway(Exception):
    """The gate did not answer: not there, too slow, or not able to now."""


class GateRefusal(Exception):
    """The gate answered that it will not do this. status: of the answer."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


@dataclass(slots=True)
class GateConnection:
    """A connection to a gate. One request at a time."""

    url: str
    token: str | None
    timeout: float
    _connection: http.client.HTTPConnection | None = field(default=None, init=False)
    _wire: socket.socket | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SettingError(f"the address of a gate looks like http://127.0.0.1:8741, found {self.url!r}")

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None) -> Any:
        """Return the answer; GateAway if there is none, GateRefusal if the gate refuses."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        content = None if body is None else json.dumps(body, allow_nan=False)
        watch = threading.Timer(self.timeout, self.cut)  # a socket's own limit starts again with every byte
        watch.daemon = True
        watch.start()
        try:
            status, text = self._exchange(method, path, content, headers)
        except (OSError, http.client.HTTPException) as error:
            self.hang_up()
            raise GateAway(f"{self.url} does not answer: {error or type(error).__name__}") from error
        finally:
            watch.cancel()
        if status in NOT_NOW or status >= 500:
            raise GateAway(f"{self.url} cannot answer now ({status})")
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise GateAway(f"{self.url} answered something that is not JSON ({status})") from error
        if status >= 400:
            raise GateRefusal(status, _refusal_words(answer.get("detail", answer) if isinstance(answer, dict) else answer))
        return answer

    def cut(self) -> None:
        """End the exchange that is going on, from another thread: its caller gets GateAway."""
        if self._wire is not None:
            with contextlib.suppress(OSError):
                self._wire.shutdown(socket.SHUT_RDWR)

    def hang_up(self) -> None:
        """Close the connection; the next request opens another one."""
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
        self._connection = self._wire = None

    def _exchange(self, method: str, path: str, content: str | None, headers: dict[str, str]) -> tuple[int, bytes]:
        fresh, end = self._connection is None, time.monotonic() + self.timeout / 2
        connection = self._connection or self._connect()
        self._connection = connection
        if connection.sock is None:
            connection.connect()
        self._wire = connection.sock  # kept here: the connection forgets it while an answer is read that ends with it
        try:
            connection.request(method, path, content, headers)
            response = connection.getresponse()
        except (ConnectionError, http.client.BadStatusLine):
            if fresh or time.monotonic() > end:
                raise
            self.hang_up()  # a connection that was kept open may be closed by the other side at any time
            return self._exchange(method, path, content, headers)
        return response.status, response.read()

    def _connect(self) -> http.client.HTTPConnection:
        parts = urlsplit(self.url)
        kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        return kind(str(parts.hostname), parts.port, timeout=self.timeout)


def _refusal_words(detail: Any) -> str:
    """Return why something was refused, in words."""
    if isinstance(detail, list) and all(isinstance(item, dict) and {"where", "why"} <= set(item) for item in detail):
        return "; ".join(f"{item['where']}: {item['why']}" for item in detail)
    return str(detail)
