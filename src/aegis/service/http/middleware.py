"""Middleware around every request: size, rate and host limits, its share of the service, browser headers, a log line."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aegis.service.auth import ANONYMOUS, MAY, AccessControl, Token
from aegis.service.http.admission import HEALTH, READ, STRANGER, STREAM, Admission, request_kind
from aegis.service.http_errors import error_answer
from aegis.service.metrics import ServiceMetrics

HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        b"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
)
SECURE = (b"strict-transport-security", b"max-age=31536000")  # of answers over https
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # others are counted together
KNOWN = "aegis.known"  # in the scope of a request: its caller is no stranger
FEW = 10_000  # addresses whose rates are remembered
log = logging.getLogger("aegis.service.requests")


@dataclass(slots=True)
class RateLimit:
    """Tokens in a bucket for each caller: `rate` come back per second, up to twice as many."""

    rate: float
    _buckets: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)

    def allow(self, caller: str) -> bool:
        """Say whether a caller may go on."""
        now = time.monotonic()
        left, last = self._buckets.pop(caller, (2.0 * self.rate, now))
        left = min(2.0 * self.rate, left + (now - last) * self.rate)
        self._buckets[caller] = (left - 1.0 if left >= 1.0 else left, now)
        if len(self._buckets) > FEW:
            self._buckets.popitem(last=False)
        return left >= 1.0


class TooLarge(HTTPException):
    """A body is larger than what is allowed. Frameworks that read a body for a route let this kind of exception through."""


@dataclass(slots=True)
class GuardMiddleware:
    """The outermost layer of the service. hosts: names under which it may be asked, empty for any."""

    app: ASGIApp
    metrics: ServiceMetrics
    rates: RateLimit
    largest: int
    access: AccessControl
    hosts: Sequence[str] = ()
    admission: Admission = field(default_factory=Admission)
    _names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self._names = frozenset(name.lower() for name in self.hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, answered = time.perf_counter(), {"status": 500}
        secure = (SECURE,) if scope["scheme"] == "https" else ()

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered["status"] = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS, *secure, (b"cache-control", b"no-store")]
            await send(message)

        request = Request(scope)
        caller = self.access.recognise(request)
        scope[KNOWN] = caller is not None
        refusal = self._refusal(request, caller)
        try:
            if refusal is not None:
                await refusal(scope, receive, sending)
            elif scope["path"] == HEALTH:
                await self.app(scope, receive, sending)
            else:
                await self._admitted(caller, scope, receive, sending)
        except TooLarge as error:
            await error_answer(error.detail, 413)(scope, receive, sending)
        finally:
            self._note(scope, answered["status"], time.perf_counter() - started)

    async def _admitted(self, caller: Token | None, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request in the share of its kind. Callers who may not do what they ask for have a share of their own."""
        kind = request_kind(scope["method"], scope["path"])
        may = caller is ANONYMOUS or (caller is not None and caller.role in MAY[READ if kind == STREAM else kind])
        share = self.admission.enter(kind if may else STRANGER)
        if share is None:
            await error_answer(f"too many requests of this kind ({kind}) are under way; try again", 503)(scope, receive, send)
            return
        try:
            await self.app(scope, _limited(receive, self.largest), send)
        finally:
            self.admission.leave(share)

    def _refusal(self, request: Request, caller: Token | None) -> Response | None:
        host = _host(request.headers.get("host", ""))
        if self._names and host not in self._names:
            return error_answer(
                f"this service is not called '{host[:100]}'; allowed: {', '.join(self.hosts)} (--allow-host)", 421
            )
        length = request.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > self.largest:
            return error_answer(f"a body has at most {self.largest} bytes", 413)
        # By address until a token has been verified: invented tokens share the rate of their address.
        address = f"address {_address(request.scope)}"
        if not self.rates.allow(f"token {caller.name}" if caller is not None and caller is not ANONYMOUS else address):
            return error_answer("too many requests; wait a little", 429)
        return None

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request, and write a line without anything secret: no bodies, no headers, no query."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.requests.labels(method, route, str(status)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        if log.isEnabledFor(logging.INFO):
            fields: dict[str, Any] = {"method": method, "route": route, "status": status, "seconds": round(seconds, 5)}
            fields |= {"caller": scope.get("state", {}).get("caller"), "address": _address(scope)}
            log.info("request", extra={"fields": fields})


def _address(scope: Scope) -> str:
    """Return where a request comes from, as a trusted proxy says it if there is one in front."""
    return str((scope.get("client") or ("",))[0])


def _limited(receive: Receive, largest: int) -> Receive:
    """Return a receiver that stops bodies which are sent in pieces, too."""
    size = 0

    async def receiving() -> Message:
        nonlocal size
        message = await receive()
        if message["type"] == "http.request":
            size += len(message.get("body", b""))
            if size > largest:
                raise TooLarge(413, f"a body has at most {largest} bytes")
        return message

    return receiving


def _host(header: str) -> str:
    """Return the name of a host without its port, in small letters; what cannot be a name stays as it is."""
    try:
        return urlsplit(f"//{header}").hostname or ""
    except ValueError:
        return header
