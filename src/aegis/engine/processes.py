"""A pool of processes on this machine, and how many cores, threads and how much memory each process uses."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import math
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from aegis.errors import ModelError, SettingError

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")  # of the environment, for children

CHOSEN_BY = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")  # what speaks for the libraries that are already loaded

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of processor time, or 'max', in a period


def limit_blas_threads() -> None:
    """Give linear algebra one thread: small matrices on shared cores are far slower with more.

    Sets each variable of the environment that is not set, for libraries loaded later, and limits those already loaded unless
    the user has chosen their number of threads.
    """
    chosen = any(name in os.environ for name in CHOSEN_BY)
    for name in THREAD_VARIABLES:
        os.environ.setdefault(name, "1")
    if not chosen:
        from threadpoolctl import threadpool_limits

        threadpool_limits(limits=1)


def usable_cores() -> int:
    """Return how many cores this process may use: those it is bound to, or fewer if its container has a smaller share."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        share, period = (float(number) for number in QUOTA.read_text(encoding="ascii").split())
        return max(1, min(bound, math.ceil(share / period)))
    except (OSError, ValueError, ZeroDivisionError):  # no container, or one without a limit
        return bound


def release_memory() -> None:
    """Give freed memory back to the system, where the C library can: for a process that waits while others need it."""
    if sys.platform.startswith("linux"):
        with contextlib.suppress(OSError, AttributeError):  # another C library
            ctypes.CDLL(None).malloc_trim(0)


Part = TypeVar("Part")

Result = TypeVar("Result")


MALLOC_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**30)}  # bytes

WARM_UP = -1  # the place of a process that imports what it will need

SHUTDOWN_SECONDS = 5.0  # seconds that an idle worker has to end by itself


