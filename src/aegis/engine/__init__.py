"""Where independent parts of a job are done: in this process, in several of this machine, or on a Dask cluster."""

from aegis.engine.dask_pool import DaskPool
from aegis.engine.engines import (
    ENGINE_NAMES,
    IN_PROCESS,
    Dask,
    Engine,
    Local,
    engine_for_function,
    map_in_order,
    map_parts,
    parse_engine,
    pickle_by_value,
    warm_engine,
)
from aegis.engine.processes import (
    THREAD_VARIABLES,
    ProcessPool,
    WorkerPool,
    exit_with_parent,
    limit_blas_threads,
    release_memory,
    usable_cores,
)

__all__ = [
    "ENGINE_NAMES",
    "IN_PROCESS",
    "THREAD_VARIABLES",
    "Dask",
    "DaskPool",
    "Engine",
    "Local",
    "ProcessPool",
    "WorkerPool",
    "engine_for_function",
    "exit_with_parent",
    "limit_blas_threads",
    "map_in_order",
    "map_parts",
    "parse_engine",
    "pickle_by_value",
    "release_memory",
    "usable_cores",
    "warm_engine",
]
