"""Engines by name: `local` (processes of this machine), `dask` (a local cluster for one job) and `dask://host:port`."""

from __future__ import annotations

import contextlib
import pickle
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from aegis.engine.processes import Part, ProcessPool, Result, WarmProcesses, WorkerPool, usable_cores
from aegis.errors import SettingError

ENGINE_NAMES = "local, dask or dask://host:port"  # how engines are named, for messages


class Engine(Protocol):
    """Where parts are done. The results do not depend on it."""

    @property
    def workers(self) -> int:
        """Return how many parts are done at a time, as far as it is known."""
        ...

    @property
    def elsewhere(self) -> bool:
        """Say whether other machines may do parts, who may have other files under the same paths."""
        ...

    def team(self, fn: Callable[[Part], Result], parts: Iterable[Part]) -> WorkerPool[Part, Result]:
        """Return the pool that does the parts; `fn` and the parts must be picklable unless one process does it all."""
        ...


@dataclass(frozen=True, slots=True)
class Local:
    """Processes of this machine; one means this process. standby: processes that are there already."""

    workers: int = 1
    standby: WarmProcesses | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.workers, bool) or not isinstance(self.workers, int) or self.workers < 1:
            raise SettingError(f"'workers' is a whole number from 1, found {self.workers!r}")

    @property
    def elsewhere(self) -> bool:
        """Return False; see Engine."""
        return False

    def team(self, fn: Callable[[Part], Result], parts: Iterable[Part]) -> WorkerPool[Part, Result]:
        """Return the pool that does the parts."""
        return WorkerPool(fn, parts) if self.workers == 1 else ProcessPool(fn, parts, self.workers, self.standby)


@dataclass(frozen=True, slots=True)
class Dask:
    """A Dask cluster. address: of its scheduler, such as tcp://10.0.0.7:8786; None for one of this machine and this job."""

    address: str | None = None
    workers: int = 1

    @property
    def elsewhere(self) -> bool:
        """Say whether the cluster was there before; see Engine."""
        return self.address is not None

    def team(self, fn: Callable[[Part], Result], parts: Iterable[Part]) -> WorkerPool[Part, Result]:
        """Return the pool that does the parts."""
        from aegis.engine.dask_pool import DaskPool

        return DaskPool(fn, parts, self.address, self.workers)


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
