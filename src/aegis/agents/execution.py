"""Executing online runs: in memory, in a folder with checkpoints, or several seeds in lockstep.

An interrupted run, resumed, writes the same bytes. Runs in lockstep have the numbers of single runs, bit for bit.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from aegis.agents.online_run import STREAMS, Online
from aegis.agents.run_checkpoint import (
    LOG_FILE,
    PARTS_FOLDER,
    SUMMARY_FILE,
    RunResult,
    check_parts,
    claim_folder,
    identity_digest,
    is_finished,
    load_checkpoint,
    part_path,
    save_checkpoint,
)
from aegis.errors import SettingError, whole_number
from aegis.files import folder_lock, json_digest, write_text
from aegis.logs import Source, log_digest, to_table, write_log
from aegis.mechanisms import StackedBelief
from aegis.planning import PlannedRuns, default_integration
from aegis.problem import Array, Batch, Policy, Problem, concat, dump_problem
from aegis.version import __version__

Progress = Callable[[int, float], None]

PART_MARK = 5  # a part may be saved unfinished after every so many episodes ...

SAVE_AFTER = 20.0  # ... if nothing was saved for so many seconds


def run(online: Online, episodes: int, progress: Progress | None = None) -> RunResult:
    """Run an agent on its plant, in memory.

    Parameters
    ----------
    online
        The run, from `make_online`.
    episodes
        Number of episodes.
    progress
        Called with the episodes done and the mean reward of the last one, after each episode.

    Returns
    -------
    RunResult
        Rewards of each episode and the final belief.

    Raises
    ------
    SettingError
        If `episodes` is not a whole number from 1.
    """
    last = whole_number("'episodes'", episodes)
    return _advance(online, RunResult.start(online.prior()), last, progress)


def run_to(
    folder: str | Path,
    online: Online,
    episodes: int,
    settings: dict[str, Any],
    problem: Problem | None = None,
    chunk: int = 50,
    progress: Progress | None = None,
    save_after: float = SAVE_AFTER,
) -> RunResult:
    """Run an agent on its plant and keep the run in a folder; an interrupted run of the same settings goes on.

    Parameters
    ----------
    folder
        The folder of the run.
    online, episodes, progress
        As of `run`.
    settings
        Plain data about the run, stored and compared on resuming. Everything that decides the results (plant, legacy, agent,
        scalings, scope, seed, number of episodes) is added to it.
    problem
        How the log is written, if other than the plant's own problem.
    chunk
        Episodes in a part of the log.
    save_after
        Seconds after which an unfinished part is saved. It does not change the final files.

    Returns
    -------
    RunResult
        Rewards of each episode and the final belief.

    Raises
    ------
    OutputError
        If the folder holds a run with other settings, or another process writes into it.
    InputError
        If files of the run are damaged or missing.
    """
    place, last, step = Path(folder), whole_number("'episodes'", episodes), whole_number("'chunk'", chunk)
    logged = online.plant.problem if problem is None else problem
    wanted = _settings(online, last, settings, step, logged)
    prior = online.prior()
    with folder_lock(place):
        claim_folder(place, wanted, logged)
        state = load_checkpoint(place, prior)
        if state.done != last or not is_finished(place):
            check_parts(place, state.done, last, step)
            state = _continue_run(place, online, state, last, step, logged, progress, save_after)
            summary = {
                **wanted,
                "mean_reward": float(state.means.mean()),
                "mean_episode_reward": float(state.sums.mean()),
                "log_digest": log_digest([place / LOG_FILE]),
            }
            write_text(place / SUMMARY_FILE, json.dumps(summary, indent=2) + "\n")
        shutil.rmtree(place / PARTS_FOLDER, ignore_errors=True)
    return state


def _continue_run(
    place: Path,
    online: Online,
    state: RunResult,
    last: int,
    chunk: int,
    logged: Problem,
    progress: Progress | None,
    save_after: float,
) -> RunResult:
    """Run to the end, part by part, and join the parts."""
    saved = time.monotonic()
    while state.done < last:
        first = state.done - state.done % chunk
        stop = min(first + chunk, last)
        kept = state.done - first  # a part that was saved unfinished may hold more than the checkpoint knows of
        before = [Source([part_path(place, first)], logged).read().take_episodes(np.arange(kept))] if kept else []
        batches: list[Batch] = []
        while state.done < stop:
            state = _advance(online, state, min(state.done - state.done % PART_MARK + PART_MARK, stop), progress, batches)
            if state.done == stop or time.monotonic() - saved >= save_after:
                new = concat(batches)
                part = concat([*before, Source(to_table(new, logged), logged).read()]) if before else new  # as it would be read
                write_log(part, logged, part_path(place, first))
                save_checkpoint(place, state)
                saved = time.monotonic()
    parts = [part_path(place, first) for first in range(0, last, chunk)]
    write_log(Source(parts, logged).batches(), logged, place / LOG_FILE)
    return state


def _advance(
    online: Online, state: RunResult, last: int, progress: Progress | None, batches: list[Batch] | None = None
) -> RunResult:
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
    return RunResult(np.array(means), np.array(sums), current)


def _settings(online: Online, episodes: int, settings: dict[str, Any], chunk: int, logged: Problem) -> dict[str, Any]:
    described = {
        **settings,
        "agent": asdict(online.agent),
        "integration": asdict(online.agent.integration or default_integration(online.plant.problem)),
        "scope": sorted(online.scope),
        "seed": whole_number("'seed'", online.seed, 0),
        "streams": STREAMS,
        "episodes": episodes,
        "chunk": chunk,
        "plant": identity_digest(online.plant),
        "problem": json_digest(dump_problem(online.plant.problem)),
        "logged_problem": json_digest(dump_problem(logged)),
        "legacy_policy": identity_digest(online.legacy),
        "scalings": identity_digest(online.scalings),
        "version": __version__,
    }
    try:
        plain: dict[str, Any] = json.loads(json.dumps(described))
    except (TypeError, ValueError) as error:
        raise SettingError(f"the settings of a run are plain data (numbers, texts, lists, mappings): {error}") from error
    return plain


@runtime_checkable
class ManySeeds(Protocol):
    """A plant that can run an episode of several seeds in one call."""

    def episode_of_each(self, episode: int, policy: Policy, seeds: Sequence[int]) -> Batch:
        """Run one episode for each seed: the g-th of the batch is `episodes(episode, 1, policy, seeds[g])`.

        The policy is asked for all of them at once, in the order of the seeds.
        """
        ...


def run_in_lockstep(onlines: Sequence[Online], episodes: int) -> list[RunResult]:
    """Return what `run` returns for each of several runs that differ in seed and scalings alone.

    They are run in lockstep if the plant can (`ManySeeds`) and the mechanisms are regressions, otherwise one after the other.
    Raises SettingError if the runs differ in anything else.
    """
    last = whole_number("'episodes'", episodes)
    _check_lockstep(onlines)
    beliefs = StackedBelief.of([online.prior() for online in onlines])
    if beliefs is None or not isinstance(onlines[0].plant, ManySeeds):
        return [run(online, last) for online in onlines]
    means, sums = np.empty((2, last, len(onlines)))
    for episode, (batch, after) in enumerate(lockstep_episodes(onlines, beliefs, 0, last)):
        beliefs = after
        reward: Array = batch.reward if batch.reward is not None else np.empty(0)
        means[episode], sums[episode] = batch.episode_means(reward), batch.episode_sums(reward)
    own = zip(means.T.copy(), sums.T.copy(), beliefs.beliefs(), strict=True)
    return [RunResult(each, total, belief) for each, total, belief in own]


def lockstep_episodes(
    onlines: Sequence[Online], beliefs: StackedBelief, first: int, last: int
) -> Iterator[tuple[Batch, StackedBelief]]:
    """Yield the data of each episode, the g-th of its batch being the g-th run's, and the beliefs after it.

    For episodes `first .. last - 1`; as in `Online.steps` every number depends on seed and episode alone.
    """
    plant, seeds = onlines[0].plant, [online.seed for online in onlines]
    if not isinstance(plant, ManySeeds):
        raise SettingError(f"a {type(plant).__name__} cannot run several seeds at once; use `run` for each of them")
    planned = onlines[0].policy(beliefs.beliefs()[0], first)
    for episode in range(first, last):
        each = zip(onlines, beliefs.solved(), strict=True)
        choices = tuple(online.choice(belief, episode) for online, belief in each)
        policy = PlannedRuns(replace(planned, choice=choices[0]), choices, beliefs.stacks)
        batch = plant.episode_of_each(episode, policy, seeds)
        beliefs = beliefs.update(batch)
        yield batch, beliefs


def _check_lockstep(onlines: Sequence[Online]) -> None:
    if not onlines:
        raise SettingError("there are no runs; give at least one")
    for name in ("plant", "agent", "scope", "legacy"):
        parts = [getattr(online, name) for online in onlines]
        if any(part is not parts[0] for part in parts) and len({identity_digest(part) for part in parts}) > 1:
            raise SettingError(f"runs in lockstep differ in their seeds alone; these differ in their {name}: run them one by one")
    seeds = [online.seed for online in onlines]
    if len(set(seeds)) < len(seeds):
        raise SettingError(f"every run in lockstep has a seed of its own, found {seeds}")
