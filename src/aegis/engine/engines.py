"""Engines by name: `local` (processes of this machine), `dask` (a local cluster for one job) and `dask://host:port`.

With one worker the parts are done in this process. How many cores, threads and how much memory that uses is decided here.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import pickle
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar
from urllib.parse import urlsplit

from aegis.errors import SettingError, whole_number

if TYPE_CHECKING:
    from aegis.engine.processes import WarmProcesses

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


class WorkerPool(Generic[Part, Result]):
    """Runs the parts of a job in this process. Use it in `with`: parts unfinished at the end of the block are cancelled."""

    def __init__(self, fn: Callable[[Part], Result], parts: Iterable[Part]) -> None:
        self._fn, self._parts = fn, enumerate(parts)
        self._current: list[tuple[int, Any]] = []  # the outcome that the caller handles

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stop()

    def __iter__(self) -> Iterator[tuple[int, Result]]:
        """Yield place and result of each part as soon as it is done, in any order; raise what `fn` raised."""
        return ((place, self.result(outcome)) for place, outcome in self.completed())

    def completed(self) -> Iterator[tuple[int, Any]]:
        """Yield the place and the outcome of each part as soon as it is done, in any order."""
        for place, part in self._parts:
            self._current = [(place, self._fn(part))]
            yield self._current[0]
            self._current = []

    def finished(self) -> list[tuple[int, Result]]:
        """Return the results that are done, without waiting, and the one that the caller handles: for an interrupted caller."""
        return [(place, self.result(outcome)) for place, outcome in self._current]

    def result(self, outcome: Any) -> Result:
        """Return the result of an outcome; raise what `fn` raised."""
        result: Result = outcome
        return result

    def _stop(self) -> None:
        """Give up what is not done, at once."""


ENGINE_NAMES = "local, dask or dask://host:port"  # how engines are named, for messages


@dataclass(frozen=True, slots=True)
class Local:
    """Processes of this machine; one means this process. standby: processes that are there already."""

    workers: int = 1
    standby: WarmProcesses | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        whole_number("'workers'", self.workers)

    @property
    def elsewhere(self) -> bool:
        """Say whether other machines may do parts, who may have other files under the same paths."""
        return False

    def team(self, fn: Callable[[Part], Result], parts: Iterable[Part]) -> WorkerPool[Part, Result]:
        """Return the pool that does the parts; `fn` and the parts must be picklable unless one process does it all."""
        if self.workers == 1:
            return WorkerPool(fn, parts)
        from aegis.engine.processes import ProcessPool

        return ProcessPool(fn, parts, self.workers, self.standby)


@dataclass(frozen=True, slots=True)
class Dask:
    """A Dask cluster. address: of its scheduler, such as tcp://10.0.0.7:8786; None for one of this machine and this job."""

    address: str | None = None
    workers: int = 1

    @property
    def elsewhere(self) -> bool:
        """Say whether other machines may do parts: whether the cluster was there before."""
        return self.address is not None

    def team(self, fn: Callable[[Part], Result], parts: Iterable[Part]) -> WorkerPool[Part, Result]:
        """Return the pool that does the parts."""
        from aegis.engine.dask_pool import DaskPool

        return DaskPool(fn, parts, self.address, self.workers)


Engine = Local | Dask  # where parts are done; the results do not depend on it

IN_PROCESS = Local(1)  # everything in this process, one part after the other


def map_in_order(engine: Engine, fn: Callable[[Part], Result], parts: Iterable[Part]) -> Generator[Result, None, None]:
    """Yield `fn(part)` for each part, in order, on any engine; the results do not depend on the engine.

    What `fn` raises is raised at its part's turn. Closing the iterator gives up what is not done yet.
    """
    early: dict[int, Any] = {}
    turn = 0
    with engine.team(fn, parts) as pool:
        for place, future in pool.completed():
            early[place] = future
            while turn in early:
                yield pool.result(early.pop(turn))
                turn += 1


def map_parts(fn: Callable[[Part], Result], parts: Iterable[Part], workers: int = 1) -> Generator[Result, None, None]:
    """Yield `fn(part)` for each part, in order, on `workers` processes of this machine; see `map_in_order`."""
    return map_in_order(Local(workers), fn, parts)


@contextlib.contextmanager
def pickle_by_value(engine: Engine, modules: Iterable[str]) -> Iterator[None]:
    """Send modules of the user's own to a cluster as they are here: workers may lack them or have other versions."""
    if isinstance(engine, Local):
        yield
        return
    from cloudpickle import register_pickle_by_value, unregister_pickle_by_value

    known = [sys.modules[name] for name in dict.fromkeys(modules) if name in sys.modules and name != "__main__"]
    for module in known:
        register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in known:
            unregister_pickle_by_value(module)


@contextlib.contextmanager
def warm_engine(engine: Engine, module: str) -> Iterator[Engine]:
    """Give the engine with its processes started, which import a module while this one finds out what there is to do."""
    if isinstance(engine, Local) and engine.workers > 1 and engine.standby is None:
        from aegis.engine.processes import WarmProcesses

        with WarmProcesses(engine.workers, module) as standby:
            yield Local(engine.workers, standby)
    else:
        yield engine


def engine_for_function(engine: Engine, fn: Callable[[Any], Any]) -> Engine:
    """Return the engine, or this process for what cannot be sent to another one, such as a function of a running session."""
    if isinstance(engine, Local) and engine.workers > 1:
        try:
            pickle.loads(pickle.dumps(fn))
        except Exception:  # any that pickling raises
            return IN_PROCESS
    return engine


def parse_engine(name: str, workers: int | None = None) -> Engine:
    """Return an engine by its name; SettingError if there is none. workers: all usable cores if None."""
    count = Local(usable_cores() if workers is None else workers).workers
    if name == "local":
        return Local(count)
    if name == "dask":
        return Dask(None, count)
    try:
        parts = urlsplit(name)
        known = parts.scheme == "dask" and parts.hostname and parts.port and not (parts.path or parts.query or parts.username)
    except ValueError:
        known = None
    if not known:
        raise SettingError(f"an engine is {ENGINE_NAMES}, found {name!r}")
    return Dask(f"tcp://{parts.netloc}", count)
