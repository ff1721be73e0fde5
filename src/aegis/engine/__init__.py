"""Where independent parts of a job are done: in this process, in several of this machine, or on a Dask cluster."""

from aegis.engine.engines import (
    ENGINE_NAMES,
    IN_PROCESS,
    THREAD_VARIABLES,
    Dask,
    Engine,
    Local,
    WorkerPool,
    engine_for_function,
    limit_blas_threads,
    map_in_order,
    map_parts,
    parse_engine,
    pickle_by_value,
    release_memory,
    usable_cores,
    warm_engine,
)
from aegis.engine.processes import exit_with_parent

__all__ = [
    "ENGINE_NAMES",
    "IN_PROCESS",
    "THREAD_VARIABLES",
    "Dask",
    "Engine",
    "Local",
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
