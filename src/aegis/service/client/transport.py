"""The transport of a client: JSON requests over one open connection, by the standard library alone."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import socket
import ssl
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from aegis.errors import InputError, SettingError
from aegis.service.client.counters import CERTIFICATE, NO_ANSWER, NOT_CONNECTED, UNABLE

DEEPEST = 32  # lists within lists that are sent
LARGEST_BITS = 1024  # of a whole number
MOST_DETAIL = 300  # characters of why a gate cannot answer


def to_json_value(value: Any, strict: bool = False, depth: int = DEEPEST) -> Any:
    """Return a value that can be sent. Anything but finite numbers and text is sent as text; InputError at once if strict.

    The gate refuses that text, with a reason, where it expects a number.
    """
    if value is None or isinstance(value, bool | str) or (isinstance(value, int) and value.bit_length() <= LARGEST_BITS):
        return value
    try:
        return _plain_value(value, strict, depth)
    except InputError:
        raise
    except Exception as error:  # any that an object of the plant's own raises: it does not stop the plant
        if strict:
            raise InputError(f"cannot be sent to the gate: {type(value).__name__} ({type(error).__name__}: {error})") from error
        return f"<{type(value).__name__}>"


def _plain_value(value: Any, strict: bool, depth: int) -> Any:
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal) and value.is_finite():
        return float(value)
    if depth > 0:
        if isinstance(value, Mapping):
            return {str(name): to_json_value(item, strict, depth - 1) for name, item in value.items()}
        if isinstance(value, list | tuple | set | frozenset | range):
            return [to_json_value(item, strict, depth - 1) for item in value]
        if hasattr(value, "tolist"):  # numpy's, and those of its relatives
            return to_json_value(value.tolist(), strict, depth - 1)
    if strict:
        raise InputError(f"cannot be sent to the gate, which takes finite numbers and text: {value!r}")
    return repr(value)[:200]


ANOTHER_CONTROLLER = "another-controller"  # the code of a refusal: the episode belongs to another machine
NOT_NOW = (408, 421, 425, 429)  # answers that say something about the way to the gate, not about the request


class GateAway(Exception):
    """The gate did not answer: not there, too slow, or not able to now. reason: one of `counters.REASONS`."""

    def __init__(self, why: str, reason: str = NOT_CONNECTED) -> None:
        super().__init__(why)
        self.reason = reason


class GateRefusal(Exception):
    """The gate answered that it will not do this. status, code: of the answer."""

    def __init__(self, status: int, why: str, code: str = "") -> None:
        super().__init__(why)
        self.status, self.code = status, code

    @property
    def unauthorised(self) -> bool:
        """Say whether it is about the token, which may be put right, and not about the request."""
        return self.status in (401, 403) and self.code != ANOTHER_CONTROLLER


def make_tls_context(
    url: str, ca: str | Path | None = None, certificate: str | Path | None = None, key: str | Path | None = None
) -> ssl.SSLContext | None:
    """Return how a gate's certificate is checked and which one is shown to it; None without TLS.

    ca: of the authorities that are trusted, the machine's own if None. certificate, key: shown to a gate that asks for one.
    Raises SettingError, naming the file, if one of them cannot be used.
    """
    files = {"ca": ca, "certificate": certificate, "key": key}
    if not url.lower().startswith("https:"):
        useless = next((name for name, path in files.items() if path is not None), None)
        if useless is not None:
            raise SettingError(
                f"'{useless}' belongs to a gate that is asked over TLS: write https:// in its address, found {url!r}"
            )
        return None
    if key is not None and certificate is None:
        raise SettingError("'key' belongs to a 'certificate': give both, or neither")
    for name, path in files.items():
        if path is not None and not Path(path).is_file():
            raise SettingError(f"'{name}': there is no file {path}")
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ValueError) as error:
        raise SettingError(f"'ca': {ca} holds no certificates that can be read ({error})") from error
    if certificate is not None:
        try:
            context.load_cert_chain(certificate, key, password=lambda: "")  # or it would ask at the terminal
        except (OSError, ValueError) as error:
            name = f"{certificate}" if key is None else f"{certificate} with the key {key}"
            raise SettingError(
                f"'certificate': {name} cannot be used ({error}); both are PEM files that belong together, the key without a "
                "password"
            ) from error
    return context


EXPIRED, NOT_YET, WRONG_NAME = 10, 9, (62, 64)  # of OpenSSL's findings about certificates


def _certificate_words(error: ssl.SSLError) -> str | None:
    """Return what is wrong with a certificate, and what to do; None if it is something else."""
    if isinstance(error, ssl.SSLCertVerificationError):
        if error.verify_code in WRONG_NAME:
            fix = "ask for the gate by a name that is in its certificate, or issue one for this name"
        elif error.verify_code in (EXPIRED, NOT_YET):
            fix = "renew the certificate of the gate, or set the clock of this machine"
        else:
            fix = "give the client the file of the authority that signed it ('ca')"
        return f"the certificate of the gate is not accepted: {error.verify_message}; {fix}"
    if "ALERT" in (error.reason or ""):
        fix = "give it a 'certificate' with its 'key' that the authority of the gate's clients signed"
        return f"the gate does not accept this client: {error.reason}; {fix}"
    return None


@dataclass(slots=True)
class GateConnection:
    """A connection to a gate. One request at a time. guarded: the caller cuts it at the end of its time; otherwise it does so."""

    url: str
    token: str | None
    timeout: float
    tls: ssl.SSLContext | None = None
    guarded: bool = False
    _connection: http.client.HTTPConnection | None = field(default=None, init=False)
    _wire: socket.socket | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        except ValueError:
            right = False
        if not right:
            raise SettingError(f"the address of a gate looks like http://127.0.0.1:8741, found {self.url!r}")
        if self.tls is None:
            self.tls = make_tls_context(self.url)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None) -> Any:
        """Return the answer; GateAway if there is none, GateRefusal if the gate refuses."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if key is not None:
            headers["Idempotency-Key"] = key
        if self.token is not None:
            headers["Authorization"] = f"Bearer {self.token}"
        content = None if body is None else json.dumps(body, allow_nan=False)
        watch = None
        if not self.guarded:  # a socket's own limit starts again with every byte
            watch = threading.Timer(self.timeout, self.cut)
            watch.daemon = True
            watch.start()
        try:
            status, text = self._exchange(method, path, content, headers)
        except ssl.SSLError as error:
            self.hang_up()
            words = _certificate_words(error)
            raise GateAway(f"{self.url}: {words or error}", NOT_CONNECTED if words is None else CERTIFICATE) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.hang_up()
            reason = NO_ANSWER if isinstance(error, TimeoutError) else NOT_CONNECTED
            closed = isinstance(error, ConnectionResetError | BrokenPipeError | http.client.BadStatusLine)
            hint = "" if not closed else f"; if it goes on doing so, {CLOSES_TLS if self.tls is not None else CLOSES}"
            raise GateAway(f"{self.url} does not answer: {error or type(error).__name__}{hint}", reason) from error
        finally:
            if watch is not None:
                watch.cancel()
        if status in NOT_NOW or status >= 500:
            raise GateAway(f"{self.url} cannot answer now ({status}{_detail_words(text)})", UNABLE)
        try:
            answer = json.loads(text)
        except ValueError as error:
            raise GateAway(f"{self.url} answered something that is not JSON ({status})", UNABLE) from error
        if status >= 400:
            fields = answer if isinstance(answer, dict) else {}
            raise GateRefusal(status, _refusal_words(fields.get("detail", answer)), str(fields.get("code", "")))
        return answer

    def cut(self) -> None:
        """End the exchange that is going on, from another thread: its caller gets GateAway."""
        wire = self._wire
        if wire is not None:
            with contextlib.suppress(OSError):
                socket.socket.shutdown(wire, socket.SHUT_RDWR)  # that of TLS would pull the ground from under its reader

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
            self._dial(connection)
        # `_wire` is kept here: the connection forgets its socket while an answer is read that ends with it.
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
        if parts.scheme == "https":
            return http.client.HTTPSConnection(str(parts.hostname), parts.port, timeout=self.timeout, context=self.tls)
        return http.client.HTTPConnection(str(parts.hostname), parts.port, timeout=self.timeout)

    def _dial(self, connection: http.client.HTTPConnection) -> None:
        """Open the socket of a connection. It can be cut from its first moment on, in the handshake of TLS as well."""
        wire = socket.create_connection((connection.host, connection.port), self.timeout)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wire = wire
        if self.tls is None:
            connection.sock = wire
            return
        secure = self.tls.wrap_socket(wire, server_hostname=connection.host, do_handshake_on_connect=False)
        self._wire = connection.sock = secure
        secure.do_handshake()


CLOSES = "it may expect TLS: write https:// in its address"
CLOSES_TLS = "it may ask its clients for a certificate: give the client a 'certificate' with its 'key'"


def _detail_words(text: bytes) -> str:
    """Return why the gate, or a proxy before it, cannot answer; nothing if it does not say so."""
    with contextlib.suppress(ValueError):
        answer = json.loads(text)
        if isinstance(answer, dict) and answer.get("detail"):
            return f": {_refusal_words(answer['detail'])}"[:MOST_DETAIL]
    return ""


def _refusal_words(detail: Any) -> str:
    """Return why something was refused, in words."""
    if isinstance(detail, list) and all(isinstance(item, dict) and {"where", "why"} <= set(item) for item in detail):
        return "; ".join(f"{item['where']}: {item['why']}" for item in detail)
    return str(detail)
