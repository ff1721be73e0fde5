"""Results on disk: one file for each digest, one line for each seed, so that what is there is never run again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from aegis.errors import OutputError
from aegis.experiments.units import Unit
from aegis.validation.runner import drop_cut_line

Found = dict[str, Any]  # what one run gives, by metric: numbers or lists of numbers


class Store:
    """A folder of results. Without a folder they are kept in memory."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._kept: dict[str, dict[int, Found]] = {}

    def read(self, unit: Unit) -> dict[int, Found]:
        """Return the results of a unit by seed."""
        if unit.key not in self._kept:
            self._kept[unit.key] = self._from_disk(unit)
        return dict(self._kept[unit.key])

    def add(self, unit: Unit, found: Mapping[int, Found]) -> None:
        """Keep results of a unit, by seed."""
        self.read(unit)
        self._kept[unit.key] |= dict(found)
        if self.folder is None:
            return
        path = self._path(unit)
        lines = "".join(json.dumps({"arm": unit.label, "seed": seed, "found": item}) + "\n" for seed, item in found.items())
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.with_suffix(".json").exists():
                about = {"measure": unit.measure, "arm": unit.arm, "value": unit.value, "settings": dict(unit.settings)}
                path.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
            with path.open("a", encoding="utf-8") as file:
                file.write(lines)
        except OSError as error:
            raise OutputError(f"cannot write {path}: {error.strerror or error}; what was there before is kept") from error

    def missing(self, unit: Unit, seeds: Iterable[int]) -> list[int]:
        """Return the seeds whose results are not there."""
        have = self.read(unit)
        return [seed for seed in seeds if seed not in have]

    def _path(self, unit: Unit) -> Path:
        return Path(self.folder or "") / unit.bench / f"{unit.key}.jsonl"

    def _from_disk(self, unit: Unit) -> dict[int, Found]:
        if self.folder is None:
            return {}
        path = self._path(unit)
        if not path.exists():
            return {}
        drop_cut_line(path)
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        return {line["seed"]: line["found"] for line in lines}
