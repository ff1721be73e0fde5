"""Recording measurements: one section per benchmark in RESULTS.md, with machine, versions and date."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import re
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "RESULTS.md"
HEAD = """# Results

Measured by the scripts in this folder; each section is rewritten by the command it names. Times are compared only as ratios
within one run: the machines are shared.
"""


def machine() -> str:
    """Return one line about where and with what a measurement was made."""
    model = next((line.split(":")[1].strip() for line in _cpu_lines() if line.startswith("model name")), platform.machine())
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "scipy"))
    return f"{datetime.now(UTC):%Y-%m-%d}; {os.cpu_count()} x {model}; Python {platform.python_version()}, {versions}"


def record(title: str, command: str, lines: list[str]) -> None:
    """Replace the section `title`, or append it."""
    text = RESULTS.read_text() if RESULTS.exists() else HEAD
    body = "\n".join([f"## {title}", "", f"`{command}`; {machine()}", "", *lines, ""])
    pattern = re.compile(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", flags=re.M | re.S)
    text = pattern.sub(lambda _: body + "\n", text) if pattern.search(text) else text.rstrip("\n") + "\n\n" + body
    RESULTS.write_text(text.rstrip("\n") + "\n")


def with_earlier(title: str, lines: list[str], count: str = "runs") -> list[str]:
    """Return the lines of a section with rows of its tables that were recorded before from more runs, or not measured anew.

    Tables are told by their heads, rows by their first cell; empty cells are filled from what was recorded.
    """
    text = RESULTS.read_text() if RESULTS.exists() else ""
    section = re.search(rf"^## {re.escape(title)}\n.*?(?=^## |\Z)", text, flags=re.M | re.S)
    earlier = _tables(section.group(0).splitlines() if section else [])
    found: list[str] = []
    head, left = "", {}
    for line in [*lines, ""]:
        if not line.startswith("|"):
            found += [_line(row) for row in left.values()]
            head, left = "", {}
        elif not head:
            head, left = line, dict(earlier.get(line, {}))
        elif not line.startswith("|---"):
            line = _line(_fuller(_cells(line), left.pop(_cells(line)[0], None), _cells(head).index(count)))
        found.append(line)
    return found[:-1]


def _fuller(row: list[str], earlier: list[str] | None, count: int) -> list[str]:
    if earlier is None:
        return row
    first, second = (row, earlier) if int(row[count] or 0) >= int(earlier[count] or 0) else (earlier, row)
    return [other if not one or _bracketed(other) > _bracketed(one) else one for one, other in zip(first, second, strict=True)]


def _bracketed(cell: str) -> int:
    """Return the number of runs that a cell names in brackets; 0 if none."""
    found = re.search(r"\((\d+)\)$", cell)
    return int(found.group(1)) if found else 0


def _tables(lines: list[str]) -> dict[str, dict[str, list[str]]]:
    """Return the rows of tables by head and first cell."""
    found: dict[str, dict[str, list[str]]] = {}
    head = ""
    for line in lines:
        if not line.startswith("|"):
            head = ""
        elif not head:
            head = line
            found[head] = {}
        elif not line.startswith("|---"):
            found[head][_cells(line)[0]] = _cells(line)
    return found


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _line(row: list[str]) -> str:
    return f"| {' | '.join(row)} |"


def lines_of(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of JSON; one that was cut off by an interruption is left out."""
    found = []
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        with contextlib.suppress(json.JSONDecodeError):
            found.append(json.loads(text))
    return found


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    """Return a Markdown table as lines."""
    return [f"| {' | '.join(head)} |", f"|{'|'.join('---' for _ in head)}|", *(f"| {' | '.join(row)} |" for row in rows)]


def _cpu_lines() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().splitlines() if path.exists() else []
