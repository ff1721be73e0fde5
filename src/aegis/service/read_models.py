"""Read models: what readers are shown, computed at most once a second and shared by all of them as bytes."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import anyio.to_thread
from anyio import CapacityLimiter

from aegis.service.episode_counter import EpisodeCounter
from aegis.service.http_errors import NotWriter
from aegis.service.status import GateStatus

PULSE = 1.0  # seconds for which an answer is shown again although the journal has gone on


@dataclass(frozen=True)
class ReadModel:
    """An answer in JSON. version: of what it was computed from. at: the time of that."""

    body: bytes
    version: tuple[Any, ...]
    at: float

    @cached_property
    def event(self) -> bytes:
        """Return the same as a server-sent event."""
        return b"event: gate\ndata: " + self.body + b"\n\n"


@dataclass(slots=True)
class ReadModels:
    """The answers of one gate. They are asked for in its event loop, and computed in one thread.

    An answer is up to `PULSE` seconds old, except after an event of the gate other than a counted episode: what an operator has
    done is in the next answer.
    """

    status: GateStatus
    counting: EpisodeCounter
    _kept: dict[str, ReadModel] = field(default_factory=dict, init=False)
    _turns: dict[str, asyncio.Lock] = field(default_factory=dict, init=False)
    _thread: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1), init=False)

    async def read(self, what: str) -> ReadModel:
        """Return an answer, one of `VIEWS`; NotWriter before the gate was opened, StoreUnavailable while a write hangs."""
        asked, kept = time.monotonic(), self._fresh(what)
        if kept is not None:
            return kept
        async with self._turns.setdefault(what, asyncio.Lock()):
            # Others wait for this one and take its answer, however long it took, unless it was begun before they asked.
            kept = self._kept.get(what)
            if kept is None or kept.at <= asked:
                kept = self._fresh(what)
            if kept is None:
                kept = self._kept[what] = await anyio.to_thread.run_sync(self._compute, what, limiter=self._thread)
        return kept

    def _fresh(self, what: str) -> ReadModel | None:
        kept = self._kept.get(what)
        if kept is None:
            return None
        version = self._version()
        young = what not in EXACT and kept.version[1:] == version[1:] and time.monotonic() - kept.at < PULSE
        return kept if kept.version == version or young else None

    def _version(self) -> tuple[Any, ...]:
        live = self.status.live
        return live.journal.last, self.status.followed, self.counting.failure

    def _compute(self, what: str) -> ReadModel:
        live = self.status.live
        with live.reading():
            if not live.resumed:
                raise NotWriter("the gate is not open yet in this process")
            version, at = self._version(), time.monotonic()
            show = VIEWS[what](self)
        return ReadModel(json.dumps(show()).encode(), version, at)


def _gate(models: ReadModels) -> Callable[[], Any]:
    picture, failure = models.status.picture(), models.counting.failure
    return lambda: {**picture(), "counting": failure}


def _certificates(models: ReadModels) -> Callable[[], Any]:
    certificates = list(models.status.certificates)
    return lambda: certificates


def _ledger(models: ReadModels) -> Callable[[], Any]:
    state, entries = models.status.live.state.opened, list(models.status.ledger)
    return lambda: {"delta": state.settings.delta, "spent": state.spent, "entries": entries}


def _head(models: ReadModels) -> Callable[[], Any]:
    chain = models.status.live.journal.chain
    return lambda: {**chain.plain(), "keyed": chain.signer is not None}


# What can be read: each takes what it needs while nothing changes, and returns a function that makes the answer of it.
VIEWS: dict[str, Callable[[ReadModels], Callable[[], Any]]] = {
    "gate": _gate,
    "levels": lambda models: models.status.levels_picture(),
    "certificates": _certificates,
    "ledger": _ledger,
    "head": _head,
}
EXACT = ("head",)  # never older than the journal
