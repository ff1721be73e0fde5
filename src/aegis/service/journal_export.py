"""Export of a gate's journal as a tidy log with the challenges that won, so that `aegis certify` gives the gate's numbers.

A folder holds `log.parquet`, `problem.yaml`, `gate.json` and `challenges/NAME/`. Where a level with a stated incumbent was
handed over, `problem-others.yaml` is the problem for candidates that the gate did not test.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from aegis.certificate import GAP_COLUMN
from aegis.errors import InputError
from aegis.files import folder_lock, write_text
from aegis.handover import (
    ARM_COLUMN,
    NUMBER_COLUMN,
    OTHERS_FILE,
    OVERRULED,
    Challenge,
    ChallengeCertified,
    Event,
    Flipped,
    Frozen,
    LateDecision,
    UnitCounted,
    episode_fingerprints,
    problem_as_logged,
    save_challenge,
)
from aegis.logs import write_log
from aegis.problem import Batch, Incumbent, Problem, concat, parse_problem, save_problem, write_yaml
from aegis.service.gate_problem import legacy_columns
from aegis.service.integrity import ChallengerKeeper
from aegis.service.live_episodes import LiveEpisode, episodes_to_batch
from aegis.service.live_state import LiveState
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal, JournalRecord
from aegis.service.store.journal_keys import JournalKeys

LOG, PROBLEM, GATE, CHALLENGES = "log.parquet", "problem.yaml", "gate.json", "challenges"
LONGEST_FOLDER = 200  # bytes of the name of a folder; file systems take 255
BLOCK = 512  # episodes that become a batch at a time


@dataclass(slots=True)
class _JournalFacts:
    """The facts of a journal: whole episodes, challenges by name, and what was certified of those in control."""

    problem: Problem
    trees: list[tuple[int, LiveEpisode]] = field(default_factory=list)
    frozen: dict[str, tuple[Challenge, int]] = field(default_factory=dict)  # with the episode after which it was frozen
    certified: dict[str, ChallengeCertified] = field(default_factory=dict)
    flips: list[Flipped] = field(default_factory=list)
    gaps: set[int] = field(default_factory=set)  # numbers of episodes that are no evidence, or that stand for one left out
    overruled: set[int] = field(default_factory=set)  # numbers of episodes that count at their worst
    broken: int = 0
    _left_out: bool = False

    def counted(self, tree: LiveEpisode, unit: UnitCounted) -> None:
        if unit.arm == OVERRULED:
            self.overruled.add(unit.episode)
        if not tree.whole(self.problem):
            self.broken += 1
            self._left_out = True
            return
        self.trees.append((unit.episode, tree))
        if tree.gap or self._left_out:
            self.gaps.add(unit.episode)
        self._left_out = False

    def end(self) -> None:
        """Mark the last episode if one after it was left out."""
        if self._left_out and self.trees:
            self.gaps.add(self.trees[-1][0])

    def acted(self) -> set[str]:
        """Return the levels at which a policy that was handed over has decided."""
        return {item.level for _, tree in self.trees for item in tree.decisions.values() if item.by == "agent"}

    def event(self, event: Event, _: JournalRecord) -> None:
        if isinstance(event, Frozen):
            self.frozen |= {item.name: (item, event.episode) for item in event.challenges}
        elif isinstance(event, ChallengeCertified):
            self.certified[event.challenge] = event
        elif isinstance(event, Flipped):
            self.flips.append(event)
        elif isinstance(event, LateDecision) and any(number == event.unit for number, _ in self.trees):
            self.gaps.add(event.unit)


def export_gate(database: Database, gate: str, folder: str | Path, keys: JournalKeys | None = None) -> dict[str, Any]:
    """Write the folder and return what is in it; InputError if there is no such gate, or nothing was counted yet.

    keys: of the journal; without them signatures are not checked.
    """
    journal, place = Journal(database, gate, keys=keys), Path(folder)
    first = next(iter(journal.read()), None)
    if first is None:
        raise InputError(f"there is no gate '{gate}' in {database.shown}")
    problem = parse_problem(write_yaml(first.body["problem"]), gate)
    facts = _JournalFacts(problem)
    state = LiveState(problem, on_counted=facts.counted, on_event=facts.event)
    callers, head = Counter[str](), ""
    for record in journal.read():
        state.apply(record)
        head = record.hash
        if record.caller is not None:
            callers[record.caller] += 1
    facts.end()
    if not facts.trees:
        raise InputError(f"gate '{gate}' has counted no whole episode yet: there is nothing to export")
    columns = legacy_columns(problem)
    batch = _batch(problem, facts, columns)
    with folder_lock(place):
        write_log(batch, problem, place / LOG)
        save_problem(problem, place / PROBLEM)
        legacy = {name: Incumbent(columns=names) for name, names in columns.items()}
        uniform = {name: Incumbent(policy="uniform") for name in problem.names}
        written = problem_as_logged(problem, facts.acted(), legacy or uniform, NUMBER_COLUMN)
        if written != problem:
            save_problem(written, place / OTHERS_FILE)
        numbers = np.array([number for number, _ in facts.trees])
        keeper = ChallengerKeeper(journal, state, problem)
        certificates = [_certificate(place, keeper, problem, facts, batch, numbers, flip) for flip in facts.flips]
        about = {
            "gate": gate,
            "episodes": len(facts.trees),
            "broken": facts.broken,
            "gaps": len(facts.gaps),
            "head": head,
            "callers": dict(callers),
            "certificates": certificates,
        }
        write_text(place / GATE, json.dumps(about, indent=2, allow_nan=False) + "\n")
    return about


def _batch(problem: Problem, facts: _JournalFacts, columns: dict[str, tuple[str, ...]]) -> Batch:
    batches = []
    for start in range(0, len(facts.trees), BLOCK):
        part = facts.trees[start : start + BLOCK]
        batch = episodes_to_batch(problem, [tree for _, tree in part], columns)
        owner = batch.episode_of(problem.innermost.name)
        batch.extra[NUMBER_COLUMN] = np.array([number for number, _ in part])[owner]  # type: ignore[index]  # a dict of our own
        batch.extra[ARM_COLUMN] = np.array([tree.arm for _, tree in part])[owner]  # type: ignore[index]
        batch.extra[GAP_COLUMN] = np.array([number in facts.gaps for number, _ in part])[owner]  # type: ignore[index]
        batches.append(batch)
    return concat(batches)


def _folder_name(challenge: str) -> str:
    """Return the folder of a challenge: its name, cut where a file system would not take it."""
    raw = challenge.encode()
    if len(raw) <= LONGEST_FOLDER:
        return challenge
    return f"{raw[: LONGEST_FOLDER - 9].decode(errors='ignore')}-{sha256(raw).hexdigest()[:8]}"


def _certificate(
    place: Path, keeper: ChallengerKeeper, problem: Problem, facts: _JournalFacts, batch: Batch, numbers: Any, flip: Flipped
) -> dict[str, Any]:
    """Write the challenge that a flip put in control, and return where its certificate can be recounted."""
    challenge, frozen_at = facts.frozen[flip.challenge]
    crossing = facts.certified[flip.challenge]
    # The bound holds at all units at once: the flip states the better of that at the crossing and that at the flip.
    until = crossing.episode if crossing.gain_lower >= flip.gain_lower else flip.episode
    learned = batch.take_episodes(np.flatnonzero(numbers <= frozen_at))
    folder = f"{CHALLENGES}/{_folder_name(flip.challenge)}"
    overruled = sum(challenge.since <= number <= until for number in facts.overruled)
    seen = episode_fingerprints(problem, learned)
    save_challenge(place / folder, keeper.piece(flip.challenge), problem, challenge, until, seen, overruled)
    return {"level": flip.level, "challenge": flip.challenge, "folder": folder, "episode": flip.episode, "until": until}
