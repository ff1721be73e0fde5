"""The arrows between rooms: what each room may import, in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "aegis"
LEAVES = {"errors", "rng", "engine", "files", "version"}
ARROWS: dict[str, set[str]] = {
    "problem": set(),
    "evidence": set(),
    "policies": {"problem"},
    "logs": {"problem"},
    "mechanisms": {"problem"},
    "planning": {"problem", "policies", "mechanisms"},
    "agents": {"audit", "problem", "policies", "logs", "mechanisms", "planning"},
    "audit": {"problem", "logs", "policies", "evidence"},
    "certificate": {"audit", "problem", "logs", "policies", "evidence", "mechanisms"},
    "comparison": {"certificate", "agents", "audit", "problem", "logs", "policies", "evidence", "mechanisms"},
    "handover": {"agents", "certificate", "problem", "policies", "logs", "mechanisms", "planning", "audit", "evidence"},
    "worlds": {"problem", "policies"},
    "validation": {"agents", "certificate", "handover", "worlds", "problem", "policies", "logs", "mechanisms", "evidence"},
    "report": {"certificate", "handover"},
    "paper": {"handover"},
    "experiments": {
        *("paper", "validation", "report", "worlds", "agents", "handover", "certificate", "problem", "policies"),
        *("mechanisms", "planning", "evidence"),
    },
    "adapters": {"policies", "logs", "problem"},
    "service": {"handover", "report", "problem", "policies", "logs", "agents", "certificate"},
}
OPEN = {"cli", "__init__", "__main__"}  # the command line and the public namespace see everything


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module] if node.module != "aegis" else [f"aegis.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("aegis.")}
    return found


def test_every_import_follows_the_arrows() -> None:
    wrong = []
    for path in sorted(SOURCE.rglob("*.py")):
        room = room_of(path)
        if room in OPEN:
            continue
        allowed = LEAVES | ({room} | ARROWS[room] if room not in LEAVES else set())
        wrong += [f"{path.relative_to(SOURCE)} imports aegis.{other}" for other in imports(path) - allowed]
    assert not wrong, "\n".join(wrong)


def test_every_room_is_in_the_table() -> None:
    rooms = {room_of(path) for path in SOURCE.rglob("*.py")}
    assert rooms <= LEAVES | OPEN | set(ARROWS)


def test_library_code_has_no_assert() -> None:
    for path in SOURCE.rglob("*.py"):
        assert not any(isinstance(node, ast.Assert) for node in ast.walk(ast.parse(path.read_text()))), path


def test_what_takes_long_to_import_is_not_imported_where_it_is_not_needed() -> None:
    """Every command, and every process it starts, would wait for it."""
    rooms = ", ".join(f"aegis.{room}" for room in ("agents", "audit", "certificate", "handover", "logs", "worlds"))
    program = f"import sys, {rooms}; print(sorted({{'scipy.stats', 'scipy.optimize', 'matplotlib', 'dask'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
