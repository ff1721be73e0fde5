"""A pool of workers on a Dask cluster. A part is repeated on another worker if its worker dies."""

from __future__ import annotations

import functools
import logging
import pickle
import platform
from collections.abc import Callable, Iterable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from aegis.engine.engines import Part, Result, limit_blas_threads
from aegis.engine.processes import FuturePool
from aegis.errors import ModelError, SettingError

SCHEDULER_TIMEOUT = "10s"  # a scheduler that does not answer by then is not there
VERSIONED_PACKAGES = ("numpy", "scipy", "pyarrow")  # what decides the last bit of a result, beside this package
ALLOWED_FAILURES = 5  # workers that may die at one part before it is given up


class DaskPool(FuturePool[Part, Result]):
    """Does parts on a cluster. Use it in `with`: the cluster of this job, or the connection to one that is there, ends too."""

    def __init__(self, fn: Callable[[Part], Result], parts: Iterable[Part], address: str | None, workers: int) -> None:
        super().__init__(fn, parts)
        self._packed = b""
        self._address, self._count = address, workers
        self._cluster: Any = None
        self._client: Any = None
        self._coming: Any = None

    def __enter__(self) -> DaskPool[Part, Result]:
        distributed = _distributed()
        try:
            if self._address is None:
                import dask

                with dask.config.set({"distributed.scheduler.allowed-failures": ALLOWED_FAILURES}):
                    self._cluster = distributed.LocalCluster(
                        n_workers=self._count,
                        threads_per_worker=1,
                        processes=True,
                        dashboard_address=None,
                        silence_logs=logging.CRITICAL,
                    )
            self._packed = _packed(self._fn)
            self._client = distributed.Client(self._address or self._cluster, timeout=SCHEDULER_TIMEOUT, set_as_default=False)
            self._coming = distributed.as_completed(loop=self._client.loop)
            self._check()
        except (OSError, TimeoutError) as error:
            self._stop()
            raise SettingError(
                f"no Dask scheduler answers at {self._address or 'this machine'} ({error}): start one with 'dask scheduler' and "
                "'dask worker', or use --engine local"
            ) from error
        except BaseException:
            self._stop()
            raise
        return self

    def _stop(self) -> None:
        if self._client is not None:
            if self._going:
                self._client.cancel(list(self._going))
            self._client.close()
        if self._cluster is not None:
            self._cluster.close()
        self._client = self._cluster = None
        self._going.clear()

    @property
    def _workers(self) -> int:
        return max(self._count, len(self._client.scheduler_info()["workers"]))

    def _submit(self, part: Part) -> Any:
        future = self._client.submit(_alone, self._packed, part, pure=False)
        self._coming.add(future)
        return future

    def _first_done(self) -> Any:
        return next(self._coming)

    def result(self, outcome: Any) -> Result:
        """Return the result of a part; ModelError if too many workers died at it."""
        from distributed import KilledWorker

        try:
            result: Result = outcome.result()
            return result
        except KilledWorker as error:
            raise ModelError(
                f"{ALLOWED_FAILURES} workers of the cluster died at one part, perhaps for lack of memory: give them more"
            ) from error

    def _check(self) -> None:
        """Raise SettingError unless there are workers, and what decides the last bit of a result is the same on all of them."""
        try:
            self._client.wait_for_workers(1, timeout=SCHEDULER_TIMEOUT)
        except TimeoutError as error:
            raise SettingError(
                f"the Dask scheduler at {self._address or 'this machine'} has no workers: start some with 'dask worker'"
            ) from error
        own = library_versions()
        for worker, versions in self._client.run(library_versions).items():
            differ = [f"{name} {versions.get(name)} (here {has})" for name, has in own.items() if versions.get(name) != has]
            if differ:
                raise SettingError(
                    f"the Dask worker {worker} has {', '.join(differ)}: results could differ; install the same there"
                )


def library_versions() -> dict[str, str]:
    """Return the versions in this process of what decides the last bit of a result."""
    from aegis.version import __version__

    versions = {"python": ".".join(platform.python_version_tuple()[:2]), "aegis": __version__}
    for name in VERSIONED_PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "none"
    return versions


def _packed(fn: Callable[[Any], Any]) -> bytes:
    from cloudpickle import dumps

    packed: bytes = dumps(fn)
    return packed


@functools.lru_cache(maxsize=2)
def _unpacked(packed: bytes) -> Callable[[Any], Any]:
    try:
        fn: Callable[[Any], Any] = pickle.loads(packed)
        return fn
    except Exception as error:  # any that a missing package raises
        raise SettingError(
            f"a Dask worker cannot load what it is to do ({type(error).__name__}: {error}): install there what is installed here"
        ) from error


def _alone(packed: bytes, part: Any) -> Any:
    limit_blas_threads()
    return _unpacked(packed)(part)


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise SettingError("the engine 'dask' needs more packages: pip install 'aegis-handover[distributed]'") from error
    return distributed
