"""The folder of a run: its events, one line each, suffice to resume it.

A folder holds `settings.json`, `problem.yaml` and `events.jsonl`; when the run is done also `log.parquet`, `policies/LEVEL/`
and `summary.json`. `problem-others.yaml`, where it differs, is the problem for candidates that the gate did not test.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from aegis.agents import LOG_FILE, SUMMARY_FILE, claim_folder, identity_digest
from aegis.errors import AegisError, InputError, OutputError, SettingError
from aegis.files import folder_lock, json_digest, write_text
from aegis.handover.events import Event, Flipped, GateOpened, OperatorAction, event_from_plain, event_to_plain
from aegis.handover.plant_runner import GateRun, Handover, Watch
from aegis.handover.risk_budget import plant_digest, record_gate
from aegis.handover.run_summary import summarise_run
from aegis.logs import write_log
from aegis.policies import Legacy, known_incumbent, save_policy
from aegis.problem import (
    Batch,
    EpisodeFingerprints,
    Incumbent,
    Level,
    Policy,
    Problem,
    concat,
    content_digest,
    episode_hashes,
    save_problem,
)
from aegis.version import __version__

# The problem file with which a log of a handover is certified over policies that were in control.
OTHERS_FILE = "problem-others.yaml"


def problem_as_logged(
    problem: Problem, handed: Collection[str], legacy: Mapping[str, Incumbent] | None = None, time: str | None = None
) -> Problem:
    """Return the problem of a gate without what its log does not keep. handed: levels at which not only the legacy has decided.

    What the problem promises of incumbent and legacy (`epsilon`, `max_ratio`, `max_product`) does not hold of other policies.
    legacy: by level, where a log holds what the legacy would have done: that is the incumbent where none is stated, not the
    average of legacy and agents. time: a column that tells the order of episodes, for a problem without a time.
    """
    if not handed:
        return problem
    levels = tuple(
        _unpromised(level, (legacy or {}).get(level.name)) if level.name in handed else level for level in problem.levels
    )
    return replace(problem, levels=levels, time=problem.time or time)


def run_problem_as_logged(
    problem: Problem, legacy: Policy, handed: Collection[str], batch: Batch, moving: bool = False
) -> Problem:
    """Return the problem of the log of a run: gains are over the incumbent that its gate compared with, if that is known.

    moving: the legacy was explored by plans that followed rewards, so that the order of episodes matters.
    """
    rules = legacy.rules if isinstance(legacy, Legacy) else {}
    known = {name: Incumbent(policy=rule.describe()) for name, rule in rules.items()}
    numbered = len(problem.episode) == 1 and batch.episode.dtype.kind in "iu"
    counted = numbered and bool((batch.episode[1:] > batch.episode[:-1]).all())
    time = problem.episode[0] if counted else None
    written = problem_as_logged(known_incumbent(problem, legacy), handed, known, time)
    return replace(written, time=written.time or time) if moving else written


def _unpromised(level: Level, legacy: Incumbent | None) -> Level:
    own = level.comparator
    if own is None or own.logged:
        return level if legacy is None else replace(level, incumbent=legacy)
    if level.incumbent is None:  # the action that the log says was meant
        return level
    return replace(level, incumbent=replace(own, epsilon=None, max_ratio=None, max_product=None))


# The events and the policies in a run folder.
EVENTS_FILE, POLICIES_FOLDER = "events.jsonl", "policies"


def run_in_folder(
    folder: str | Path,
    handover: GateRun,
    episodes: int,
    about: dict[str, Any] | None = None,
    watch: Watch | None = None,
    actions: Sequence[OperatorAction] = (),
    ledger: str | Path | None = None,
) -> dict[str, Any]:
    """Run a gate with everything kept in `folder`, going on where an earlier, interrupted run of the same settings stopped.

    about: plain data about the run, stored and compared on resuming; more episodes than before go on with it, fewer change
    nothing. watch: gets the events of every block. actions: of an operator, before the run goes on; those of `handover.say` in
    between are kept as well. ledger: the folder in which gates are counted, AEGIS_LEDGER or the user's own if None. Nothing else
    is written before the run was taken up and every action was carried out. Returns the summary.
    Raises OutputError if the folder holds another run or another process writes into it, InputError if its events are damaged,
    or are not those of this run when it is run again.
    """
    place = Path(folder)
    path = place / EVENTS_FILE
    if actions and not isinstance(handover, Handover):
        raise SettingError("this gate accepts no operator actions; use the gate 'challenger'")
    if actions and not path.exists():
        raise InputError(f"operator actions need a stored run, and {place} has none; run it first")
    with folder_lock(place):
        claim_folder(place, _settings(handover, about or {}), handover.problem)
        count_gate(handover, about or {}, ledger)
        recorded, whole = _read(path)
        try:
            if recorded:
                handover.restore(recorded)  # what a broken-off write has lost of the last episode comes about again
        except InputError as error:
            raise type(error)(f"{path}: {error}") from error
        if recorded and watch is not None:
            watch(())  # from here on it goes on
        if isinstance(handover, Handover):
            for action in actions:
                handover.say(action)
        if recorded and not actions and episodes < handover.state.episode:
            return summarise_run(handover)
        if path.exists() and path.stat().st_size > whole:
            os.truncate(path, whole)  # a last line that was not written to its end
        written = len(recorded)

        def keep(events: Sequence[Event]) -> None:
            nonlocal written
            if len(handover.events) == written:
                return
            _append(path, handover.events[written:])  # with what an operator said in between
            written = len(handover.events)
            if watch is not None:
                watch(events)

        keep(handover.events[written:])
        handover.advance(episodes, keep)
        return _finish(place, handover)


def count_gate(handover: GateRun, about: dict[str, Any], ledger: str | Path | None = None) -> None:
    """Write a gate down before its first episode, and note in `handover.counted` which one of its plant it is.

    about: plain data that names plant and legacy. A gate that is no certificate promises nothing and is not counted.
    """
    if not handover.certificate:
        return
    own = {**about, "seed": handover.seed, "gate settings": handover.settings.plain(), "host": handover.host.name}
    plant = plant_digest(handover.problem, about)
    handover.counted = record_gate(plant, json_digest(own), handover.settings.delta, ledger)


def read_events(path: Path) -> list[Event]:
    """Return the events in a file, without a last line that was not written to its end. InputError if one is damaged."""
    return _read(path)[0]


def _read(path: Path) -> tuple[list[Event], int]:
    """Return the events in a file, and how many bytes their lines have."""
    if not path.exists():
        return [], 0
    text = path.read_bytes()
    whole = text[: text.rfind(b"\n") + 1]
    events = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            events.append(event_from_plain(json.loads(line)))
        except (ValueError, AegisError) as error:
            raise InputError(
                f"{path}, line {number}: not an event of a gate ({error}); restore the file or start anew"
            ) from error
    if events and not isinstance(events[0], GateOpened):
        raise InputError(f"{path}, line 1: the events of a gate begin with 'opened', found '{events[0].kind}'")
    return events, len(whole)


def _append(path: Path, events: Sequence[Event]) -> None:
    """Add events to the file and wait until they are on the disk."""
    lines = "".join(json.dumps(event_to_plain(event), allow_nan=False) + "\n" for event in events)
    try:
        with path.open("ab") as file:
            file.write(lines.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}; what was written before is kept") from error


def _settings(handover: GateRun, about: dict[str, Any]) -> dict[str, Any]:
    return {
        **about,
        "seed": handover.seed,
        "gate": handover.settings.plain(),
        "host": handover.host.name,
        "identity": {name: identity_digest(getattr(handover, name)) for name in ("plant", "legacy", "host")},
        "aegis": __version__,
    }


def episode_fingerprints(problem: Problem, batch: Batch) -> dict[str, Any]:
    """Return fingerprints of the episodes: they certify no policy that was learned from them, under any name of the log."""
    return EpisodeFingerprints.among([episode_hashes(batch)], content_digest(problem)).plain()


def _finish(place: Path, handover: GateRun) -> dict[str, Any]:
    whole = concat(list(handover.batches))
    write_log(whole, handover.problem, place / LOG_FILE)
    fingerprints = episode_fingerprints(handover.problem, whole)
    for level in handover.problem.names:
        if level not in handover.deployed and (place / POLICIES_FOLDER / level).is_dir():
            shutil.rmtree(place / POLICIES_FOLDER / level)  # an operator gave it back
    for level, policy in handover.deployed.items():
        held = handover.state.at(level)
        won = None if held is None else held.challenge
        mark = {} if handover.certificate else {"certificate": False}
        record = {"kind": "handover", "scope": [level], "won": won, **mark, "fingerprints": fingerprints}
        save_policy(policy, place / POLICIES_FOLDER / level, record)
    handed = {event.level for event in handover.events if isinstance(event, Flipped)}
    moving = isinstance(handover, Handover) and handover.settings.explore > 0.0
    written = run_problem_as_logged(handover.compared, handover.legacy, handed, whole, moving)
    if written != handover.problem:
        save_problem(written, place / OTHERS_FILE)
    summary = summarise_run(handover)
    write_text(place / SUMMARY_FILE, json.dumps(summary, indent=2, allow_nan=False) + "\n")
    return summary
