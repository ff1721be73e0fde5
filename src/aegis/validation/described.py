"""What the runs in a folder were made of, kept beside them, so that a refusal to mix studies can say what differs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

from aegis.files import write_text

SHORT = 40  # characters of a setting that are shown; of longer ones it is said only that they differ


@runtime_checkable
class Described(Protocol):
    """A task that can say what it is made of."""

    @property
    def parts(self) -> Mapping[str, str]:
        """Return everything that its key is a digest of, by name."""
        ...


def keep(task: object, path: Path) -> None:
    """Write down what a task is made of beside the file of its runs, if it can tell."""
    if isinstance(task, Described):
        write_text(_beside(path), json.dumps(dict(task.parts), indent=1) + "\n")


def differences(task: object, path: Path) -> str:
    """Return in words what differs between a task and the one whose runs are in a file; empty if nobody can tell."""
    try:
        there = json.loads(_beside(path).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return ""
    if not isinstance(task, Described) or not isinstance(there, dict):
        return ""
    return ", ".join(_told(name, there.get(name, "-"), part) for name, part in task.parts.items() if there.get(name) != part)


def _told(name: str, there: str, here: str) -> str:
    return f"{name} ({there} there, {here} now)" if max(len(str(there)), len(here)) <= SHORT else name


def _beside(path: Path) -> Path:
    return path.with_suffix(".study.json")
