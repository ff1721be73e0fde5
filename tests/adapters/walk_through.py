"""A page under docs/examples/ followed to the letter: its Python files written, its commands typed, its output compared."""

from __future__ import annotations

import contextlib
import io
import math
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from aegis.cli import main

DOCS = Path(__file__).parents[2] / "docs" / "examples"
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")


def blocks(page: str) -> list[tuple[str, str]]:
    """Return the kind and the text of every fenced block of a page."""
    return re.findall(r"```(\w+)\n(.*?)```", (DOCS / page).read_text(encoding="utf-8"), flags=re.S)


def follow(page: str, place: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, str]]:
    """Type every command of a page in `place`, compare what it prints, and return exit code and output by command.

    A Python block that starts with `# NAME.py` is a file. A console block has commands after `$ ` and what they print; `...`
    stands for lines that are not shown.
    """
    monkeypatch.setenv("AEGIS_DATA", str(data))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.syspath_prepend(str(place))
    done: dict[str, tuple[int, str]] = {}
    with contextlib.chdir(place):
        for kind, text in blocks(page):
            if kind == "python":
                named = re.match(r"# (\w+\.py)\n", text)
                assert named, f"{page}: a Python block starts with the name of its file"
                monkeypatch.delitem(sys.modules, named[1].removesuffix(".py"), raising=False)  # that of another page
                Path(named[1]).write_text(text)
            elif kind == "console":
                for command, shown in commands(text):
                    done[command] = typed(command)
                    compare(page, command, shown, done[command][1])
    return done


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a console block, continued lines joined, with the lines shown below each."""
    found: list[tuple[str, list[str]]] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append((" ".join(line[2:].split()), []))
        elif line.strip():
            found[-1][1].append(line.rstrip())
    return found


def typed(command: str) -> tuple[int, str]:
    """Run `aegis ...` in this process, `python FILE` in another; return the exit code, and what is printed on both streams."""
    words = [os.path.expandvars(word) for word in shlex.split(command)]
    if words[0] == "python":
        ran = subprocess.run(
            [sys.executable, *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        return ran.returncode, ran.stdout
    assert words[0] == "aegis", command
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed), pytest.raises(SystemExit) as stop:
        main(words[1:])
    code = stop.value.code
    return (0 if code is None else int(code)), printed.getvalue()


def compare(page: str, command: str, shown: list[str], out: str) -> None:
    """Find every shown line in the output, one after the other: the same words, numbers within two in a hundred."""
    lines = [line.rstrip() for line in out.splitlines() if line.strip()]
    at = 0
    for line in shown:
        if line.strip() == "...":
            continue
        while at < len(lines) and not alike(line, lines[at]):
            at += 1
        assert at < len(lines), f"{page}: `{command}` does not print (here): {line}\n{out}"
        at += 1


def alike(one: str, other: str) -> bool:
    """Whether two lines have the same words, and numbers that differ by no more than two in a hundred."""
    if re.sub(r"[\s─━]+", " ", NUMBER.sub("#", one)) != re.sub(r"[\s─━]+", " ", NUMBER.sub("#", other)):
        return False
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return all(math.isclose(number(left), number(right), rel_tol=0.02) for left, right in pairs)


def number(text: str) -> float:
    return float(text.replace(",", ""))
