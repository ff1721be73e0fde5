"""Times of a piece of work, taken in the same way on either side: a first call, then the smallest of several."""

import json
import sys
import time
from importlib import metadata

LONG = 20.0  # seconds after which no further repeat is begun


def smallest(work, repeats):
    """Return the smallest CPU and wall time of `repeats` calls after a first one, and what the last call returned."""
    found = work()
    cpu = wall = float("inf")
    begun = time.perf_counter()
    for _ in range(repeats):
        at, used = time.perf_counter(), time.process_time()
        found = work()
        cpu, wall = min(cpu, time.process_time() - used), min(wall, time.perf_counter() - at)
        if time.perf_counter() - begun > LONG:
            break
    return {"cpu": cpu, "wall": wall}, found


def once(work):
    """Return CPU and wall time of a single call, for work that is long and has been warmed up by a small part of it."""
    at, used = time.perf_counter(), time.process_time()
    found = work()
    return {"cpu": time.process_time() - used, "wall": time.perf_counter() - at}, found


def question():
    """Return what was asked, from standard input."""
    return json.loads(sys.stdin.read())


def answer(package, found):
    """Print the answer, with the version of the package and of Python."""
    version = {"version": metadata.version(package), "python": ".".join(map(str, sys.version_info[:2]))}
    print(json.dumps(dict(found, **version)))
