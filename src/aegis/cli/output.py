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

BLOCKS = "▁▂▃▄▅▆▇█"


def console(to_stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console; results go to stdout, everything else to stderr. Names such as `policies:mens:` are no emoji."""
    return Console(stderr=to_stderr, quiet=quiet, highlight=False, emoji=False)


def print_json(value: Any) -> None:
    """Print one JSON document on stdout; numbers that JSON has no word for become null."""
    sys.stdout.write(json.dumps(_json_value(value), indent=2, allow_nan=False) + "\n")


def print_line(text: str, style: str | None = None, to_stderr: bool = False) -> None:
    """Print a line as it is: not wrapped, and without markup."""
    console(to_stderr).print(text, style=style, soft_wrap=True, markup=False)


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


def sparkline(values: Sequence[float], low: float, high: float, width: int = 40) -> str:
    """Return a line of blocks showing `width` means of consecutive values on the scale low .. high."""
    if not values:
        return ""
    size = max(1, math.ceil(len(values) / width))
    means = [sum(values[i : i + size]) / len(values[i : i + size]) for i in range(0, len(values), size)]
    span = high - low if high > low else 1.0
    return "".join(BLOCKS[min(7, max(0, int(8 * (mean - low) / span)))] for mean in means)


@contextlib.contextmanager
def progress(total: int, label: str, quiet: bool = False) -> Iterator[Callable[[int, str], None]]:
    """Yield `report(done, note)`: a bar with the time left on a terminal, a line every few seconds elsewhere."""
    screen = console(to_stderr=True)
    if quiet:
        yield lambda done, note: None
    elif screen.is_terminal:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed}/{task.total}"))
        with Progress(*columns, TimeRemainingColumn(), TextColumn("{task.fields[note]}"), console=screen) as bar:
            task = bar.add_task(label, total=total, note="")
            yield lambda done, note: bar.update(task, completed=done, note=note)
    else:
        started = last = time.monotonic()

        def report(done: int, note: str) -> None:
            nonlocal last
            now = time.monotonic()
            if done == total or now - last >= 5:
                last = now
                left = (now - started) / max(done, 1) * (total - done)
                screen.print(f"{label}: {done}/{total}, about {left:.0f} s left  {note}", soft_wrap=True)

        yield report


@contextlib.contextmanager
def late_progress(label: str, quiet: bool) -> Iterator[Callable[[int, int, str], None]]:
    """Yield `report(done, total, note)`: a progress that begins with its first report, when the total is known."""
    with contextlib.ExitStack() as stack:
        show: Callable[[int, str], None] | None = None

        def report(done: int, total: int, note: str) -> None:
            nonlocal show
            if show is None:
                show = stack.enter_context(progress(total, label, quiet))
            show(done, note)

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
