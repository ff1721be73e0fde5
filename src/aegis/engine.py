"""Running independent parts of a job: here, in this process or in several."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

Part = TypeVar("Part")
Result = TypeVar("Result")

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread() -> None:
    """Give linear algebra one thread: small matrices on shared cores are far slower with more.

    Sets the environment for libraries loaded later and limits those already loaded. A user's own setting is respected.
    """
    if any(name in os.environ for name in THREAD_VARIABLES):
        return
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"
    from threadpoolctl import threadpool_limits

    threadpool_limits(limits=1)


def map_parts(fn: Callable[[Part], Result], parts: Iterable[Part], workers: int = 1) -> Iterator[Result]:
    """Yield `fn(part)` for each part, in order, on `workers` processes with one BLAS thread each.

    `fn` and the parts must be picklable when workers > 1. The results do not depend on the number of workers.
    """
    if workers <= 1:
        yield from map(fn, parts)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context, initializer=one_thread) as pool:
        yield from pool.map(fn, parts)
