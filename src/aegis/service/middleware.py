"""Middleware around every request: size, rate and host limits, browser headers, a log line, metrics for Prometheus, and
validation errors in plain words without the values that were sent.
"""

from __future__ import annotations

import logging
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from aegis.service.episode_counter import EpisodeCounter
from aegis.service.schemas import NAME
from aegis.service.status import GateStatus

LATENCIES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 5.0)


@dataclass(slots=True)
class ServiceMetrics:
    """The numbers of one service."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    requests: Counter = field(init=False)
    seconds: Histogram = field(init=False)
    decisions: Counter = field(init=False)
    gauges: dict[str, Gauge] = field(init=False)

    def __post_init__(self) -> None:
        at = self.registry
        self.requests = Counter("aegis_requests_total", "Requests answered.", ["method", "route", "status"], registry=at)
        self.seconds = Histogram("aegis_request_seconds", "Time to answer.", ["route"], buckets=LATENCIES, registry=at)
        self.decisions = Counter("aegis_decisions_total", "Decisions answered.", ["level", "by"], registry=at)
        self.gauges = {
            name: Gauge(f"aegis_{name}", words, labels, registry=at)
            for name, words, labels in (
                ("episodes_started", "Episodes that took a decision.", ()),
                ("episodes_counted", "Episodes that the gate has counted.", ()),
                ("episodes_going", "Episodes that are not counted yet.", ()),
                ("episodes_waiting", "Episodes that are settled, and not counted yet.", ()),
                ("holding_seconds", "Age of the episode that holds up the counting of others; 0 if none does.", ()),
                ("paused", "1 if the gate is paused.", ()),
                ("alarms", "Alarms of the monitor so far.", ()),
                ("risk_spent", "Risk that all challenges so far have been given.", ()),
                ("handed_over", "1 if a level is controlled by an agent.", ("level",)),
                (
                    "gain_lower",
                    "Certified gain of the policy in control of a level, over its comparator (see /v1/levels).",
                    ("level",),
                ),
                ("counting_failed", "1 if nothing is counted now.", ()),
                ("writer", "1 if this process is the writer of its gate.", ()),
            )
        }

    def text(self, reading: GateStatus, counting: EpisodeCounter) -> bytes:
        """Return all of them in Prometheus' format. Whoever calls holds `live.changed`."""
        live, gauges = reading.live, self.gauges
        gauges["writer"].set(live.started)
        gauges["counting_failed"].set(counting.failure is not None)
        if live.state.gate is not None:
            gate = live.state.gate
            gauges["episodes_started"].set(live.state.started)
            gauges["episodes_counted"].set(gate.episode)
            gauges["episodes_going"].set(len(live.state.trees))
            holding = live.state.holding()
            gauges["episodes_waiting"].set(live.state.waiting())
            gauges["holding_seconds"].set(0.0 if holding is None else holding.seconds())
            gauges["paused"].set(gate.paused is not None)
            gauges["alarms"].set(gate.alarms)
            gauges["risk_spent"].set(gate.spent)
            for level in gate.levels:
                held = gate.at(level)
                gauges["handed_over"].labels(level).set(held is not None)
                gauges["gain_lower"].labels(level).set(0.0 if held is None else reading.measure.gain(held.gain_lower))
        return generate_latest(self.registry)


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

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")  # others are counted together

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
    """The outermost layer of the service. hosts: names under which it may be asked, empty for any.

    verified: says from memory alone whose token an 'Authorization' header holds, None unless it was found to be one before.
    """

    app: ASGIApp
    metrics: ServiceMetrics
    rates: RateLimit
    largest: int
    verified: Callable[[str], str | None]
    hosts: Sequence[str] = ()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        started, answered = time.perf_counter(), {"status": 500}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                answered["status"] = message["status"]
                message["headers"] = [*message.get("headers", []), *HEADERS, (b"cache-control", b"no-store")]
            await send(message)

        refused = self._refused(scope)
        try:
            if refused is not None:
                await refused(scope, receive, sending)
            else:
                await self.app(scope, _limited(receive, self.largest), sending)
        except TooLarge as error:
            await _refusal(413, error.detail)(scope, receive, sending)
        finally:
            self._note(scope, answered["status"], time.perf_counter() - started)

    def _refused(self, scope: Scope) -> JSONResponse | None:
        request = Request(scope)
        host = _host(request.headers.get("host", ""))
        if self.hosts and host not in [name.lower() for name in self.hosts]:
            return _refusal(421, f"this service is not called '{host[:100]}'; allowed: {', '.join(self.hosts)} (--allow-host)")
        length = request.headers.get("content-length", "0")
        if not (length.isascii() and length.isdigit()) or int(length) > self.largest:
            return _refusal(413, f"a body has at most {self.largest} bytes")
        # By address until a token has been verified: whoever makes tokens up has no more than anybody else.
        token = self.verified(request.headers.get("authorization", ""))
        caller = f"token {token}" if token is not None else f"address {request.client.host if request.client else ''}"
        if not self.rates.allow(caller):
            return _refusal(429, "too many requests; wait a little", {"retry-after": "1"})
        return None

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        """Count a request, and write a line without anything secret: no bodies, no headers, no query."""
        route = getattr(scope.get("route"), "path", "other")
        method = scope["method"] if scope["method"] in METHODS else "other"
        self.metrics.requests.labels(method, route, str(status)).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        if log.isEnabledFor(logging.INFO):
            fields = {"method": method, "route": route, "status": status, "seconds": round(seconds, 5)}
            log.info("request", extra={"fields": fields})


