"""Online runs that survive being killed: log parts and a checkpoint, each written in one step.

A run folder holds `settings.json`, `problem.yaml`, `parts/` and `checkpoint.npz` while it runs; `log.parquet` and
`summary.json` when it is done. Parts end at fixed episodes, so an interrupted run, resumed, writes the same bytes. Where episodes
are slow the beginning of a part is saved too, and written again as a whole when the part is complete.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from aegis.agents.folder import LOG, PARTS, SUMMARY, RunState, check_parts, claim, finished, part, resume, save
from aegis.agents.identity import identity
from aegis.agents.online import Online
from aegis.agents.streams import STREAMS
from aegis.errors import SettingError
from aegis.files import digest_of, locked, write_text
from aegis.logs import Source, log_digest, write_log
from aegis.logs.tidy import to_table
from aegis.mechanisms import Belief
from aegis.planning import suited
from aegis.problem import Array, Batch, Problem, concat, dump_problem
from aegis.version import __version__

Progress = Callable[[int, float], None]
MARK = 5  # a part may be saved unfinished after every so many episodes ...
SAVE_AFTER = 20.0  # ... if nothing was saved for so many seconds


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a run: nested-mean reward and summed reward per episode `[K]`, and the final belief."""

    means: Array
    sums: Array
    belief: Belief


def run(online: Online, episodes: int, progress: Progress | None = None) -> Result:
    """Run in memory; `progress(done, mean reward)` is called after each episode."""
    last = whole_number("episodes", episodes)
    state = _advance(online, RunState(0, online.prior(), np.empty(0), np.empty(0)), last, progress)
    return Result(state.means, state.sums, state.belief)


def run_to(
    folder: str | Path,
    online: Online,
    episodes: int,
    settings: dict[str, Any],
    problem: Problem | None = None,
    chunk: int = 50,
    progress: Progress | None = None,
    save_after: float = SAVE_AFTER,
) -> Result:
    """Run with everything kept in `folder`, going on where an earlier, interrupted run of the same settings stopped.

    settings: plain data about the run that is stored and compared on resuming; everything that decides its results (plant,
    legacy, agent, scalings, scope, seed, number of episodes; see `identity`) is added to it. problem: how the log is written, if
    other than the plant's own problem. chunk: episodes in a part of the log. save_after: seconds after which what there is of a
    part is saved; it does not change what the run writes in the end. Raises OutputError if the folder holds a run with other
    settings or if another process is writing into it, InputError if files of the run are damaged or missing.
    """
    place, last, step = Path(folder), whole_number("episodes", episodes), whole_number("chunk", chunk)
    logged = online.plant.problem if problem is None else problem
    wanted = _settings(online, last, settings, step, logged)
    prior = online.prior()
    with locked(place):
        claim(place, wanted, logged)
        state = resume(place, prior)
        if state.done != last or not finished(place):
            check_parts(place, state.done, last, step)
            state = _go_on(place, online, state, last, step, logged, progress, save_after)
            summary = {
                **wanted,
                "mean_reward": float(state.means.mean()),
                "mean_episode_reward": float(state.sums.mean()),
                "log_digest": log_digest([place / LOG]),
            }
            write_text(place / SUMMARY, json.dumps(summary, indent=2) + "\n")
        shutil.rmtree(place / PARTS, ignore_errors=True)
    return Result(state.means, state.sums, state.belief)


def _go_on(
    place: Path,
    online: Online,
    state: RunState,
    last: int,
    chunk: int,
    logged: Problem,
    progress: Progress | None,
    save_after: float,
) -> RunState:
    """Run to the end, part by part, and join the parts."""
    saved = time.monotonic()
    while state.done < last:
        first = state.done - state.done % chunk
        stop = min(first + chunk, last)
        kept = _beginning(part(place, first), state.done - first, logged)
        batches: list[Batch] = []
        while state.done < stop:
            state = _advance(online, state, min(state.done - state.done % MARK + MARK, stop), progress, batches)
            if state.done == stop or time.monotonic() - saved >= save_after:
                write_log(_part(kept, concat(batches), logged), logged, part(place, first))
                save(place, state)
                saved = time.monotonic()
    parts = [part(place, first) for first in range(0, last, chunk)]
    write_log(Source(parts, logged).batches(), logged, place / LOG)
    return state


def _beginning(path: Path, episodes: int, logged: Problem) -> Batch | None:
    """Return the first episodes of a part that was saved unfinished; it may hold more than the checkpoint knows of."""
    return None if episodes == 0 else Source([path], logged).read().take_episodes(np.arange(episodes))


def _part(kept: Batch | None, new: Batch, logged: Problem) -> Batch:
    """Return a part: what was kept of it, as it was read, and the new episodes as they would be read."""
    return new if kept is None else concat([kept, Source(to_table(new, logged), logged).read()])


def _advance(
    online: Online, state: RunState, last: int, progress: Progress | None, batches: list[Batch] | None = None
) -> RunState:
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
    return RunState(last, current, np.array(means), np.array(sums))


def _settings(online: Online, episodes: int, settings: dict[str, Any], chunk: int, logged: Problem) -> dict[str, Any]:
    found = {
        **settings,
        "agent": asdict(online.agent),
        "integration": asdict(online.agent.integration or suited(online.plant.problem)),
        "scope": sorted(online.scope),
        "seed": whole_number("seed", online.seed, 0),
        "streams": STREAMS,
        "episodes": episodes,
        "chunk": chunk,
        "plant": identity(online.plant),
        "problem": digest_of(dump_problem(online.plant.problem)),
        "logged_problem": digest_of(dump_problem(logged)),
        "legacy_policy": identity(online.legacy),
        "scalings": identity(online.scalings),
        "version": __version__,
    }
    try:
        plain: dict[str, Any] = json.loads(json.dumps(found))
    except (TypeError, ValueError) as error:
        raise SettingError(f"the settings of a run are plain data (numbers, texts, lists, mappings): {error}") from error
    return plain


def whole_number(name: str, value: object, least: int = 1) -> int:
    """Return a setting as an int; raise SettingError unless it is a whole number from `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise SettingError(f"'{name}' is a whole number from {least}, found {value!r}")
    return int(value)
