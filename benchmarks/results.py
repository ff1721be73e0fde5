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