def _limited(receive: Receive, largest: int) -> Receive:
    """Return a receiver that stops bodies which are sent in pieces, too."""
    seen = 0

    async def receiving() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > largest:
                raise TooLarge(413, f"a body has at most {largest} bytes")
        return message

    return receiving


def _host(given: str) -> str:
    """Return the name of a host without its port, in small letters; what cannot be a name stays as it is."""
    try:
        return urlsplit(f"//{given}").hostname or ""
    except ValueError:
        return given


def _refusal(status: int, why: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"detail": why}, status, headers)


NUMBER, FLAG, TEXT = "a finite number", "true or false", "text"

EXPECTED = {
    **dict.fromkeys(("int_type", "float_type", "int_from_float"), NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), FLAG),
    **dict.fromkeys(("string_type", "string_unicode"), TEXT),
    "list_type": "a list",
    **dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "an object"),
    "int_parsing": "a whole number",
}

LIMITS = {
    "less_than_equal": ("le", "a number of at most {:g}"),
    "greater_than_equal": ("ge", "a number of at least {:g}"),
    **dict.fromkeys(("string_too_short", "too_short"), ("min_length", "a length of at least {}")),
    **dict.fromkeys(("string_too_long", "too_long"), ("max_length", "a length of at most {}")),
}


def describe_validation_errors(errors: Sequence[Any], body: Any) -> list[dict[str, str]]:
    """Return where something is wrong, and why. errors: those of pydantic. body: what was sent."""
    groups: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}
    for error in errors:
        groups.setdefault(_field_path(error, body), []).append(error)
    found = []
    for place, group in groups.items():
        inside = any(len(other) > len(place) and other[: len(place)] == place for other in groups)
        if not (inside and all(error["type"] in EXPECTED for error in group)):  # otherwise what is inside of it says more
            found.append({"where": ".".join(place), "why": _why(group)})
    return found


def _field_path(error: Mapping[str, Any], body: Any) -> tuple[str, ...]:
    """Return the field, without the steps that are no fields but names of types that were tried."""
    first, *more = error["loc"]
    if error["type"] == "json_invalid":
        return (str(first),)
    if first != "body":
        return tuple(map(str, error["loc"]))
    found = [str(first)]
    for place, step in enumerate(more):
        inside = step in body if isinstance(body, dict) else isinstance(body, list) and isinstance(step, int) and step < len(body)
        if inside:
            body = body[step]
        elif not (error["type"] == "missing" and place == len(more) - 1):
            continue
        found.append(str(step))
    return tuple(found)


def _why(group: Sequence[Mapping[str, Any]]) -> str:
    for error in group:
        kind, about = error["type"], error.get("ctx") or {}
        if kind == "finite_number":
            return f"expected {NUMBER}, found one that is not finite"
        if kind in LIMITS:
            name, words = LIMITS[kind]
            return f"expected {words.format(about[name])}"
        if kind == "missing":
            return "it is missing"
        if kind == "extra_forbidden":
            return "there is no such field; see /v1/openapi.json"
        if kind == "json_invalid":
            return f"it cannot be read as JSON, from character {error['loc'][-1]} on"
        if kind == "string_pattern_mismatch":
            named = about.get("pattern") == NAME
            return (
                f"expected {'letters, digits and ._:-, first a letter or a digit' if named else 'visible characters, no spaces'}"
            )
    expected = list(dict.fromkeys(EXPECTED.get(error["type"], "something else") for error in group))
    listed = " or ".join([", ".join(expected[:-1]), expected[-1]] if len(expected) > 1 else expected)
    return f"expected {listed}, found {_describe_kind(group[0].get('input'))}"


def _describe_kind(value: Any) -> str:
    """Return what kind of thing was found, and nothing of what is in it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return FLAG
    if isinstance(value, int | float):
        return "a number" if isinstance(value, int) or math.isfinite(value) else "a number that is not finite"
    if isinstance(value, str):
        return TEXT
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return "something that was not sent as application/json"
