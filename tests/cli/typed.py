"""Commands as a user types them: what they print, and how they end."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from aegis.cli import main


def run(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Return exit code, output and errors of a command."""
    code = done(*arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def done(*arguments: object) -> int:
    """Return the exit code of a command."""
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    code = stop.value.code
    return 0 if code is None else int(code)


def rows_of(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
