"""Output of commands: tables, progress, JSON. Without a terminal, progress is logged as plain lines."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table


def console(to_stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console; results go to stdout, everything else to stderr. Names such as `policies:mens:` are no emoji."""
    return Console(stderr=to_stderr, quiet=quiet, highlight=False, emoji=False)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout; numbers that JSON has no word for become null."""
    sys.stdout.write(json.dumps(_json_value(value), indent=2, allow_nan=False) + "\n")


def print_line(text: str, style: str | None = None, to_stderr: bool = False) -> None:
    """Print a line as it is: not wrapped, and without markup."""
    console(to_stderr).print(text, style=style, soft_wrap=True, markup=False)


def print_result(as_json: bool, plain: Any, *lines: str) -> None:
    """Print a result: one JSON document, or lines of text."""
    if as_json:
        print_json(plain)
    else:
        for line in lines:
            print_line(line)


def print_paths(paths: Mapping[str, Path | None]) -> None:
    """Print where files were written, by what they hold; None: not written."""
    for what, path in paths.items():
        if path is not None:
            print_line(f"{what}: {path}")


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    """Return a table: first column left, numbers right."""
    grid = Table(title=title, title_justify="left")
    for position, column in enumerate(columns):
        grid.add_column(column, justify="left" if position == 0 else "right")
    for row in rows:
        grid.add_row(*row)
    return grid


@contextlib.contextmanager
def progress(label: str, quiet: bool = False) -> Iterator[Callable[[int, int, str], None]]:
    """Yield `report(done, total, note)`: a bar with the time left on a terminal, a line every few seconds elsewhere.

    The bar begins with the first report.
    """
    screen = console(to_stderr=True)
    started = last = time.monotonic()
    with contextlib.ExitStack() as stack:
        bar: Progress | None = None

        def report(done: int, total: int, note: str) -> None:
            nonlocal bar, last
            now = time.monotonic()
            if quiet:
                return
            if screen.is_terminal:
                if bar is None:
                    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
                    note_column = TextColumn("{task.fields[note]}")
                    bar = stack.enter_context(Progress(*columns, TimeRemainingColumn(), note_column, console=screen))
                    bar.add_task(label, total=total, note="")
                bar.update(bar.task_ids[0], completed=done, note=note)
            elif done == total or now - last >= 5:
                last = now
                left = (now - started) / max(done, 1) * (total - done)
                screen.print(f"{label}: {done}/{total}, about {left:.0f} s left  {note}", soft_wrap=True)

        yield report


@contextlib.contextmanager
def episode_progress(quiet: bool) -> Iterator[Callable[[str, int], None] | None]:
    """Yield `report(stage, episodes)` for a pass over a log of unknown length; None without a terminal.

    However the pass ends, its line is ended too.
    """
    if quiet or not sys.stderr.isatty():
        yield None
        return
    begun = False

    def report(stage: str, episodes: int) -> None:
        nonlocal begun
        begun = True
        sys.stderr.write(f"\r\x1b[K{stage}: {episodes} episodes")  # the rest of a longer line before it is erased
        sys.stderr.flush()

    try:
        yield report
    finally:
        if begun:
            sys.stderr.write("\n")
            sys.stderr.flush()


def _json_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _json_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_value(item) for item in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
