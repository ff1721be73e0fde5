"""Admission: how many requests of each kind are answered at a time, and in whose threads.

Control systems, operators, readers, streams and strangers have shares of their own, so that a crowd of one kind starves no other.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, TypeVar

import anyio.to_thread
from anyio import CapacityLimiter
from fastapi.routing import APIRoute

Value = TypeVar("Value")

CONTROL, OPERATE, READ, STREAM, STRANGER = "control", "operate", "read", "stream", "stranger"
# By kind: requests under way, beyond which others are refused, and threads that work on them.
SHARES = {CONTROL: (256, 32), OPERATE: (16, 4), READ: (128, 8), STREAM: (64, 4), STRANGER: (64, 4)}
HEALTH = "/v1/health"  # needs no thread and is never refused


@dataclass(slots=True)
class RequestShare:
    """A share. most: requests under way. threads: in which they are worked on."""

    kind: str
    most: int
    threads: CapacityLimiter
    going: int = 0


@dataclass(slots=True)
class Admission:
    """The shares of one service. They are used in its event loop only."""

    shares: dict[str, RequestShare] = field(
        default_factory=lambda: {kind: RequestShare(kind, most, CapacityLimiter(count)) for kind, (most, count) in SHARES.items()}
    )

    def enter(self, kind: str) -> RequestShare | None:
        """Return the share in which a request of a kind is answered; None if too many are under way. `leave` it afterwards."""
        share = self.shares[kind]
        if share.going >= share.most:
            return None
        share.going += 1
        _share.set(share)
        return share

    @staticmethod
    def leave(share: RequestShare) -> None:
        """Take note that a request was answered."""
        share.going -= 1


_share: ContextVar[RequestShare | None] = ContextVar("share", default=None)  # of the request that is answered here


def request_kind(method: str, path: str) -> str:
    """Return what a request is for, by its route alone."""
    if path == "/v1/operator":
        return OPERATE
    if path == "/v1/stream":
        return STREAM
    return CONTROL if method == "POST" and path.startswith(("/v1/episodes", "/v1/results")) else READ


async def run_in_share(function: Callable[..., Value], *arguments: Any) -> Value:
    """Return what a function returns, run in a thread of the share of this request."""
    share = _share.get()
    return await anyio.to_thread.run_sync(partial(function, *arguments), limiter=None if share is None else share.threads)


class ShareRoute(APIRoute):
    """A route whose function, unless it is a coroutine, runs in the threads of its request's share.

    All other functions of the framework share one set of threads, in which readers would hold up controllers.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **more: Any) -> None:
        super().__init__(path, _threaded(endpoint), **more)


def _threaded(endpoint: Callable[..., Any]) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(endpoint):
        return endpoint

    @wraps(endpoint)
    async def threaded(**named: Any) -> Any:
        return await run_in_share(partial(endpoint, **named))

    # With types, not their names: names would be looked up in this module.
    threaded.__signature__ = inspect.signature(endpoint, eval_str=True)  # type: ignore[attr-defined]
    return threaded
