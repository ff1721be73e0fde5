"""Running the missing units of benches in parallel, and the store of results: one file per digest, one line per seed."""

from __future__ import annotations

import contextlib
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aegis.engine import IN_PROCESS, Engine
from aegis.errors import AegisError
from aegis.files import folder_lock
from aegis.paper.bench_units import BenchPlan, BenchUnit
from aegis.paper.measure_table import MEASURES, metrics_of
from aegis.validation import append_runs, stored_runs

RunMetrics = dict[str, Any]  # what one run gives, by metric: numbers or lists of numbers


class ResultStore:
    """A folder of results: a folder per bench, in it a file of runs per unit. Without a folder they are kept in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._results: dict[tuple[str, str], dict[int, RunMetrics]] = {}  # benches may have units in common

    def read(self, unit: BenchUnit) -> dict[int, RunMetrics]:
        """Return the results of a unit by seed; a line that is damaged does not count."""
        own = unit.bench, unit.key
        if own not in self._results:
            names = set(metrics_of(unit.measure, unit.settings).all)
            runs = {} if self.folder is None else stored_runs(unit.key, unit.key, self.folder / unit.bench)
            self._results[own] = {seed: run[0] for seed, run in runs.items() if run and names <= set(run[0])}
        return dict(self._results[own])

    def add(self, unit: BenchUnit, results: Mapping[int, RunMetrics]) -> None:
        """Keep results of a unit, by seed."""
        self.read(unit)
        if self.folder is not None:
            runs = {seed: [metrics] for seed, metrics in results.items()}
            append_runs(unit.key, unit.key, runs, self.folder / unit.bench, unit.parts)
        self._results[unit.bench, unit.key] |= dict(results)

    def missing(self, unit: BenchUnit, seeds: Iterable[int]) -> list[int]:
        """Return the seeds whose results are not there."""
        have = self.read(unit)
        return [seed for seed in seeds if seed not in have]


SEEDS_AT_ONCE = {"online": 5, "shift": 5}  # seeds that are run in one go, by measures that run them in lockstep

BenchProgress = Callable[[int, int, str], None]  # parts done, parts in all, what was done last

RunPart = tuple[BenchUnit, tuple[int, ...]]  # some seeds of a unit


@dataclass(frozen=True)
class Failure:
    """A part that could not be run."""

    unit: BenchUnit
    seeds: tuple[int, ...]
    why: str


def run_plans(
    plans: Sequence[BenchPlan], store: ResultStore, engine: Engine = IN_PROCESS, say: BenchProgress | None = None
) -> list[Failure]:
    """Run the missing units and return the failures. Results are kept as they come; interrupted, every part that was done is."""
    parts = [part for plan in plans for unit in plan.units for part in split_seeds(unit, store.missing(unit, range(plan.seeds)))]
    failures: list[Failure] = []
    lock = contextlib.nullcontext() if store.folder is None or not parts else folder_lock(store.folder)
    with lock, engine.team(_perform, parts) as crew:
        try:
            for done, (place, (results, why)) in enumerate(crew, 1):
                unit, seeds = parts[place]
                if results is None:
                    failures.append(Failure(unit, seeds, why))
                else:
                    store.add(unit, dict(zip(seeds, results, strict=True)))
                if say is not None:
                    say(done, len(parts), f"{unit.bench}: {unit.label}")
        except BaseException:  # interrupted: what others have done in the meantime is kept
            for place, (results, _) in crew.finished():
                unit, seeds = parts[place]
                if results is not None and store.missing(unit, seeds):
                    store.add(unit, dict(zip(seeds, results, strict=True)))
            raise
    return failures


def split_seeds(unit: BenchUnit, seeds: Sequence[int]) -> list[RunPart]:
    """Return the parts of a unit: seeds that are run in one go."""
    size = SEEDS_AT_ONCE.get(unit.measure, 1)
    return [(unit, tuple(seeds[first : first + size])) for first in range(0, len(seeds), size)]


def _perform(part: RunPart) -> tuple[list[RunMetrics] | None, str]:
    unit, seeds = part
    try:
        return MEASURES[unit.measure](unit.settings, seeds), ""
    except AegisError as error:
        return None, str(error)
    except Exception as error:  # the other parts are run all the same
        where = traceback.extract_tb(error.__traceback__)[-1]
        return None, f"{type(error).__name__}: {error} ({where.filename}, line {where.lineno})"
