"""Running what is missing, on one or more processes; what fails is listed and does not stop the rest."""

from __future__ import annotations

import multiprocessing
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aegis.engine import map_parts
from aegis.errors import AegisError
from aegis.experiments.measures import MEASURES
from aegis.experiments.store import Found, Store
from aegis.experiments.units import Plan, Unit
from aegis.files import locked

TOGETHER = 5  # seeds that are run in one go: measures that can, run them in lockstep
Say = Callable[[int, int, str, float], None]  # parts done, parts in all, what was done last, minutes left


@dataclass(frozen=True)
class Failure:
    """A part that could not be run."""

    unit: Unit
    seeds: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class _Part:
    unit: Unit
    seeds: tuple[int, ...]


def run_plans(plans: Sequence[Plan], store: Store, workers: int = 1, say: Say | None = None) -> list[Failure]:
    """Run all that is missing and return what failed. Interrupted, it leaves every part that was done."""
    parts = [part for plan in plans for unit in plan.units for part in _parts(unit, store.missing(unit, range(plan.seeds)))]
    if not parts:
        return []
    started = time.monotonic()
    if store.folder is None:
        return _run(parts, store, workers, say, started)
    with locked(store.folder):
        return _run(parts, store, workers, say, started)


def _run(parts: list[_Part], store: Store, workers: int, say: Say | None, started: float) -> list[Failure]:
    failures: list[Failure] = []
    results = map_parts(_perform, parts, min(workers, len(parts)))
    try:
        for place, (part, found, why) in enumerate(results, 1):
            if found is None:
                failures.append(Failure(part.unit, part.seeds, why))
            else:
                store.add(part.unit, dict(zip(part.seeds, found, strict=True)))
            if say is not None:
                left = (time.monotonic() - started) / place * (len(parts) - place) / 60
                say(place, len(parts), f"{part.unit.bench}: {part.unit.label}", left)
    finally:
        close = getattr(results, "close", None)
        if close is not None:
            close()
    return failures


def _parts(unit: Unit, seeds: list[int]) -> list[_Part]:
    return [_Part(unit, tuple(seeds[first : first + TOGETHER])) for first in range(0, len(seeds), TOGETHER)]


def _perform(part: _Part) -> tuple[_Part, list[Found] | None, str]:
    if multiprocessing.parent_process() is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, and tells us to stop
    try:
        return part, MEASURES[part.unit.measure](part.unit.settings, part.seeds), ""
    except AegisError as error:
        return part, None, str(error)
    except Exception as error:  # whatever goes wrong in one part, the others are run
        where = traceback.extract_tb(error.__traceback__)[-1]
        return part, None, f"{type(error).__name__}: {error} ({where.filename}, line {where.lineno})"
