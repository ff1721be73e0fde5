"""Running independent parts of a job: here, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from aegis.errors import ModelError, SettingError

Part = TypeVar("Part")
Result = TypeVar("Result")

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
CHOSEN_BY = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")  # what speaks for the libraries that are already loaded


def one_thread() -> None:
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


def map_parts(fn: Callable[[Part], Result], parts: Iterable[Part], workers: int = 1) -> Iterator[Result]:
    """Yield `fn(part)` for each part, in order, on `workers` processes with one BLAS thread each.

    `fn` and the parts must be picklable when workers > 1. The results do not depend on the number of workers. What `fn` raises
    is raised here, at its part's turn, and parts that have not begun are left. Raises ModelError if a worker dies.
    """
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise SettingError(f"'workers' is a whole number from 1, found {workers!r}")
    return map(fn, parts) if workers == 1 else _spread(fn, parts, workers)


def _spread(fn: Callable[[Part], Result], parts: Iterable[Part], workers: int) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=one_thread) as pool:
        try:
            yield from pool.map(fn, parts)
        except BrokenProcessPool as error:
            raise ModelError(
                "a worker process died before its part was done, perhaps for lack of memory; use fewer workers"
            ) from error
