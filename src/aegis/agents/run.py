"""Online runs that survive being killed: log parts and a checkpoint, each written in one step.

A run folder holds `settings.json`, `problem.yaml`, `parts/` and `checkpoint.npz` while it runs; `log.parquet` and
`summary.json` when it is done. Parts end at fixed episodes, so an interrupted run, resumed, writes the same bytes.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aegis.agents.online import Online
from aegis.errors import InputError, OutputError
from aegis.files import digest_of, write_text, written_aside
from aegis.logs import Source, write_log
from aegis.mechanisms import Belief
from aegis.problem import Array, Batch, Problem, concat, dump_problem, save_problem
from aegis.version import __version__

Progress = Callable[[int, float], None]


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run: nested-mean reward and summed reward per episode `[K]`, and the final belief."""

    means: Array
    sums: Array
    belief: Belief


def run(online: Online, episodes: int, progress: Progress | None = None) -> Result:
    """Run in memory; `progress(done, mean reward)` is called after each episode."""
    state = _advance(online, _State(0, online.prior(), np.empty(0), np.empty(0)), episodes, progress)
    return Result(state.means, state.sums, state.belief)


def run_to(
    folder: str | Path,
    online: Online,
    episodes: int,
    settings: dict[str, Any],
    problem: Problem | None = None,
    chunk: int = 50,
    progress: Progress | None = None,
) -> Result:
    """Run with everything kept in `folder`, going on where an earlier, interrupted run of the same settings stopped.

    settings: what makes this run this run (world, legacy, ...), stored and compared on resuming; agent, scope, seed and number
    of episodes are added to it. problem: how the log is written, if other than the plant's own problem. Raises OutputError if
    the folder holds a run with other settings.
    """
    place = Path(folder)
    logged = online.plant.problem if problem is None else problem
    wanted = _settings(online, episodes, settings, chunk)
    _claim(place, wanted, logged)
    state = _resume(place, online)
    while state.done < episodes:
        first, last = state.done, min(state.done - state.done % chunk + chunk, episodes)
        batches: list[Batch] = []
        state = _advance(online, state, last, progress, batches)
        write_log(concat(batches), logged, place / "parts" / f"part-{first:09d}.parquet")
        _save(place, state)
    if not (place / "summary.json").exists():
        parts = sorted((place / "parts").glob("part-*.parquet"))
        write_log(Source(parts, logged).batches(), logged, place / "log.parquet")
        summary = {**wanted, "mean_reward": float(state.means.mean()), "mean_episode_reward": float(state.sums.mean())}
        write_text(place / "summary.json", json.dumps(summary, indent=2) + "\n")
    shutil.rmtree(place / "parts", ignore_errors=True)
    return Result(state.means, state.sums, state.belief)


@dataclass(frozen=True, slots=True)
class _State:
    done: int
    belief: Belief
    means: Array
    sums: Array


def _advance(online: Online, state: _State, last: int, progress: Progress | None, batches: list[Batch] | None = None) -> _State:
    """Run up to episode `last`; the episodes' data is appended to `batches` if given."""
    current, means, sums = state.belief, list(state.means), list(state.sums)
    for batch, belief in online.steps(state.belief, state.done, last):
        current = belief
        reward = batch.reward if batch.reward is not None else np.empty(0)
        means.append(float(batch.episode_means(reward)[0]))
        sums.append(float(batch.episode_sums(reward)[0]))
        if batches is not None:
            batches.append(batch)
        if progress is not None:
            progress(len(means), means[-1])
    return _State(last, current, np.array(means), np.array(sums))


def _settings(online: Online, episodes: int, settings: dict[str, Any], chunk: int) -> dict[str, Any]:
    agent = asdict(online.agent)
    return {
        **settings,
        "agent": agent,
        "scope": sorted(online.scope),
        "seed": online.seed,
        "episodes": episodes,
        "chunk": chunk,
        "problem": digest_of(dump_problem(online.plant.problem)),
        "version": __version__,
    }


def _claim(place: Path, wanted: dict[str, Any], problem: Problem) -> None:
    """Take the folder for this run, or make sure that it already belongs to it.

    The settings are written first: from then on the folder is this run's, whenever it is killed.
    """
    path = place / "settings.json"
    if path.exists():
        _compare(path, json.loads(json.dumps(wanted)))
    elif place.exists() and (not place.is_dir() or any(not _stale(item) for item in place.iterdir())):
        raise OutputError(f"{place} exists and is not a run of this kind; choose a new folder")
    else:
        write_text(path, json.dumps(wanted, indent=2) + "\n")
    for item in filter(_stale, place.rglob("*")):
        item.unlink(missing_ok=True)
    if not (place / "problem.yaml").exists():
        save_problem(problem, place / "problem.yaml")


def _compare(path: Path, wanted: dict[str, Any]) -> None:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is not readable ({error}); choose another folder") from error
    if not isinstance(found, dict):
        raise InputError(f"{path} does not hold the settings of a run; choose another folder")
    differ = sorted(key for key in {**found, **wanted} if found.get(key) != wanted.get(key))
    if differ:
        raise OutputError(f"{path.parent} holds a run with other settings ({', '.join(differ)} differ); choose another folder")


def _stale(item: Path) -> bool:
    """Say whether a file was left in the middle of a write by a run that was killed."""
    return item.name.startswith(".") and item.name.endswith(".part")


def _save(place: Path, state: _State) -> None:
    arrays: dict[str, Any] = {f"belief/{name}": values for name, values in state.belief.arrays().items()}
    with written_aside(place / "checkpoint.npz") as aside, aside.open("wb") as file:
        np.savez(file, done=np.array(state.done), means=state.means, sums=state.sums, **arrays)


def _resume(place: Path, online: Online) -> _State:
    path = place / "checkpoint.npz"
    if not path.exists():
        return _State(0, online.prior(), np.empty(0), np.empty(0))
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            arrays = {name: saved[name] for name in saved.files}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} cannot be read ({error}); remove the folder to start again") from error
    belief = {name.removeprefix("belief/"): values for name, values in arrays.items() if name.startswith("belief/")}
    return _State(int(arrays["done"]), online.prior().with_arrays(belief), arrays["means"], arrays["sums"])
