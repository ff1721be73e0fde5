"""How many threads and cores a process uses."""

from __future__ import annotations

import math
import os
from pathlib import Path

THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")  # of the environment, for children
CHOSEN_BY = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")  # what speaks for the libraries that are already loaded
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of processor time, or 'max', in a period


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


def usable_cores() -> int:
    """Return how many cores this process may use: those it is bound to, or fewer if its container has a smaller share."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        share, period = (float(number) for number in QUOTA.read_text(encoding="ascii").split())
        return max(1, min(bound, math.ceil(share / period)))
    except (OSError, ValueError, ZeroDivisionError):  # no container, or one without a limit
        return bound
