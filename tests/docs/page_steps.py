"""Following a page of the documentation literally: its files are saved, its commands typed, its code run, its output compared.

A page is followed from top to bottom in one folder:

- a code block after the words "Save this as `NAME`" is saved under that name;
- lines of a `sh` block are typed: `aegis ...` and `python FILE ...`. A command ends well unless a comment behind it says
  `# exit code N`. `pip install` is not typed; what it installs must be the sources here (`.`) or what the project calls itself;
- a `python` block is run, with the names of the blocks before it;
- a `text` block is what the block before it printed, line by line. A line `...` stands for any number of lines.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from aegis.cli import main

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
WIDTH = 100  # columns of the terminal that the pages were written in
BLOCK = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", flags=re.M | re.S)
SAVED = re.compile(r"[Ss]ave this as `([^`]+)`")


@dataclass(frozen=True, slots=True)
class Step:
    """One block of a page: its kind, its text, the name to save it under if it is a file, and its line on the page."""

    kind: str
    text: str
    saved: str
    line: int


def page(name: str) -> str:
    """Return the text of a page of docs/."""
    return (DOCS / name).read_text(encoding="utf-8")


def steps(text: str) -> Iterator[Step]:
    """Return the blocks of a page, in order."""
    end = 0
    for found in BLOCK.finditer(text):
        words = text[end : found.start()].strip().rsplit("\n\n", 1)[-1]
        saved = SAVED.findall(words)
        yield Step(found[1], found[2], saved[-1] if saved else "", text.count("\n", 0, found.start()) + 1)
        end = found.end()


@dataclass(slots=True)
class Reader:
    """Somebody who follows a page in a folder. printed: what each step printed, with its line on the page."""

    place: Path
    module: ModuleType = field(default_factory=lambda: ModuleType("page"))
    printed: list[tuple[int, str]] = field(default_factory=list)

    def follow(self, name: str) -> None:
        """Do what a page says, and compare what it shows."""
        last = ""
        for step in steps(page(name)):
            where = f"docs/{name}, line {step.line}"
            if step.saved:
                (self.place / step.saved).write_text(step.text, encoding="utf-8")
            elif step.kind == "sh":
                last = "".join(self.type(line, where) for line in step.text.splitlines() if line.strip())
            elif step.kind == "python":
                last = self.run(step.text, where)
            elif step.kind == "text":
                assert agrees(step.text, last), f"{where}: the page shows\n{step.text}\nand what came out is\n{last}"
                continue
            self.printed.append((step.line, last))

    def type(self, line: str, where: str) -> str:
        """Type a command and return what it printed, error messages included; how far it has come is left out."""
        words = shlex.split(line, comments=True)
        wanted = re.search(r"#.*exit code (\d)", line)
        if words[:2] == ["pip", "install"]:
            assert all(word.split("[")[0] in (".", distribution()) for word in words[2:]), where
            return ""
        errors = io.StringIO()
        with self.listening() as heard, contextlib.redirect_stderr(errors):
            code = ended(words)
        assert code == (int(wanted[1]) if wanted else 0), f"{where}: {line}\n{heard.getvalue()}{errors.getvalue()}"
        return heard.getvalue() + "".join(found + "\n" for found in errors.getvalue().splitlines() if found.startswith("aegis: "))

    def run(self, code: str, where: str) -> str:
        """Run a block of Python and return what it printed."""
        with self.listening() as heard:
            exec(compile(code, where, "exec"), self.module.__dict__)
        return heard.getvalue()

    @contextlib.contextmanager
    def listening(self) -> Iterator[io.StringIO]:
        """Work in the folder, in a terminal of the width of the pages, and keep what is printed."""
        heard = io.StringIO()
        with pytest.MonkeyPatch.context() as patch, contextlib.chdir(self.place):
            patch.setenv("COLUMNS", str(WIDTH))
            patch.setitem(sys.modules, self.module.__name__, self.module)  # dataclasses look themselves up
            patch.syspath_prepend(str(self.place))
            with contextlib.redirect_stdout(heard):
                yield heard


def ended(words: list[str]) -> int:
    """Return the exit code of a command."""
    if words[0] == "aegis":
        with pytest.raises(SystemExit) as stop:
            main(words[1:])
        return int(stop.value.code or 0)
    assert words[0] == "python", f"this command is not known here: {words}"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", words[1:])
        runpy.run_path(words[1], run_name="__main__")
    return 0


def distribution() -> str:
    """Return what the project is called where it is installed from."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["name"]


def agrees(shown: str, printed: str) -> bool:
    """Say whether a page shows what was printed: the same lines, where a line `...` stands for any."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()) + r"\n" for line in shown.splitlines())
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in printed.splitlines())) is not None


def follow(name: str, place: Path) -> Reader:
    """Follow a page in a folder and return who did."""
    os.makedirs(place, exist_ok=True)
    reader = Reader(place)
    reader.follow(name)
    return reader
