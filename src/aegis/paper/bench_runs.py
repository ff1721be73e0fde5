"""Running the missing units of benches in parallel, and the store of results: one file per digest, one line per seed."""

from __future__ import annotations

import json
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aegis.engine import IN_PROCESS, Engine
from aegis.errors import AegisError, InputError, OutputError
from aegis.files import folder_lock
from aegis.paper.bench_units import BenchPlan, BenchUnit
from aegis.paper.measure_table import MEASURES, metrics_of
from aegis.validation import drop_cut_line

RunMetrics = dict[str, Any]  # what one run gives, by metric: numbers or lists of numbers


class ResultStore:
    """A folder of results. Without a folder they are kept in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._kept: dict[str, dict[int, RunMetrics]] = {}

    def read(self, unit: BenchUnit) -> dict[int, RunMetrics]:
        """Return the results of a unit by seed. InputError names a line that is damaged; one that was cut off does not count."""
        if unit.key not in self._kept:
            self._kept[unit.key] = self._from_disk(unit)
        return dict(self._kept[unit.key])

    def add(self, unit: BenchUnit, found: Mapping[int, RunMetrics]) -> None:
        """Keep results of a unit, by seed."""
        self.read(unit)
        if self.folder is not None:
            lines = "".join(json.dumps({"arm": unit.label, "seed": seed, "found": item}) + "\n" for seed, item in found.items())
            self._append(unit, lines.encode())
        self._kept[unit.key] |= dict(found)

    def missing(self, unit: BenchUnit, seeds: Iterable[int]) -> list[int]:
        """Return the seeds whose results are not there."""
        have = self.read(unit)
        return [seed for seed in seeds if seed not in have]

    def _path(self, unit: BenchUnit) -> Path:
        return Path(self.folder or "") / unit.bench / f"{unit.key}.jsonl"

    def _append(self, unit: BenchUnit, lines: bytes) -> None:
        path = self._path(unit)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.with_suffix(".json").exists():
                about = {"measure": unit.measure, "arm": unit.arm, "value": unit.value, "settings": dict(unit.settings)}
                path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
            drop_cut_line(path)
            with path.open("ab", buffering=0) as file:  # in one go, so that an interruption leaves all of it or nothing
                if file.write(lines) != len(lines):
                    raise OutputError(f"cannot write {path}: the disk is full; what was there before is kept")
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror or error}; what was there before is kept") from error

    def _from_disk(self, unit: BenchUnit) -> dict[int, RunMetrics]:
        path = self._path(unit)
        if self.folder is None or not path.exists():
            return {}
        try:
            *lines, last = path.read_bytes().split(b"\n")
        except OSError as error:
            raise InputError(f"cannot read {path}: {error.strerror or error}; results are kept in files of --store") from error
        if not _cut_off(last):
            lines.append(last)
        names = metrics_of(unit.measure, unit.settings).all
        return dict(_parsed(line, names, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip())


def _cut_off(line: bytes) -> bool:
    """Say whether a last line without an end is half of one: still being written, or left by a killed process or a full disk."""
    try:
        json.loads(line)
    except ValueError:
        return True
    return False


def _parsed(line: bytes, names: Sequence[str], where: str) -> tuple[int, RunMetrics]:
    """Return seed and metrics of a line; InputError if they are not there. names: of the metrics."""
    try:
        content = json.loads(line.decode())
    except ValueError as error:
        raise _damaged(where, f"is no JSON in UTF-8 ({error})") from error
    if not isinstance(content, dict):
        raise _damaged(where, f"holds no mapping but {_short(content)}")
    for name in ("seed", "found"):
        if name not in content:
            raise _damaged(where, f"has no '{name}', but {', '.join(map(repr, content)) or 'nothing'}")
    seed, found = content["seed"], content["found"]
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise _damaged(where, f"'seed' is a whole number from 0, found {_short(seed)}")
    if not isinstance(found, dict):
        raise _damaged(where, f"'found' holds numbers by name, found {_short(found)}")
    for name in names:
        if name not in found:
            raise _damaged(where, f"'found' has no '{name}', but {', '.join(map(repr, found))}")
    for name, item in found.items():
        if not _numeric(item):
            raise _damaged(where, f"'{name}' is a number or a list of numbers, found {_short(item)}")
    return seed, found


def _damaged(where: str, what: str) -> InputError:
    return InputError(f"{where}: {what}; the line is damaged: delete it, and 'aegis bench run' does that run again")


def _numeric(item: Any) -> bool:
    if isinstance(item, list):
        return all(_numeric(part) for part in item)
    return item is None or isinstance(item, int | float)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


SEEDS_AT_ONCE = {"online": 5, "shift": 5}  # seeds that are run in one go, by measures that run them in lockstep

BenchProgress = Callable[[int, int, str, float], None]  # parts done, parts in all, what was done last, minutes left


@dataclass(frozen=True)
class Failure:
    """A part that could not be run."""

    unit: BenchUnit
    seeds: tuple[int, ...]
    why: str


@dataclass(frozen=True)
class _RunPart:
    unit: BenchUnit
    seeds: tuple[int, ...]


def run_plans(
    plans: Sequence[BenchPlan], store: ResultStore, engine: Engine = IN_PROCESS, say: BenchProgress | None = None
) -> list[Failure]:
    """Run all that is missing and return what failed. Results are kept as they come; interrupted, every part that was done is."""
    parts = [part for plan in plans for unit in plan.units for part in _parts(unit, store.missing(unit, range(plan.seeds)))]
    if not parts:
        return []
    started = time.monotonic()
    if store.folder is None:
        return _run(parts, store, engine, say, started)
    with folder_lock(store.folder):
        return _run(parts, store, engine, say, started)


def _run(parts: list[_RunPart], store: ResultStore, engine: Engine, say: BenchProgress | None, started: float) -> list[Failure]:
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


def _parts(unit: BenchUnit, seeds: list[int]) -> list[_RunPart]:
    size = SEEDS_AT_ONCE.get(unit.measure, 1)
    return [_RunPart(unit, tuple(seeds[first : first + size])) for first in range(0, len(seeds), size)]


def _perform(part: _RunPart) -> tuple[list[RunMetrics] | None, str]:
    try:
        return MEASURES[part.unit.measure](part.unit.settings, part.seeds), ""
    except AegisError as error:
        return None, str(error)
    except Exception as error:  # whatever goes wrong in one part, the others are run
        where = traceback.extract_tb(error.__traceback__)[-1]
        return None, f"{type(error).__name__}: {error} ({where.filename}, line {where.lineno})"
