"""Running what is missing, on one or more processes; what fails is listed and does not stop the rest."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from aegis.engine import ALONE, Engine
from aegis.errors import AegisError
from aegis.experiments.measures import MEASURES
from aegis.experiments.store import Found, Store
from aegis.experiments.units import Plan, Unit
from aegis.files import locked

TOGETHER = {"online": 5, "shift": 5}  # seeds that are run in one go, by measures that run them in lockstep
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


def run_plans(plans: Sequence[Plan], store: Store, engine: Engine = ALONE, say: Say | None = None) -> list[Failure]:
    """Run all that is missing and return what failed. Results are kept as they come; interrupted, every part that was done is."""
    parts = [part for plan in plans for unit in plan.units for part in _parts(unit, store.missing(unit, range(plan.seeds)))]
    if not parts:
        return []
    started = time.monotonic()
    if store.folder is None:
        return _run(parts, store, engine, say, started)
    with locked(store.folder):
        return _run(parts, store, engine, say, started)


def _run(parts: list[_Part], store: Store, engine: Engine, say: Say | None, started: float) -> list[Failure]:
    failures: list[Failure] = []
    with engine.team(_perform, parts) as crew:
        try:
            for done, (place, (found, why)) in enumerate(crew, 1):
                part = parts[place]
                if found is None:
                    failures.append(Failure(part.unit, part.seeds, why))
                else:
                    store.add(part.unit, dict(zip(part.seeds, found, strict=True)))
                if say is not None:
                    left = (time.monotonic() - started) / done * (len(parts) - done) / 60
                    say(done, len(parts), f"{part.unit.bench}: {part.unit.label}", left)
        except BaseException:  # interrupted: what others have done in the meantime is kept
            for place, (found, _) in crew.finished():
                part = parts[place]
                if found is not None and store.missing(part.unit, part.seeds):
                    store.add(part.unit, dict(zip(part.seeds, found, strict=True)))
            raise
    return failures


def _parts(unit: Unit, seeds: list[int]) -> list[_Part]:
    size = TOGETHER.get(unit.measure, 1)
    return [_Part(unit, tuple(seeds[first : first + size])) for first in range(0, len(seeds), size)]


def _perform(part: _Part) -> tuple[list[Found] | None, str]:
    try:
        return MEASURES[part.unit.measure](part.unit.settings, part.seeds), ""
    except AegisError as error:
        return None, str(error)
    except Exception as error:  # whatever goes wrong in one part, the others are run
        where = traceback.extract_tb(error.__traceback__)[-1]
        return None, f"{type(error).__name__}: {error} ({where.filename}, line {where.lineno})"
