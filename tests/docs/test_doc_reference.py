"""The generated pages are what the commands, the docstrings and the data say, and nothing public is without a word."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from typeable import COMMANDS, accept

import aegis

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "docs" / "tools"))

from doc_api import description_of, package_names, public  # noqa: E402
from doc_cli import help_of  # noqa: E402
from doc_write import pages  # noqa: E402

EXAMPLES = [line for command in COMMANDS.values() for line in help_of(command)[1]]


def test_the_pages_are_what_is_generated() -> None:
    wanted = pages()
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs" / "reference").rglob("*.md")}
    assert there == {place for place in wanted if place.startswith("reference/")}, "write them again: make docs"
    for place, text in wanted.items():
        assert (ROOT / "docs" / place).read_text(encoding="utf-8") == text, f"docs/{place}: write it again: make docs"


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_is_documented(path: str) -> None:
    command = COMMANDS[path]
    told_, _ = help_of(command)
    assert told_, f"{path} has no help"
    for option in command.params:
        if isinstance(option, click.Option) and not option.hidden:
            assert option.help, f"{path} {option.opts[0]} has no help"


@pytest.mark.parametrize("package", [package for package in package_names() if public(package)])
def test_every_public_name_is_documented(package: str) -> None:
    silent = [name for name, item in public(package).items() if not description_of(name, item, package)]
    assert not silent, f"aegis.{package}: no docstring, and no comment where they are defined: {', '.join(silent)}"


def test_every_name_of_the_package_is_on_a_page() -> None:
    overview = pages()["reference/api.md"]
    for name in aegis.__all__:
        assert name == "__version__" or f"`aegis.{name}`" in overview


def test_top_commands_have_examples() -> None:
    named = {line.split()[1] for line in EXAMPLES}
    assert len(EXAMPLES) > 40
    assert {path.split()[1] for path in COMMANDS} - named <= {"demo", "doctor"}


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_are_accepted_by_the_commands(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    accept(line)