def exit_with_parent() -> None:
    """End this process, whatever it is doing, as soon as the one that started it is gone; nobody waits for its results."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), name="aegis-parent", daemon=True).start()


def _exit_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)


def map_parts(
    fn: Callable[[Part], Result], parts: Iterable[Part], workers: int = 1, standby: WarmProcesses | None = None
) -> Iterator[Result]:
    """Yield `fn(part)` for each part, in order, on `workers` processes with one BLAS thread each.

    `fn` and the parts must be picklable when workers > 1. The results do not depend on the number of workers. What `fn` raises
    is raised here, at its part's turn, and parts that have not begun are left. Raises ModelError if a worker dies. Closing the
    iterator, or an interruption, stops the processes at once; they also end with this one, however it ends. standby: processes
    that are there already.
    """
    crew = ProcessPool(fn, parts, workers, standby)
    return map(fn, parts) if workers == 1 else _in_order(crew)


def _in_order(crew: ProcessPool[Part, Result]) -> Iterator[Result]:
    early: dict[int, _Outcome] = {}
    turn = 0
    with crew:
        for outcome in crew.outcomes():
            early[outcome.place] = outcome
            while turn in early:
                yield early.pop(turn).result()
                turn += 1


@dataclass(frozen=True, slots=True)
class _Outcome:
    """What came of a part: a value, or what was raised."""

    place: int
    worked: bool
    value: Any

    def result(self) -> Any:
        if self.worked:
            return self.value
        raise self.value


@dataclass(slots=True)
class _Member:
    """A process that does one part at a time. place: of the part it is at, None if it waits for one."""

    process: Any
    pipe: Connection
    place: int | None = None


class WarmProcesses:
    """Processes that are started before there is work for them, and import a module meanwhile.

    Use it in `with`: whoever has found no work is stopped at the end of the block.
    """

    def __init__(self, workers: int, module: str) -> None:
        self._workers, self._module = workers, module
        self._members: list[_Member] = []

    def __enter__(self) -> WarmProcesses:
        for _ in range(self._workers):
            member = _started()
            self._members.append(member)
            with contextlib.suppress(OSError):  # one that has died is found out when there is work
                member.pipe.send((importlib.import_module, self._module))
                member.place = WARM_UP
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _stop(self.taken())

    def taken(self) -> list[_Member]:
        """Return the processes, once."""
        members, self._members = self._members, []
        return members


class ProcessPool(Generic[Part, Result]):
    """Does the parts of a job and gives each result with its part's place as soon as it is there, in whatever order.

    Use it in `with`: at the end of the block the processes are stopped, those that are busy at once.
    """

    def __init__(
        self, fn: Callable[[Part], Result], parts: Iterable[Part], workers: int = 1, standby: WarmProcesses | None = None
    ) -> None:
        if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
            raise SettingError(f"'workers' is a whole number from 1, found {workers!r}")
        listed = parts if workers == 1 else list(parts)
        self._fn, self._parts = fn, enumerate(listed)
        self._workers = min(workers, max(1, len(listed))) if isinstance(listed, list) else 1
        self._members = [] if standby is None or self._workers == 1 else standby.taken()
        self._arrived: list[_Outcome] = []  # the first of them is in the caller's hands

    def __enter__(self) -> ProcessPool[Part, Result]:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.stop()

    def __iter__(self) -> Iterator[tuple[int, Result]]:
        """Yield place and result of each part; what `fn` raised is raised when it is known. ModelError if a worker dies."""
        return ((outcome.place, outcome.result()) for outcome in self.outcomes())

    def outcomes(self) -> Iterator[_Outcome]:
        """Yield what came of each part, also of one that raised something in another process."""
        arrive = self._alone if self._workers == 1 else self._together
        while arrive():
            while self._arrived:
                yield self._arrived[0]
                del self._arrived[0]  # only now has the caller done with it

    def finished(self) -> list[tuple[int, Result]]:
        """Return the results that are there without waiting, and the one last given: for whoever is interrupted."""
        for member in self._members:
            with contextlib.suppress(EOFError, OSError):
                if member.place is not None and member.pipe.poll():
                    self._receive(member)
        return [(outcome.place, outcome.value) for outcome in self._arrived if outcome.worked]

    def stop(self) -> None:
        """End the processes: those that are busy at once, the others by themselves."""
        members, self._members = self._members, []
        _stop(members)

    def _alone(self) -> bool:
        for place, part in self._parts:
            self._arrived.append(_Outcome(place, True, self._fn(part)))
            return True
        return False

    def _together(self) -> bool:
        while len(self._members) < self._workers:  # all at once, before any of them is waited for
            self._members.append(_started())
        self._hand_out()
        busy = {member.pipe: member for member in self._members if member.place is not None}
        if not busy:
            return False
        for pipe in wait(list(busy)):
            member = busy[pipe]  # type: ignore[index]  # pipes are what was asked for
            try:
                self._receive(member)
            except (EOFError, OSError) as error:
                raise self._died(member) from error
        self._hand_out()  # nobody is idle while the caller looks at the results
        return True

    def _hand_out(self) -> None:
        for member in self._members:
            following = next(self._parts, None) if member.place is None else None
            if following is not None:
                place, part = following
                try:
                    member.pipe.send((self._fn, part))
                except OSError as error:
                    raise self._died(member) from error
                member.place = place

    def _receive(self, member: _Member) -> None:
        worked, value = member.pipe.recv()
        place, member.place = member.place or 0, None
        if place != WARM_UP:
            self._arrived.append(_Outcome(place, worked, value))

    def _died(self, member: _Member) -> ModelError:
        member.process.join(SHUTDOWN_SECONDS)
        code = member.process.exitcode
        how = f"exit code {code}" if code is None or code >= 0 else f"signal {-code}"
        return ModelError(
            f"a worker process died before its part was done ({how}), perhaps for lack of memory; use fewer workers, and keep "
            "what a script does under: if __name__ == '__main__'"
        )


def _started() -> _Member:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(there,), name="aegis-worker", daemon=True)
    with _uninterrupted(), _malloc_settings():
        process.start()
    there.close()  # so that the end of the process is the end of the pipe
    return _Member(process, here)


def _stop(members: Iterable[_Member]) -> None:
    """End processes: those that are busy at once, the others by themselves."""
    listed = list(members)
    for member in listed:
        if member.place is not None:
            member.process.kill()
        member.pipe.close()
    for member in listed:
        member.process.join(SHUTDOWN_SECONDS)
        if member.process.is_alive():
            member.process.kill()
            member.process.join()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Hold back SIGINT; what is started inside never gets it. Ctrl-C reaches every process of a terminal, and one decides."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    ensure_running()  # starting it inside would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _malloc_settings() -> Iterator[None]:
    """Let processes that are started inside keep memory they have freed: work on blocks of rows asks for it again at once.

    Fresh memory is cleared page by page, which takes a good part of the time of such work. Only for the C library of GNU.
    """
    added = {name: value for name, value in MALLOC_SETTINGS.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _serve(pipe: Connection) -> None:
    """Do the parts that come, one after the other, until nobody is there any more who would send one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it could not be held back
    exit_with_parent()
    limit_blas_threads()
    while True:
        try:
            message = pipe.recv_bytes()
        except (EOFError, OSError):
            return
        pipe.send_bytes(_answer(message))


def _answer(message: bytes) -> bytes:
    try:
        fn, part = pickle.loads(message)  # here, not at the start of the process: it may import for a long time
        return pickle.dumps((True, fn(part)))
    except Exception as error:  # raised again by whoever asked
        return _pickled_error(error)


def _pickled_error(error: Exception) -> bytes:
    """Return an error that can be sent, with where it came from; one that cannot be is told in words."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        packed = pickle.dumps((False, error))
        pickle.loads(packed)
    except Exception:  # whatever stands in the way
        return pickle.dumps((False, ModelError(f"{type(error).__name__}: {error}")))
    return packed
