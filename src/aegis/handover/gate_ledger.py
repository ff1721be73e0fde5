"""The ledger of gates: how many were ever opened on a plant, and what their risks add up to.

Each gate hands over wrongly with probability at most delta. Of many gates on one plant, run with new seeds until one hands over,
one will: their risks add up. So every gate is written down before its first episode, under what its plant is, in the folder of
the ledgers of looks (AEGIS_LEDGER, else the user's state folder). The same run again, or taken up again, is the same gate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aegis.certificate.ledger import default_folder, held
from aegis.errors import OutputError
from aegis.files import digest_of, write_text
from aegis.problem import Problem, dump_problem

FOLDER = "gates"  # within that of the ledgers of looks
PLANT = ("world", "preset", "plant", "settings", "legacy")  # what of a run says on which plant it is


@dataclass(frozen=True, slots=True)
class GateCount:
    """Which gate of its plant this is, and the sum of the risks of all up to it; asked: its own."""

    number: int
    risk: float
    asked: float

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return {"number": self.number, "risk": self.risk, "asked": self.asked}

    @property
    def words(self) -> str:
        """Return it as a sentence; empty for the first gate of a plant."""
        if self.number == 1:
            return ""
        return (
            f"This is gate {self.number} of this plant: the probability that any of these gates hands over wrongly is at most "
            f"{self.risk:.3g}, more than the {self.asked:.3g} asked for."
        )


def plant_digest(problem: Problem, about: Mapping[str, Any]) -> str:
    """Return what a plant is known by: its problem, whatever the margins, and the world or plant and the legacy by name."""
    named = {name: about[name] for name in PLANT if about.get(name) is not None}
    return digest_of({"problem": without_margins(dump_problem(problem)), **named})


def without_margins(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return a problem as plain data without what makes a switch worth it, which does not make it another plant."""
    levels = [{name: value for name, value in level.items() if name != "margin"} for level in problem["levels"]]
    return {**problem, "levels": levels}


def record_gate(plant: str, gate: str, delta: float, folder: str | Path | None = None) -> GateCount:
    """Write a gate down under its plant, unless it is, and return which one it is. plant, gate: digests.

    Raises OutputError if the ledger cannot be read or written: a gate that is not counted is not run.
    """
    place = (default_folder() if folder is None else Path(folder)) / FOLDER
    path = place / f"{plant[:32]}.json"
    with held(place):
        gates = _read(path)
        if gate not in [item["gate"] for item in gates]:
            gates.append({"gate": gate, "delta": delta, "opened": datetime.now(UTC).isoformat(timespec="seconds")})
            write_text(path, json.dumps({"gates": gates}, indent=1) + "\n")
    number = 1 + [item["gate"] for item in gates].index(gate)
    return GateCount(number, sum(float(item["delta"]) for item in gates[:number]), delta)


def _read(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["gates"]
        return [{"gate": str(item["gate"]), "delta": float(item["delta"]), "opened": str(item["opened"])} for item in found]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(
            f"{path}: the ledger of gates cannot be read ({error}), so that earlier gates of this plant cannot be counted; "
            "restore it from a copy, or move it away and say so where you report the run"
        ) from error
