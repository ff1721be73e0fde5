"""Results on disk: one file for each digest, one line for each seed, so that what is there is never run again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from aegis.errors import InputError, OutputError
from aegis.experiments.measured import metrics_of
from aegis.experiments.units import Unit
from aegis.validation.runner import drop_cut_line

Found = dict[str, Any]  # what one run gives, by metric: numbers or lists of numbers


class Store:
    """A folder of results. Without a folder they are kept in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._kept: dict[str, dict[int, Found]] = {}

    def read(self, unit: Unit) -> dict[int, Found]:
        """Return the results of a unit by seed. InputError names a line that is damaged; one that was cut off does not count."""
        if unit.key not in self._kept:
            self._kept[unit.key] = self._from_disk(unit)
        return dict(self._kept[unit.key])

    def add(self, unit: Unit, found: Mapping[int, Found]) -> None:
        """Keep results of a unit, by seed."""
        self.read(unit)
        if self.folder is not None:
            lines = "".join(json.dumps({"arm": unit.label, "seed": seed, "found": item}) + "\n" for seed, item in found.items())
            self._append(unit, lines.encode())
        self._kept[unit.key] |= dict(found)

    def missing(self, unit: Unit, seeds: Iterable[int]) -> list[int]:
        """Return the seeds whose results are not there."""
        have = self.read(unit)
        return [seed for seed in seeds if seed not in have]

    def _path(self, unit: Unit) -> Path:
        return Path(self.folder or "") / unit.bench / f"{unit.key}.jsonl"

    def _append(self, unit: Unit, lines: bytes) -> None:
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

    def _from_disk(self, unit: Unit) -> dict[int, Found]:
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


def _parsed(line: bytes, names: Sequence[str], where: str) -> tuple[int, Found]:
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
