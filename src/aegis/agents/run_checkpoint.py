"""The folder of a run: its settings and identity digest, its checkpoint, the parts of its log, and where the run continues."""

from __future__ import annotations

import hashlib
import json
import pickle
import uuid
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aegis.errors import AegisError, InputError, OutputError, PolicyError
from aegis.files import LOCK, atomic_write, is_partial_file, json_digest, write_text
from aegis.logs import log_digest
from aegis.mechanisms import Belief
from aegis.policies import policy_digest
from aegis.problem import Array, Policy, Problem, dump_problem, save_problem


def identity_digest(value: object) -> str:
    """Return a digest of a plant, a policy, a scaling or any other part of a run: equal parts have equal digests.

    Storable policies are known by what they would store, dataclasses by their fields, other objects by their pickle. An object
    that cannot be pickled gets another digest each time: a run with it is never taken for an earlier one.
    """
    return json_digest(_describe(value))


def _describe(value: object) -> Any:
    """Return JSON-like data that says what `value` is."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.generic):
        return _describe(value.item())
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return [value.dtype.str, list(value.shape), hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()]
    if isinstance(value, Problem):
        return dump_problem(value)
    if isinstance(value, Mapping):
        return {"mapping": sorted(([str(key), _describe(item)] for key, item in value.items()), key=lambda pair: pair[0])}
    if isinstance(value, list | tuple):
        return [_describe(item) for item in value]
    if isinstance(value, Policy):
        try:
            return policy_digest(value)
        except PolicyError:
            pass  # cannot be stored: known by its fields or its pickle
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if is_dataclass(value) and not isinstance(value, type):
        return [kind, {part.name: _describe(getattr(value, part.name)) for part in fields(value) if part.init}]
    return [kind, _pickle_digest(value)]


def _pickle_digest(value: object) -> str:
    try:
        return hashlib.sha256(pickle.dumps(value, protocol=5)).hexdigest()
    except Exception:
        return uuid.uuid4().hex


# The files of a run folder.
SETTINGS_FILE, PROBLEM_FILE, CHECKPOINT_FILE, PARTS_FOLDER, LOG_FILE, SUMMARY_FILE = (
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
class RunResult:
    """A run so far: nested-mean reward and summed reward of each episode `[K]`, and the belief after the last one."""

    means: Array
    sums: Array
    belief: Belief

    @classmethod
    def start(cls, prior: Belief) -> RunResult:
        """Return a run before its first episode."""
        return cls(np.empty(0), np.empty(0), prior)

    @property
    def done(self) -> int:
        """Return how many episodes are done."""
        return self.means.size


def claim_folder(place: Path, wanted: dict[str, Any], problem: Problem) -> None:
    """Take the folder for this run, or make sure that it already belongs to it. The caller holds its lock.

    The settings are written first: from then on the folder is this run's, whenever it is killed. A folder in which another run
    has not kept anything yet is taken over. Raises OutputError if the folder belongs to something else.
    """
    path = place / SETTINGS_FILE
    if path.exists():
        differ = _differences(path, wanted)
        if differ and not _is_unused(place):
            raise OutputError(f"{place} holds a run with other settings ({', '.join(differ)} differ); choose another folder")
    elif not _is_unused(place):
        raise OutputError(f"{place} exists and is not a run of this kind; choose a new folder")
    else:
        differ = [SETTINGS_FILE]
    for item in filter(is_partial_file, place.rglob("*")):
        item.unlink(missing_ok=True)
    if differ:
        (place / PROBLEM_FILE).unlink(missing_ok=True)
        write_text(path, json.dumps(wanted, indent=2) + "\n")
    if not (place / PROBLEM_FILE).exists():
        save_problem(problem, place / PROBLEM_FILE)


def save_checkpoint(place: Path, state: RunResult) -> None:
    """Write the checkpoint."""
    arrays: dict[str, Any] = {f"belief/{name}": values for name, values in state.belief.arrays().items()}
    with atomic_write(place / CHECKPOINT_FILE) as aside, aside.open("wb") as file:
        np.savez(file, done=np.array(state.done), means=state.means, sums=state.sums, **arrays)


def load_checkpoint(place: Path, prior: Belief) -> RunResult:
    """Return the state at the checkpoint, or at the start if there is none; raise InputError if it is damaged."""
    path = place / CHECKPOINT_FILE
    if not path.exists():
        return RunResult.start(prior)
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
        belief = {name.removeprefix("belief/"): values for name, values in arrays.items() if name.startswith("belief/")}
        done, state = int(arrays["done"]), RunResult(arrays["means"], arrays["sums"], prior.with_arrays(belief))
    except _DAMAGE as error:
        raise InputError(
            f"{path} cannot be read ({str(error) or type(error).__name__}); remove the folder to start again"
        ) from error
    if done < 1 or state.means.shape != (done,) or state.sums.shape != (done,):
        raise InputError(
            f"{path} is damaged: it records {done} episodes but holds rewards for {state.means.size}; "
            "remove the folder to start again"
        )
    return state


def is_finished(place: Path) -> bool:
    """Say whether the log and the summary, which are written at the end, are both there.

    Raises InputError if they are not what the run wrote: the summary holds the digest of the log.
    """
    if not ((place / LOG_FILE).exists() and (place / SUMMARY_FILE).exists()):
        return False
    try:
        digest = json.loads((place / SUMMARY_FILE).read_text(encoding="utf-8"))["log_digest"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise InputError(
            f"{place / SUMMARY_FILE} is damaged ({type(error).__name__}); remove the folder and run again"
        ) from error
    if log_digest([place / LOG_FILE]) != digest:
        raise InputError(f"{place / LOG_FILE} is not the log that this run wrote; restore it, or remove the folder and run again")
    return True


def part_path(place: Path, first: int) -> Path:
    """Return the file of the part of the log that begins with episode `first`."""
    return place / PARTS_FOLDER / f"part-{first:09d}.parquet"


def check_parts(place: Path, done: int, episodes: int, chunk: int) -> None:
    """Raise InputError if the log of the episodes that are done cannot be made any more."""
    missing = [str(path.relative_to(place)) for first in range(0, done, chunk) if not (path := part_path(place, first)).exists()]
    if done == episodes and missing:
        missing = [name for name in (LOG_FILE, SUMMARY_FILE) if not (place / name).exists()]
    if missing:
        shown = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        raise InputError(
            f"the run in {place} is incomplete: {done} of {episodes} episodes are done, but {shown} is missing and cannot be "
            "made again from what is left; restore it, or remove the folder and run again"
        )


def checkpoint_episode(folder: str | Path) -> int:
    """Return with which episode the run in a folder would go on: 0 if nothing has been kept yet."""
    try:
        with (Path(folder) / CHECKPOINT_FILE).open("rb") as file, np.load(file, allow_pickle=False) as saved:
            return int(saved["done"])
    except _DAMAGE:
        return 0


def _is_unused(place: Path) -> bool:
    """Say whether nothing would be lost if the folder were taken: no file but those with which a run begins."""
    beginnings = {SETTINGS_FILE, PROBLEM_FILE, LOCK} if (place / SETTINGS_FILE).exists() else {LOCK}
    for item in place.iterdir():
        empty = item.name == PARTS_FOLDER and item.is_dir() and all(is_partial_file(inside) for inside in item.iterdir())
        if not (empty or is_partial_file(item) or item.name in beginnings):
            return False
    return True


def _differences(path: Path, wanted: dict[str, Any]) -> list[str]:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not readable ({error}); choose another folder") from error
    if not isinstance(stored, dict):
        raise InputError(f"{path} does not hold the settings of a run; choose another folder")
    # Compared as text, in which nan equals nan.
    return sorted(key for key in {**stored, **wanted} if json_digest(stored.get(key)) != json_digest(wanted.get(key)))
