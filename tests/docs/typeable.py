"""Whether a command could be typed: it exists, and so do its options and the kinds of their values. Nothing is run."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "tools"))

from doc_cli import commands

COMMANDS = dict(commands())


def accept(line: str) -> click.Context:
    """Parse a line as its command would; click.UsageError if it would refuse it."""
    words = shlex.split(line.partition(" > ")[0], comments=True)
    path = " ".join(words[:3]) if " ".join(words[:3]) in COMMANDS else " ".join(words[:2])
    if path not in COMMANDS:
        raise click.UsageError(f"no such command: {line}")
    return COMMANDS[path].make_context(path, words[path.count(" ") + 1 :])
