"""Replications that survive an interruption: runs in a folder, one line each; missing ones are run in parallel.

A run depends on its task and its number alone. A line that was cut off is dropped and run again.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from aegis.engine import IN_PROCESS, Engine, map_in_order
from aegis.errors import InputError, OutputError, SettingError, whole_number
from aegis.files import folder_lock, write_text

RunRecords = list[dict[str, Any]]  # what one run gives: plain data

Run = Callable[[int], RunRecords]

RunProgress = Callable[[int, int, str], None]  # runs done, runs to do, name of the task


SHORT = 40  # characters of a setting that a refusal quotes; of longer ones it says only that they differ


class Task(Protocol):
    """What is replicated. With more than one worker it must be picklable.

    A task may have `parts`, everything that its key is a digest of, by name: a refusal then says what differs.
    """

    @property
    def key(self) -> str:
        """Return what tells the task from another one whose runs must not be mixed with its own."""
        ...

    def prepare(self) -> Run:
        """Return the function that does one run, by its number; what all runs share is computed here, once per process."""
        ...


def run_tasks(
    tasks: Mapping[str, Task],
    runs: int,
    folder: Path | None = None,
    engine: Engine = IN_PROCESS,
    report: RunProgress | None = None,
) -> dict[str, dict[int, RunRecords]]:
    """Do runs `0 .. runs - 1` of every task that are missing in the folder and return all of them, by task and run.

    Without a folder nothing is kept. Raises InputError if the folder holds runs of another task under the same name, OutputError
    if another process writes into it. Interrupted, it leaves every run that was done.
    """
    whole_number("'runs'", runs)
    with contextlib.nullcontext() if folder is None else folder_lock(folder):
        done = {name: _resumed(name, task, folder) for name, task in tasks.items()}
        missing = [(name, run) for name in tasks for run in range(runs) if run not in done[name]]
        if report is not None and missing:
            report(0, len(missing), missing[0][0])
        for place, (name, run, result) in enumerate(_performed(tasks, missing, engine), 1):
            done[name][run] = result
            if folder is not None:
                append_runs(name, tasks[name].key, {run: result}, folder, getattr(tasks[name], "parts", None))
            if report is not None:
                report(place, len(missing), name)
    return {name: {run: done[run] for run in sorted(done) if run < runs} for name, done in done.items()}


def timed_progress(say: Callable[[str], None], every: float = 5.0) -> RunProgress:
    """Return a report that says, every few seconds, how many runs are done and how long the others will take."""
    started = last = time.monotonic()

    def report(done: int, total: int, name: str) -> None:
        nonlocal last
        now = time.monotonic()
        if done and (done == total or now - last >= every):
            last = now
            say(f"{name}: {done}/{total} runs, {(now - started) / done * (total - done) / 60:.1f} min left")

    return report


def stored_runs(name: str, key: str, folder: Path | None, parts: Mapping[str, Any] | None = None) -> dict[int, RunRecords]:
    """Return the runs of a task that are in the folder, in the order of their numbers.

    InputError if they belong to another task. parts: of this task, to say what differs.
    """
    runs: dict[int, RunRecords] = {}
    lines = [] if folder is None else _read_lines(folder / runs_file_name(name))
    for line in lines:
        if line["study"] != key:
            differs = _describe_differences(lines[0].get("parts"), parts)
            raise InputError(
                f"{Path(folder or '') / runs_file_name(name)}: holds runs of a study with other settings{differs}; move it away "
                "and start anew"
            )
        if isinstance(line.get("run"), int) and isinstance(line.get("outcomes"), list):
            runs[line["run"]] = line["outcomes"]
    return {run: runs[run] for run in sorted(runs)}


def _read_lines(path: Path) -> list[dict[str, Any]]:
    """Return the lines of a file of runs; a line that is damaged or cut off does not count, and its run is done again."""
    try:
        texts = path.read_bytes().splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}; it should be a file of runs") from error
    lines = []
    for text in texts:
        with contextlib.suppress(ValueError):
            lines.append(json.loads(text))
    return [line for line in lines if isinstance(line, dict) and "study" in line]


def _describe_differences(there: Any, here: Mapping[str, Any] | None) -> str:
    """Return in words what differs between the parts of two tasks; empty if one of them is not known."""
    if not isinstance(there, dict) or not here:
        return ""
    differing = [(name, there.get(name, "-"), part) for name, part in here.items() if there.get(name) != part]
    return ": " + ", ".join(
        f"{name} ({old} there, {new} now)" if max(len(str(old)), len(str(new))) <= SHORT else name for name, old, new in differing
    )


def _resumed(name: str, task: Task, folder: Path | None) -> dict[int, RunRecords]:
    """Return the runs of a task in the folder, without what was cut off; of another task, InputError says what differs."""
    if folder is None:
        return {}
    drop_cut_line(folder / runs_file_name(name))
    return stored_runs(name, task.key, folder, getattr(task, "parts", None))


def drop_cut_line(path: Path) -> None:
    """Take a last line that was cut off out of a file of runs; one that only lacks its end gets it."""
    text = path.read_bytes() if path.is_file() else b""
    if not text or text.endswith(b"\n"):
        return
    start = text.rfind(b"\n") + 1
    try:
        json.loads(text[start:])
    except ValueError:
        text = text[:start]
    else:
        text += b"\n"
    write_text(path, text.decode())


def append_runs(
    name: str, key: str, runs: Mapping[int, RunRecords], folder: Path, parts: Mapping[str, Any] | None = None
) -> None:
    """Add runs to the file of a task, one line each; the first line says what the task is made of."""
    path = folder / runs_file_name(name)
    lines: list[dict[str, Any]] = [{"study": key, "run": run, "outcomes": outcomes} for run, outcomes in runs.items()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with path.open("ab+") as file:
            size = file.seek(0, 2)
            if not size and parts:
                lines.insert(0, {"study": key, "parts": dict(parts)})
            whole = not size or (file.seek(-1, 2) >= 0 and file.read(1) == b"\n")
            text = "".join(json.dumps(line) + "\n" for line in lines)
            # A line that was cut off must not swallow the next one.
            file.write((text if whole else "\n" + text).encode())
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; what was there before is kept") from error


def runs_file_name(name: str) -> str:
    """Return the name of the file that a task's runs are kept in."""
    return name.replace(",", "").replace(" ", "-") + ".jsonl"


def _performed(
    tasks: Mapping[str, Task], missing: Iterable[tuple[str, int]], engine: Engine
) -> Iterator[tuple[str, int, RunRecords]]:
    parts = [(name, tasks[name], run) for name, run in missing]
    if engine != IN_PROCESS:
        _check_picklable(tasks)
    results = map_in_order(engine, _perform, parts)
    try:
        yield from results
    finally:
        _ready.clear()
        results.close()  # stops the processes now, not when garbage is collected


_ready: dict[str, Run] = {}  # the task this process is at, prepared


def _perform(part: tuple[str, Task, int]) -> tuple[str, int, RunRecords]:
    """Do one run."""
    name, task, run = part
    key = task.key
    if key not in _ready:
        _ready.clear()
        _ready[key] = task.prepare()
    return name, run, _ready[key](run)


def _check_picklable(tasks: Mapping[str, Task]) -> None:
    for name, task in tasks.items():
        try:
            pickle.dumps(task)
        except Exception as error:  # the user's objects may raise anything
            raise SettingError(
                f"{name}: cannot be sent to other processes ({type(error).__name__}: {error}); define plant, legacy and "
                "candidate at the top of a module, or use one worker"
            ) from error
