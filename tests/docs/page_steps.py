"""Following a page of the documentation literally, as tests/pages.py does, but to the letter: it shows what is printed.

A page is followed from top to bottom in one folder, its files are saved, its commands typed, its Python run in one namespace. A
`text` block is what the block before it printed, line by line; a line `...` stands for any number of lines. A `diff` block is
applied to the file that it names. Blocks of other kinds are left to tests/docs/test_doc_pages.py.
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest

from pages import NAMES_A_FILE, ROOT, WIDTH, Block, blocks, commands, typed

DOCS = ROOT / "docs"


def page(name: str) -> str:
    """Return the text of a page of docs/."""
    return (DOCS / name).read_text(encoding="utf-8")


@dataclass(slots=True)
class Reader:
    """Somebody who follows a page in a folder. printed: what each step printed, with its line on the page."""

    place: Path
    module: ModuleType = field(default_factory=lambda: ModuleType("page"))
    printed: list[tuple[int, str]] = field(default_factory=list)

    def follow(self, name: str) -> None:
        """Do what a page says, and compare what it shows."""
        last = ""
        for block in blocks(page(name)):
            where = f"docs/{name}, line {block.line}"
            if block.language == "text":
                assert agrees(block.text, last), f"{where}: the page shows\n{block.text}\nand what came out is\n{last}"
                continue
            try:
                last = self.step(block, last, where)
            except (Exception, SystemExit) as error:
                error.add_note(f"{where}: {block.first}")
                raise
            self.printed.append((block.line, last))

    def step(self, block: Block, last: str, where: str) -> str:
        """Do what one block says, and return what was printed; what was printed last, if it says nothing."""
        if file := NAMES_A_FILE.search(block.before):
            (self.place / file[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "diff":
            edit(self.place, block.text)
        elif block.language == "sh":
            with self.at_work():
                return "".join(typed(line) for line in commands(block.language, block.text))
        elif block.language == "python":
            with self.at_work(), contextlib.redirect_stdout(io.StringIO()) as heard:
                exec(compile(block.text, where, "exec"), self.module.__dict__)
            return heard.getvalue()
        return last

    @contextlib.contextmanager
    def at_work(self) -> Iterator[None]:
        """Work in the folder, in a terminal of the width of the pages."""
        with pytest.MonkeyPatch.context() as patch, contextlib.chdir(self.place):
            patch.setenv("COLUMNS", WIDTH)
            patch.setitem(sys.modules, self.module.__name__, self.module)  # dataclasses look themselves up
            patch.syspath_prepend(str(self.place))
            yield


def edit(place: Path, difference: str) -> None:
    """Apply a unified diff of one file in a folder; what it takes away, and the lines around, must be there exactly once."""
    head, *hunks = re.split(r"^@@ .*\n", difference, flags=re.M)
    file = place / re.match(r"--- (\S+)\n\+\+\+ \1\n", head)[1]  # type: ignore[index]
    text = file.read_text(encoding="utf-8")
    for hunk in hunks:
        old, new = ("".join(f"{line[1:]}\n" for line in hunk.splitlines() if line[0] in f" {sign}") for sign in "-+")
        assert text.count(old) == 1, f"{file.name} has {text.count(old)} places with\n{old}"
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")


def agrees(shown: str, printed: str) -> bool:
    """Say whether a page shows what was printed: the same lines, where a line `...` stands for any."""
    pattern = "".join(r"(?:.*\n)*?" if line.strip() == "..." else re.escape(line.rstrip()) + r"\n" for line in shown.splitlines())
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in printed.splitlines())) is not None


def follow(name: str, place: Path) -> Reader:
    """Follow a page in a folder and return who did."""
    place.mkdir(parents=True, exist_ok=True)
    reader = Reader(place)
    reader.follow(name)
    return reader
