"""The page about the command line, docs/reference/cli.md, written from the commands themselves."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from aegis.cli import BAD, COMMANDS, INTERRUPTED, TERMINATED, app

START = f"""# The command line

Written by `make docs` from the commands themselves: `aegis COMMAND --help` says the same. Options may stand before or behind
arguments; `KEY=VALUE` values are read as in a problem file.

| exit code | meaning |
|---|---|
| 0 | done; where there is a verdict, a good one: fit, certified, holds |
| 1 | finished, but some part failed or was left out, which is said |
| {BAD} | bad input or usage: one line says what was found, what is allowed and what to do |
| 3 | a valid verdict of *not yet*: too little evidence so far |
| 4 | refused: an assumption fails, or what was to be confirmed is not so |
| {INTERRUPTED}, {TERMINATED} | interrupted by Ctrl-C, ended by the system; what was kept is said |
"""


def cli_page() -> str:
    """Return the page: a table of commands, then each with its usage, help, options and examples."""
    lines = [START, "| command | what it does |", "|---|---|"]
    lines += [f"| [`{name}`](#aegis-{name}) | {line} |" for name, line in COMMANDS.items()]
    for path, command in commands():
        lines += ["", *section(path, command)]
    return "\n".join(lines) + "\n"


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command with what is typed for it, groups before what is in them."""
    context = click.Context(app, info_name="aegis")
    for name in app.list_commands(context):
        command = app.get_command(context, name)
        if command is None:
            raise LookupError(f"aegis.cli.COMMANDS names '{name}', but there is no such command")
        yield f"aegis {name}", command
        if isinstance(command, click.Group):
            for inner in command.list_commands(context):
                yield f"aegis {name} {inner}", command.commands[inner]


def section(path: str, command: click.Command) -> list[str]:
    """Return the lines about one command, `path` as it is typed."""
    context = click.Context(command, info_name=path)
    depth = "#" * path.count(" ")
    found = [f"#{depth} {path}", "", f"`{path} {' '.join(command.collect_usage_pieces(context))}`", ""]
    told, shown = help_of(command)
    found += [line for paragraph in told for line in (paragraph, "")]
    records = [record for option in command.params if (record := option.get_help_record(context)) and record[1]]
    if records:
        found += ["| option | meaning |", "|---|---|", *(f"| `{_cell(left)}` | {_cell(right)} |" for left, right in records), ""]
    if shown:
        found += ["Examples:", "", *(f"    {line}" for line in shown), ""]
    return found[:-1]


def help_of(command: click.Command) -> tuple[list[str], list[str]]:
    """Return the paragraphs of a command's help, and the lines of its examples."""
    told: list[str] = []
    shown: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(command.help or "")):
        lines = [line.strip() for line in paragraph.replace("\b", "").splitlines() if line.strip()]
        if lines and lines[0] in ("Example:", "Examples:"):
            shown += lines[1:]
        elif lines:
            told.append(_plain(" ".join(lines)))
    return told, shown


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _plain(text: str) -> str:
    """Return prose in which no sign is taken for emphasis, a tag or a formula, but for code between backticks."""
    parts = text.split("`")
    return "`".join(part if at % 2 else re.sub(r"([*<$])", r"\\\1", part) for at, part in enumerate(parts))
