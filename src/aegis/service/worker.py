"""The workshop in a process of its own, so that decisions never wait for learning."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from aegis.engine import end_with_parent, one_thread
from aegis.errors import AegisError
from aegis.handover import Host
from aegis.problem import Problem
from aegis.service.state import LiveState
from aegis.service.store import Database, Journal
from aegis.service.workshop import Workshop


class WorkerGone(Exception):
    """The process ended: it is started again, and nothing is lost."""


@dataclass(frozen=True, slots=True)
class Order:
    """What a worker needs to take up its work: where the journal is, and who proposes challengers."""

    store: str
    gate: str
    problem: Problem
    host: Host
    seed: int


@dataclass(slots=True)
class Worker:
    """Calls methods of a `Workshop` in another process, which is started when it is needed. Callers take turns."""

    order: Order
    _process: Any = field(default=None, init=False)
    _pipe: Connection | None = field(default=None, init=False)
    _calling: threading.Lock = field(default_factory=threading.Lock, init=False)
    seen: int = field(default=0, init=False)  # the newest record that the workshop has taken up

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the workshop returns; AegisError if it raised one, WorkerGone if the process ended."""
        with self._calling:
            pipe = self._ready()
            try:
                pipe.send((method, arguments))
                worked, answer = pipe.recv()
            except (EOFError, OSError, BrokenPipeError) as error:
                self.stop()
                raise WorkerGone("the process that learns and judges has ended") from error
        if not worked:
            raise answer
        return answer

    def stop(self) -> None:
        """End the process."""
        pipe, process = self._pipe, self._process  # another thread may do the same now
        self._process = self._pipe = None
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
        if process is not None:
            process.terminate()
            process.join(5)

    def _ready(self) -> Connection:
        pipe, running = self._pipe, self._process
        if pipe is not None and running is not None and running.is_alive():
            return pipe
        self.stop()
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, self.order), name="aegis-workshop", daemon=True)
        process.start()
        self._process = process
        there.close()
        try:
            self.seen = here.recv()
        except EOFError as error:
            self.stop()
            raise WorkerGone("the process that learns and judges did not start") from error
        self._pipe = here
        return here


def _work(pipe: Connection, order: Order) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it says when to stop
    one_thread()
    end_with_parent()
    workshop, seen = _taken_up(order)
    pipe.send(seen)
    while True:
        try:
            method, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = True, getattr(workshop, method)(*arguments)
        except AegisError as error:
            answer = False, error
        except Exception as error:  # whatever a user's own host raises
            answer = False, AegisError(f"{type(error).__name__}: {error}")
        pipe.send(answer)


def _taken_up(order: Order) -> tuple[Workshop, int]:
    """Return the workshop with everything that has been counted so far, and the newest record it knows."""
    workshop = Workshop(order.problem, order.host, order.seed)
    database = Database.at(order.store)
    state = LiveState(order.problem, counted=workshop.counted)
    seen = 0
    try:
        for record in Journal(database, order.gate).read():
            state.apply(record)
            seen = record.seq
    finally:
        database.close()
    return workshop, seen
