"""The folder of a run: who it belongs to, what it holds, and from where the run goes on."""

from __future__ import annotations

import json
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aegis.errors import AegisError, InputError, OutputError
from aegis.files import LOCK, digest_of, left_aside, locked, write_text, written_aside
from aegis.logs import log_digest
from aegis.mechanisms import Belief
from aegis.problem import Array, Problem, save_problem

SETTINGS, PROBLEM, CHECKPOINT, PARTS, LOG, SUMMARY = (
    "settings.json",
    "problem.yaml",
    "checkpoint.npz",
    "parts",
    "log.parquet",
    "summary.json",
)
# What reading a damaged checkpoint may raise: the system, the zip reader, the header of an array, its size.
_DAMAGE = (OSError, ValueError, EOFError, KeyError, TypeError, MemoryError, zipfile.BadZipFile, AegisError)


@dataclass(frozen=True, slots=True)
class RunState:
    """How far a run is: episodes done, the belief after them, and nested-mean and summed reward of each, `[done]`."""

    done: int
    belief: Belief
    means: Array
    sums: Array


def claim(place: Path, wanted: dict[str, Any], problem: Problem) -> None:
    """Take the folder for this run, or make sure that it already belongs to it. The caller holds its lock.

    The settings are written first: from then on the folder is this run's, whenever it is killed. A folder in which another run
    has not kept anything yet is taken over. Raises OutputError if the folder belongs to something else.
    """
    path = place / SETTINGS
    if path.exists():
        differ = _differences(path, wanted)
        if differ and not _bare(place):
            raise OutputError(f"{place} holds a run with other settings ({', '.join(differ)} differ); choose another folder")
    elif not _bare(place):
        raise OutputError(f"{place} exists and is not a run of this kind; choose a new folder")
    else:
        differ = [SETTINGS]
    for item in filter(left_aside, place.rglob("*")):
        item.unlink(missing_ok=True)
    if differ:
        (place / PROBLEM).unlink(missing_ok=True)
        write_text(path, json.dumps(wanted, indent=2) + "\n")
    if not (place / PROBLEM).exists():
        save_problem(problem, place / PROBLEM)


def save(place: Path, state: RunState) -> None:
    """Write the checkpoint."""
    arrays: dict[str, Any] = {f"belief/{name}": values for name, values in state.belief.arrays().items()}
    with written_aside(place / CHECKPOINT) as aside, aside.open("wb") as file:
        np.savez(file, done=np.array(state.done), means=state.means, sums=state.sums, **arrays)


def resume(place: Path, prior: Belief) -> RunState:
    """Return the state at the checkpoint, or at the start if there is none; raise InputError if it is damaged."""
    path = place / CHECKPOINT
    if not path.exists():
        return RunState(0, prior, np.empty(0), np.empty(0))
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        belief = {name.removeprefix("belief/"): values for name, values in arrays.items() if name.startswith("belief/")}
        state = RunState(int(arrays["done"]), prior.with_arrays(belief), arrays["means"], arrays["sums"])
    except _DAMAGE as error:
        raise InputError(
            f"{path} cannot be read ({str(error) or type(error).__name__}); remove the folder to start again"
        ) from error
    if state.done < 1 or state.means.shape != (state.done,) or state.sums.shape != (state.done,):
        raise InputError(
            f"{path} is damaged: it speaks of {state.done} episodes and has the rewards of {state.means.size}; "
            "remove the folder to start again"
        )
    return state


def finished(place: Path) -> bool:
    """Say whether the log and the summary, which are written at the end, are both there.

    Raises InputError if they are not what the run wrote: the summary holds the digest of the log.
    """
    if not _ended(place):
        return False
    try:
        digest = json.loads((place / SUMMARY).read_text(encoding="utf-8"))["log_digest"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(f"{place / SUMMARY} is damaged ({type(error).__name__}); remove the folder and run again") from error
    if log_digest([place / LOG]) != digest:
        raise InputError(f"{place / LOG} is not the log that this run wrote; restore it, or remove the folder and run again")
    return True


def _ended(place: Path) -> bool:
    return (place / LOG).exists() and (place / SUMMARY).exists()


def part(place: Path, first: int) -> Path:
    """Return the file of the part of the log that begins with episode `first`."""
    return place / PARTS / f"part-{first:09d}.parquet"


def check_parts(place: Path, done: int, episodes: int, chunk: int) -> None:
    """Raise InputError if the log of the episodes that are done cannot be made any more."""
    missing = [str(path.relative_to(place)) for first in range(0, done, chunk) if not (path := part(place, first)).exists()]
    if done == episodes and missing:
        missing = [name for name in (LOG, SUMMARY) if not (place / name).exists()]
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise InputError(
            f"the run in {place} is incomplete: {done} of {episodes} episodes are done, but {shown} is missing and cannot be "
            "made again from what is left; restore it, or remove the folder and run again"
        )


def episodes_kept(folder: str | Path) -> int:
    """Return with which episode the run in a folder would go on: 0 if nothing has been kept yet."""
    try:
        with (Path(folder) / CHECKPOINT).open("rb") as file, np.load(file, allow_pickle=False) as saved:
            return int(saved["done"])
    except _DAMAGE:
        return 0


def discard(folder: str | Path) -> None:
    """Remove a finished run from its folder, so that it can be run again; anything else, or an unfinished run, stays.

    The checkpoint goes first and the settings last: killed in between, the folder holds the beginning of the same run.
    """
    place = Path(folder)
    if not (_ended(place) and (place / SETTINGS).exists()):
        return
    with locked(place):
        (place / CHECKPOINT).unlink(missing_ok=True)
        shutil.rmtree(place / PARTS, ignore_errors=True)
        for name in (SUMMARY, LOG, PROBLEM, SETTINGS):
            (place / name).unlink(missing_ok=True)


def _bare(place: Path) -> bool:
    """Say whether nothing would be lost if the folder were taken: no file but those with which a run begins."""
    beginnings = {SETTINGS, PROBLEM, LOCK} if (place / SETTINGS).exists() else {LOCK}
    for item in place.iterdir():
        empty = item.name == PARTS and item.is_dir() and all(left_aside(inside) for inside in item.iterdir())
        if not (empty or left_aside(item) or item.name in beginnings):
            return False
    return True


def _differences(path: Path, wanted: dict[str, Any]) -> list[str]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not readable ({error}); choose another folder") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} does not hold the settings of a run; choose another folder")
    # Compared as text, in which nan equals nan.
    return sorted(key for key in {**found, **wanted} if digest_of(found.get(key)) != digest_of(wanted.get(key)))
