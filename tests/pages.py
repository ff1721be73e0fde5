"""Runs the code of a Markdown page as a reader would: top to bottom, in one folder.

Python is executed, in one namespace for the page. Commands are typed, `aegis ...` and `python FILE ...`; one that ends with
another exit code than 0 says so behind it: `aegis certify ... # exit code 3`. `pip install` is not typed: it must name this
project, or its sources (`.`). A block behind a paragraph with the words "Save this as `problem.yaml`" is written to that file.
Other YAML, JSON and CSV is parsed. A block of `text` is what the block before it prints: the same words and, within 2 %, the
same numbers; a line `...` stands for lines left out. Everything else cannot be run, and the page fails unless
tests/docs/page_claims.py says who runs it, or why nobody does.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest
import yaml

from aegis.cli import main

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from doc_text import Block, blocks  # noqa: E402

NAMES_A_FILE = re.compile(r"[Ss]ave this as `([\w./-]+)`")
SHELLS = ("", "sh", "bash", "shell", "console")
NUMBER = re.compile(r"(?<![\w.])[-+−]?\d+(?:[.,]\d+)?(?:e[-+]?\d+)?")
SAME = 0.02
WIDTH = "100"  # columns of the terminal


class CannotRun(AssertionError):
    """A block for which there is no way to run it here."""


def pages() -> list[str]:
    """Return the places of all pages with code for readers, below the root of the repository."""
    docs = sorted(path for path in (ROOT / "docs").rglob("*.md") if "tools" not in path.parts)
    return ["README.md", "CONTRIBUTING.md", *(path.relative_to(ROOT).as_posix() for path in docs)]


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of code of a page, given by its place below the root."""
    return blocks((ROOT / page).read_text(encoding="utf-8"))


def run_page(page: str, folder: Path, left_out: Collection[str] = (), quicker: Mapping[str, str] | None = None) -> None:
    """Run the blocks of a page in a folder, except those whose first line is left out.

    quicker: what to write instead of parts of the code, so that it takes less time.
    """
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(folder):
        patch.setenv("COLUMNS", WIDTH)
        patch.syspath_prepend(str(folder))
        known = set(sys.modules)
        module = ModuleType("page")
        patch.setitem(sys.modules, "page", module)  # dataclasses look up where they are defined
        printed: str | None = None
        try:
            for block in blocks_of(page):
                if block.first in left_out:
                    printed = None
                    continue
                code = block.text
                for old, new in (quicker or {}).items():
                    code = code.replace(old, new)
                try:
                    printed = _run(block, code, vars(module), printed, page)
                except (Exception, SystemExit) as error:
                    error.add_note(f"{page}, line {block.line}: {block.first}")
                    raise
        finally:
            _forget(folder, known)


def _run(block: Block, code: str, names: dict[str, Any], printed: str | None, page: str) -> str | None:
    if file := NAMES_A_FILE.search(block.before):
        Path(file[1]).parent.mkdir(parents=True, exist_ok=True)
        Path(file[1]).write_text(code, encoding="utf-8")
        return None
    if block.language in ("python", "py"):
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(compile("\n" * block.line + code, page, "exec"), names)
        return said.getvalue()
    if block.language in SHELLS:
        return "".join(typed(line) for line in commands(block.language, code))
    if block.language == "text":
        if printed is None:
            raise CannotRun("nothing was run just before this output")
        assert_alike(code, printed)
    elif block.language in ("yaml", "yml"):
        assert yaml.safe_load(code) is not None
    elif block.language == "json":
        json.loads(code)
    elif block.language == "csv":
        rows = list(csv.reader(code.splitlines()))
        assert len({len(row) for row in rows}) == 1, "rows of different lengths"
    else:
        raise CannotRun(f"no way to run a block of '{block.language}'")
    return None


def typed(line: str) -> str:
    """Type one command, and return what it printed, errors in the end; it must end as it says."""
    words = shlex.split(line, comments=True)
    if words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]
        assert all(word.split("[")[0] in (".", project) for word in words[2:]), f"not this project: {line}"
        return ""
    if words[0] not in ("aegis", "python"):
        raise CannotRun(f"only commands that begin with `aegis` or `python` are run, found: {line}")
    out = Path(words.pop()) if ">" in words[-2:-1] else None
    words = words[:-1] if out else words
    said = re.search(r"#.*\bexit code (\d+)", line)
    errors = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()) as told, contextlib.redirect_stderr(errors), pytest.raises(SystemExit) as stop:
        _start(words)
    found = int(stop.value.code or 0)
    assert found == (int(said[1]) if said else 0), f"exit code {found}: {line}\n{told.getvalue()}\n{errors.getvalue()}"
    if out:
        out.write_text(told.getvalue(), encoding="utf-8")
        return ""
    return told.getvalue() + "".join(f"{said}\n" for said in errors.getvalue().splitlines() if said.startswith("aegis: "))


def _start(words: list[str]) -> NoReturn:
    if words[0] == "aegis":
        main(words[1:])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words[1:])
        runpy.run_path(words[1], run_name="__main__")
    raise SystemExit(0)


def assert_alike(shown: str, printed: str) -> None:
    """Fail unless a page shows what was printed: the same words, about the same numbers, `...` for lines left out."""
    expected, found = _lines(shown), _lines(printed)
    place, skipping = 0, False
    for line in expected:
        if line == "...":
            skipping = True
            continue
        here = next((at for at in range(place, len(found)) if _alike(line, found[at])), None) if skipping else place
        assert here is not None and here < len(found) and _alike(line, found[here]), (
            f"the page shows\n  {line}\nbut what is printed is\n{printed}"
        )
        place, skipping = here + 1, False
    assert skipping or place == len(found), f"the page ends before\n  {found[place]}\nof what is printed:\n{printed}"


def _alike(shown: str, printed: str) -> bool:
    if NUMBER.sub("#", shown) != NUMBER.sub("#", printed):
        return False
    pairs = zip(_numbers(shown), _numbers(printed), strict=True)
    return all(abs(one - other) <= SAME * max(abs(one), abs(other)) for one, other in pairs)


def _numbers(line: str) -> list[float]:
    return [float(number.replace("−", "-").replace(",", "")) for number in NUMBER.findall(line)]


def _lines(text: str) -> list[str]:
    """Return the lines that say something, with runs of blanks and rules made short."""
    return [short for line in text.splitlines() if (short := re.sub(r"[\s━─]+", " ", line).strip())]


def commands(language: str, code: str) -> Iterator[str]:
    """Yield the commands of a block, each on one line; comments are left out."""
    whole = re.sub(r"\\\n\s*", "", code)
    for line in whole.splitlines():
        if language == "console":
            if not line.startswith("$ "):
                raise CannotRun(f"in a block of console every line begins with '$ '; put output into a block of text: {line}")
            line = line[2:]
        if line.strip() and not line.strip().startswith("#"):
            yield line.strip()


def _forget(folder: Path, known: set[str]) -> None:
    """Forget modules that were imported from the folder of the page."""
    for name in set(sys.modules) - known:
        place = getattr(sys.modules[name], "__file__", None)
        if place and Path(place).is_relative_to(folder):
            del sys.modules[name]
