"""Clocks for work on several processes: CPU and wall, the calls of a policy, and the memory of all processes together."""

from __future__ import annotations

import contextlib
import os
import resource
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from aegis.problem import Array, Batch, Policy

Result = TypeVar("Result")
EVERY = 0.1  # seconds between looks at the memory


@dataclass(slots=True)
class Clock:
    """Seconds of CPU (all threads, and processes that have ended) and of the wall."""

    cpu: float = 0.0
    wall: float = 0.0

    def time(self, work: Callable[[], Result]) -> Result:
        """Do some work and add what it took."""
        cpu, wall = _cpu(), time.perf_counter()
        result = work()
        self.cpu += _cpu() - cpu
        self.wall += time.perf_counter() - wall
        return result


def _cpu() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + ended.ru_utime + ended.ru_stime


class Asked:
    """Adds up the time in which policies of a class are asked; CPU of the asking thread only, since others read meanwhile.

    The class itself is watched: a policy wrapped in another would be code to `certify`, whose behaviour it would have to record.
    """

    def __init__(self, kind: type[Policy]) -> None:
        self.cpu, self.wall, self.depth = 0.0, 0.0, 0
        for name in ("taken", "full"):
            setattr(kind, name, self._timed(getattr(kind, name)))

    def _timed(self, method: Callable[..., Array]) -> Callable[..., Array]:
        def timed(policy: Policy, level: str, batch: Batch) -> Array:
            if self.depth:  # one asks the other
                return method(policy, level, batch)
            self.depth += 1
            cpu, wall = time.thread_time(), time.perf_counter()
            try:
                return method(policy, level, batch)
            finally:
                self.depth -= 1
                self.cpu += time.thread_time() - cpu
                self.wall += time.perf_counter() - wall

        return timed


class Memory:
    """Looks at the memory of this process and of those it started, pages that they share counted once; megabytes."""

    def __init__(self) -> None:
        self.peak = 0.0
        self.parts: list[float] = []  # of each process, this one first
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Memory:
        """Begin."""
        self._watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End."""
        self._done.set()
        self._watch.join()

    def _look(self) -> None:
        while not self._done.wait(EVERY):
            found = [_megabytes(number) for number in _family(os.getpid())]
            if sum(found) > self.peak:
                self.peak, self.parts = sum(found), found


def _family(parent: int) -> list[int]:
    found, parents = [parent], {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    for number in found:
        found += [child for child, above in parents.items() if above == number]
    return found


def _megabytes(number: int) -> float:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{number}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return float(line.split()[1]) / 1000
    return 0.0
