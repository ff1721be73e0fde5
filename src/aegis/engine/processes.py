"""Pools of workers on other processes: of this machine, or of a cluster."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection
from multiprocessing.resource_tracker import ensure_running
from types import TracebackType
from typing import Any

from aegis.engine.engines import Part, Result, WorkerPool, limit_blas_threads
from aegis.errors import ModelError

QUEUED_PER_WORKER = 2  # parts that wait at each worker, so that it is never idle

MALLOC_SETTINGS = {"MALLOC_MMAP_THRESHOLD_": str(2**25), "MALLOC_TRIM_THRESHOLD_": str(2**30)}  # bytes


class FuturePool(WorkerPool[Part, Result], ABC):
    """Runs the parts of a job on workers that return futures."""

    def __init__(self, fn: Callable[[Part], Result], parts: Iterable[Part]) -> None:
        super().__init__(fn, parts)
        self._going: dict[Any, int] = {}  # futures with the places of their parts

    def completed(self) -> Iterator[tuple[int, Any]]:
        """Yield the place and the future of each part as soon as it is done, in any order."""
        self._hand_out()
        while self._going:
            future = self._first_done()
            self._current = [(self._going.pop(future), future)]
            self._hand_out()  # no worker is idle while the caller handles the result
            yield self._current[0]
            self._current = []

    def finished(self) -> list[tuple[int, Result]]:
        """Return the results that are done, without waiting, and the one that the caller handles."""
        results = []
        for place, future in (*self._current, *((place, future) for future, place in self._going.items() if future.done())):
            with contextlib.suppress(Exception):  # a part that failed has no result
                results.append((place, self.result(future)))
        return results

    def _hand_out(self) -> None:
        while len(self._going) < QUEUED_PER_WORKER * self._workers and (following := next(self._parts, None)) is not None:
            place, part = following
            self._going[self._submit(part)] = place

    @property
    @abstractmethod
    def _workers(self) -> int:
        """Return how many workers there are."""

    @abstractmethod
    def _submit(self, part: Part) -> Any:
        """Return the future of a part."""

    @abstractmethod
    def _first_done(self) -> Any:
        """Wait for a future that is done, and return it."""


class ProcessPool(FuturePool[Part, Result]):
    """Does the parts in processes of this machine with one BLAS thread each. `fn` and the parts must be picklable.

    At the end of the block the processes are stopped, at once if they are busy. They also end with this process, however it ends.
    warm: processes that run already.
    """

    def __init__(
        self, fn: Callable[[Part], Result], parts: Iterable[Part], workers: int, warm: WarmProcesses | None = None
    ) -> None:
        super().__init__(fn, parts)
        self._executor = (None if warm is None else warm.take()) or _executor(workers)
        self._count = workers

    @property
    def _workers(self) -> int:
        return self._count

    def _submit(self, part: Part) -> Future[bytes]:
        try:
            return _submitted(self._executor, _answer, pickle.dumps((self._fn, part)))
        except BrokenProcessPool as error:
            raise _death() from error

    def _first_done(self) -> Future[bytes]:
        return min(wait(self._going, return_when=FIRST_COMPLETED).done, key=self._going.__getitem__)

    def result(self, outcome: Any) -> Result:
        """Return the result of a part; ModelError if its worker died."""
        try:
            worked, value = pickle.loads(outcome.result())
        except BrokenProcessPool as error:
            raise _death() from error
        if not worked:
            raise value
        result: Result = value
        return result

    def _stop(self) -> None:
        _shut_down(self._executor, busy=bool(self._going))


class WarmProcesses:
    """Processes that are started before there is work for them, and import a module meanwhile.

    Use it in `with`: processes that no pool took are stopped at the end of the block.
    """

    def __init__(self, workers: int, module: str) -> None:
        self._workers, self._module = workers, module
        self._executor: ProcessPoolExecutor | None = None

    def __enter__(self) -> WarmProcesses:
        self._executor = _executor(self._workers)
        for _ in range(self._workers):
            _submitted(self._executor, importlib.import_module, self._module)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        executor = self.take()
        if executor is not None:
            _shut_down(executor, busy=True)

    def take(self) -> ProcessPoolExecutor | None:
        """Return the processes, once."""
        executor, self._executor = self._executor, None
        return executor


def _executor(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _start_worker)


def _submitted(executor: ProcessPoolExecutor, fn: Callable[[Any], Any], part: Any) -> Future[Any]:
    with _uninterrupted(), _malloc_settings():  # this may start a process
        return executor.submit(fn, part)


def _shut_down(executor: ProcessPoolExecutor, busy: bool) -> None:
    if busy:
        for process in list((executor._processes or {}).values()):
            process.kill()
    executor.shutdown(cancel_futures=True)


def _death() -> ModelError:
    return ModelError(
        "a worker process died before its part was done, perhaps for lack of memory; use fewer workers, and keep what a script "
        "does under: if __name__ == '__main__'"
    )


def _start_worker() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where it could not be held back
    exit_with_parent()
    limit_blas_threads()


def exit_with_parent() -> None:
    """End this process at once, also if it is busy, when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_exit_after, args=(parent.sentinel,), name="aegis-parent", daemon=True).start()


def _exit_after(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


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


def _answer(message: bytes) -> bytes:
    try:
        fn, part = pickle.loads(message)  # here, not at the start of the process: it may import for a long time
        return pickle.dumps((True, fn(part)))
    except Exception as error:  # raised again in the process that asked
        return _pickled_error(error)


def _pickled_error(error: Exception) -> bytes:
    """Return an error that can be sent, with where it came from; one that cannot be becomes words."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        packed = pickle.dumps((False, error))
        pickle.loads(packed)
    except Exception:  # any that pickling raises
        return pickle.dumps((False, ModelError(f"{type(error).__name__}: {error}")))
    return packed
