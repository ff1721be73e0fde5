"""Where independent parts of a job are done: in this process, in several of this machine, or on a Dask cluster."""

from aegis.engine.crew import Crew, end_with_parent, map_parts
from aegis.engine.engines import ALONE, ENGINES, Dask, Engine, Local, Team, engine_of, mapped, prepared, sendable, sent_whole
from aegis.engine.memory import give_back
from aegis.engine.threads import THREAD_VARIABLES, one_thread, usable_cores

__all__ = [
    "ALONE",
    "ENGINES",
    "THREAD_VARIABLES",
    "Crew",
    "Dask",
    "Engine",
    "Local",
    "Team",
    "end_with_parent",
    "engine_of",
    "give_back",
    "map_parts",
    "mapped",
    "one_thread",
    "prepared",
    "sendable",
    "sent_whole",
    "usable_cores",
]
