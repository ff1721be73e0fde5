"""The risk budget: how freezes and challenges share delta, and the ledger of all gates of a plant (docs/theory.md, The gate).

The challenges of the t-th freeze share `delta 6 / (pi^2 t^2)`. Over all t these add up to delta. The risks of several gates
on one plant add up as well, so every gate is recorded before its first episode.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aegis.certificate import hold_ledger_folder, ledger_folder
from aegis.errors import OutputError, SettingError
from aegis.files import json_digest, write_text
from aegis.problem import Problem, dump_problem

UPGRADES = 0.1  # an upgrade can wait: handing over a level that the legacy still controls usually gains more


def freeze_share(delta: float, t: int) -> float:
    """Return what all challenges of the t-th freeze may spend together; t counts from 1."""
    if t < 1:
        raise SettingError(f"freezes are counted from 1, found {t}")
    return delta * 6.0 / (math.pi * t) ** 2


def challenge_share(delta: float, t: int, challenges: int, upgrade: bool = False, others: int = 0) -> float:
    """Return what each of `challenges` of one kind, handovers or upgrades, opened at the t-th freeze may spend.

    others: challenges of the other kind opened with them. Upgrades then get UPGRADES of the freeze's share among them.
    """
    if challenges < 1:
        raise SettingError(f"a freeze opens at least one challenge, found {challenges}")
    part = 1.0 if not others else UPGRADES if upgrade else 1.0 - UPGRADES
    return freeze_share(delta, t) * part / challenges


def margin_allowance(flips: int, upgrades: bool) -> float:
    """Return the share of what may get worse at a level, over the life of a gate, that its next flip may use.

    flips: how often the level has changed hands. Each flip is compared with what it replaces: with upgrades the first one may use
    three quarters, the next an eighth, then half of that and so on, so that all together get no worse than was allowed.
    """
    if not upgrades:
        return 1.0
    return 0.75 if flips == 0 else 0.25 * 2.0**-flips


FOLDER = "gates"  # within that of the ledgers of looks

PLANT_KEYS = ("world", "preset", "plant", "settings", "legacy")  # what of a run says on which plant it is


@dataclass(frozen=True, slots=True)
class GateCount:
    """Which gate of its plant this is, and the sum of the risks of all up to it; asked: its own."""

    number: int
    risk: float
    asked: float

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)

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
    """Return what a plant is known by: its problem without margins, and the names of world or plant and legacy."""
    named = {name: about[name] for name in PLANT_KEYS if about.get(name) is not None}
    return json_digest({"problem": without_margins(dump_problem(problem)), **named})


def without_margins(problem: Mapping[str, Any]) -> dict[str, Any]:
    """Return a problem as plain data without what makes a switch worth it, which does not make it another plant."""
    levels = [{name: value for name, value in level.items() if name != "margin"} for level in problem["levels"]]
    return {**problem, "levels": levels}


def record_gate(plant: str, gate: str, delta: float, folder: str | Path | None = None) -> GateCount:
    """Write a gate down under its plant, unless it is, and return which one it is. plant, gate: digests.

    Raises OutputError if the ledger cannot be read or written: a gate that is not counted is not run.
    """
    place = (ledger_folder() if folder is None else Path(folder)) / FOLDER
    path = place / f"{plant[:32]}.json"
    with hold_ledger_folder(place):
        gates = _read_ledger(path)
        if gate not in [item["gate"] for item in gates]:
            gates.append({"gate": gate, "delta": delta, "opened": datetime.now(UTC).isoformat(timespec="seconds")})
            write_text(path, json.dumps({"gates": gates}, indent=1) + "\n")
    number = 1 + [item["gate"] for item in gates].index(gate)
    return GateCount(number, sum(float(item["delta"]) for item in gates[:number]), delta)


def _read_ledger(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    try:
        gates = json.loads(path.read_text(encoding="utf-8"))["gates"]
        return [{"gate": str(item["gate"]), "delta": float(item["delta"]), "opened": str(item["opened"])} for item in gates]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutputError(
            f"{path}: the ledger of gates cannot be read ({error}), so that earlier gates of this plant cannot be counted; "
            "restore it from a copy, or move it away and say so where you report the run"
        ) from error
