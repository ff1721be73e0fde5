"""Results as one JSON file that is kept with the documentation: every number of the page comes from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aegis.errors import InputError
from aegis.experiments.bench import Bench, load_bench, names
from aegis.experiments.claims import Judged, judge
from aegis.experiments.results import Results, key_of
from aegis.experiments.units import code_version
from aegis.files import write_text
from aegis.version import __version__

LONGEST = 8  # lists with more numbers are for pictures
DIGITS = 7


@dataclass(frozen=True)
class Archive:
    """Everything a page needs. code: the digest of the code that gave the numbers. figures: by bench, names of pictures."""

    preset: str
    code: str
    version: str
    results: tuple[Results, ...]
    figures: dict[str, list[str]]
    left_out: tuple[str, ...] = ()

    def judged(self) -> list[tuple[Results, list[Judged]]]:
        """Return all results with the verdicts of their claims."""
        return [(results, [judge(claim, results) for claim in results.bench.claims]) for results in self.results]


def save(path: Path, results: Sequence[Results], figures: dict[str, list[str]], left_out: Sequence[str] = ()) -> None:
    """Write an archive. left_out: benches that were asked for and are not complete."""
    content = {
        "preset": results[0].preset if results else "",
        "code": code_version(),
        "version": __version__,
        "benches": {
            own.bench.name: {"seeds": own.seeds, "settings": own.settings, **_bench(own.bench), "units": _units(own)}
            for own in results
        },
        "figures": figures,
        "left_out": list(left_out),
    }
    write_text(path, json.dumps(content, indent=0, allow_nan=False) + "\n")


def load(path: Path) -> Archive:
    """Return an archive; InputError if it is none, or holds a bench that does not exist any more."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        results = tuple(_results(name, own, content["preset"]) for name, own in content["benches"].items())
        left_out = tuple(content["left_out"])
        return Archive(content["preset"], content["code"], content["version"], results, content["figures"], left_out)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} holds no results of benches: {error}; write it with 'aegis bench report'") from error


def _bench(bench: Bench) -> dict[str, Any]:
    """Return the content of a bench that does not come with the package."""
    return {} if bench.name in names() else {"bench": bench.model_dump(by_alias=True)}


def _units(results: Results) -> list[dict[str, Any]]:
    return [
        {"arm": arm, "value": value, "runs": {str(seed): _kept(found) for seed, found in own.items()}}
        for (arm, value), own in results.found.items()
    ]


def _kept(found: dict[str, Any]) -> dict[str, Any]:
    return {name: _rounded(item) for name, item in found.items() if not isinstance(item, list) or len(item) <= LONGEST}


def _rounded(item: Any) -> Any:
    if isinstance(item, list):
        return [_rounded(part) for part in item]
    return float(f"{item:.{DIGITS}g}") if isinstance(item, float) else item


def _results(name: str, content: dict[str, Any], preset: str) -> Results:
    bench = Bench.model_validate(content["bench"]) if "bench" in content else load_bench(name)
    values = {key_of(value): value for value in ([None] if bench.sweep is None else [u["value"] for u in content["units"]])}
    found = {
        (unit["arm"], values[key_of(unit["value"])]): {int(seed): own for seed, own in unit["runs"].items()}
        for unit in content["units"]
    }
    return Results(bench, preset, content["seeds"], found, content["settings"])
