"""Connections: how long a client may take to send a request, and which connections are dropped when there are too many."""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import h11
import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from aegis.service.http.middleware import KNOWN

try:
    import resource
except ImportError:  # not on this system
    resource = None  # type: ignore[assignment]

HEAD, BODY = "head", "body"
SECONDS = {HEAD: 5.0, BODY: 10.0}  # that a client has for the request line with all headers, and then for the whole body
HANDSHAKE_SECONDS = 5.0  # of TLS
IDLE_SECONDS = 30  # after which a connection without a request is closed
STALLED_SECONDS = 30.0  # after which a client that does not read its answer is dropped, also if it is the last one
MOST = 4096  # connections
RESERVED = 256  # file descriptors for the store, the log and the trainer


@dataclass(slots=True)
class ConnectionTable:
    """Connections of a server that wait for their client, oldest first: those of strangers, and those of known callers."""

    most: int = MOST
    strangers: OrderedDict[GuardedConnection, None] = field(default_factory=OrderedDict)
    known: OrderedDict[GuardedConnection, None] = field(default_factory=OrderedDict)

    def drop_one(self) -> bool:
        """Drop the connection that is missed least; say whether there was one. A request that is being answered is not ended."""
        for waiting in (self.strangers, self.known):
            if waiting:
                waiting.popitem(last=False)[0].transport.abort()
                return True
        return False

    def forget(self, connection: GuardedConnection) -> None:
        """Take note that a connection does not wait, or is gone."""
        self.strangers.pop(connection, None)
        self.known.pop(connection, None)


class GuardedConnection(H11Protocol):
    """A connection whose client has to send its requests in time.

    The time runs for the whole head and for the whole body: a client that sends a byte now and then does not get more of it.
    """

    def __init__(self, *arguments: Any, table: ConnectionTable, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.table = table
        self._known = False
        self._awaited: str | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection, in the place of another one if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.table.most and not self.table.drop_one():
            transport.abort()
            return
        self._watch(begun=True)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget a connection."""
        self._unset_keepalive_if_required()
        self._await(None)
        self._stop_limit()
        self.table.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read a part of a request."""
        super().data_received(data)
        self._watch(begun=True)

    def on_response_complete(self) -> None:
        """Go on to the next request."""
        self._known = bool(self.cycle.scope.get(KNOWN))
        super().on_response_complete()
        self._watch(begun=bool(self.conn.trailing_data[0]))

    def pause_writing(self) -> None:
        """Wait for a client that does not read, but not for ever."""
        super().pause_writing()
        self._limit_writing()

    def resume_writing(self) -> None:
        """Go on writing."""
        self._stop_limit()
        super().resume_writing()
        if self.transport.is_closing():
            self._limit_writing()

    def timeout_keep_alive_handler(self) -> None:
        """Close a connection without a request."""
        super().timeout_keep_alive_handler()
        self._watch(begun=False)

    def _limit_writing(self) -> None:
        if self._stalled is None:
            self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def _stop_limit(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _watch(self, begun: bool) -> None:
        """Start or stop the clock. begun: a request has begun, or is expected now."""
        if self.transport.is_closing():
            self._limit_writing()  # it closes once its client has read everything, which may be never
            return
        waits = self.conn.their_state in (h11.IDLE, h11.SEND_BODY)
        self.table.forget(self)
        if waits:
            (self.table.known if self._known else self.table.strangers)[self] = None
        head = HEAD if begun and self.conn.their_state is h11.IDLE else None
        self._await(BODY if self.conn.their_state is h11.SEND_BODY else head)

    def _await(self, part: str | None) -> None:
        if part == self._awaited:
            return  # the clock goes on
        if self._timer is not None:
            self._timer.cancel()
        self._awaited = part
        self._timer = None if part is None else self.loop.call_later(SECONDS[part], self.transport.abort)


def server_config(app: ASGIApp, host: str, port: int, trusted: Sequence[str] = (), **more: Any) -> uvicorn.Config:
    """Return how a service is served over HTTP. trusted: addresses of proxies whose 'X-Forwarded-...' headers are believed."""
    return uvicorn.Config(
        app,
        host,
        port,
        http=partial(GuardedConnection, table=ConnectionTable(connection_limit())),  # type: ignore[arg-type]
        loop="asyncio",
        ws="none",
        log_config=None,
        access_log=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=3,  # an open dashboard never hangs up by itself
        proxy_headers=bool(trusted),
        forwarded_allow_ips=list(trusted),
        server_header=False,
        **more,
    )


class GateServer(uvicorn.Server):
    """A server that ends a TLS handshake which takes too long: such a connection is not in any table yet."""

    async def startup(self, sockets: Any = None) -> None:
        """Listen."""
        if self.config.is_ssl:
            loop: Any = asyncio.get_running_loop()
            loop.create_server = partial(loop.create_server, ssl_handshake_timeout=HANDSHAKE_SECONDS)
        await super().startup(sockets)


def raise_file_limit() -> None:
    """Let this process have as many files and connections open as the system allows it."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * MOST + RESERVED if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # some systems have another limit beside it
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def connection_limit() -> int:
    """Return how many connections are held: `MOST`, or fewer if this process may not have so many files open."""
    if resource is None:
        return MOST
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(1, min(MOST, soft - RESERVED))
