"""Export of a gate's journal as a tidy log with the challenges that won, so that `aegis certify` gives the gate's numbers.

A folder holds `log.parquet`, `problem.yaml`, `gate.json` and `challenges/NAME/`. Where a level with a stated incumbent was
handed over, `problem-others.yaml` is the problem for candidates that the gate did not test.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import dataclass, field, replace
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
    Reverted,
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
from aegis.service.live_state import DECISION, EPISODE, OPENED, RESULTS, LiveState
from aegis.service.live_state import OVERRULED as OVERRULED_RECORD
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal, JournalRecord
from aegis.service.store.journal_keys import JournalKeys

LOG, PROBLEM, GATE, CHALLENGES = "log.parquet", "problem.yaml", "gate.json", "challenges"
LONGEST_FOLDER = 200  # bytes of the name of a folder; file systems take 255
BLOCK = 512  # episodes that become a batch at a time


@dataclass(slots=True)
class JournalFacts:
    """Facts of a journal: whole episodes, challenges by name, and what was certified of those in control."""

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
        """Take up an episode that was counted."""
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
        """Take up an event."""
        if isinstance(event, Frozen):
            self.frozen |= {item.name: (item, event.episode) for item in event.challenges}
        elif isinstance(event, ChallengeCertified):
            self.certified[event.challenge] = event
        elif isinstance(event, Flipped):
            self.flips.append(event)
        elif isinstance(event, LateDecision) and any(number == event.unit for number, _ in self.trees):
            self.gaps.add(event.unit)


class EpisodeReplay(LiveState):
    """Takes up the episodes of a journal that begins after its first record, without the state of the gate.

    Only those that were opened in it count, up to the record `until`. opened_at: by id, the record that opened each. numbered:
    the numbers of those in which something was decided.
    """

    __slots__ = ("numbered", "opened_at", "until")

    def __init__(self, problem: Problem, facts: JournalFacts, until: float = math.inf) -> None:
        super().__init__(problem, on_counted=facts.counted, on_event=facts.event)
        self.until = until
        self.opened_at: dict[str, int] = {}
        self.numbered: dict[str, int] = {}

    def apply(self, record: JournalRecord) -> None:
        """Go on by one record, as far as it is about these episodes."""
        body = record.body
        if record.kind == EPISODE:
            self.opened_at[body["id"]] = record.seq
        elif record.kind == RESULTS:
            record = replace(record, body={**body, "items": [item for item in body["items"] if item["episode"] in self.trees]})
        elif record.kind == OPENED or ("episode" in body and body["episode"] not in self.trees):
            return
        super().apply(record)
        if record.kind in (DECISION, OVERRULED_RECORD):
            self.numbered[body["episode"]] = int(body["number"])

    def _event(self, event: Event, record: JournalRecord) -> None:
        if isinstance(event, Reverted):
            self._give_back(event.level)
        if isinstance(event, UnitCounted) and event.episode in self.numbers:
            tree = self.trees.pop(self.numbers.pop(event.episode))
            if self.on_counted is not None and self.opened_at[tree.id] <= self.until:
                self.on_counted(tree, event)
        if self.on_event is not None:
            self.on_event(event, record)


def write_episodes(place: Path, problem: Problem, facts: JournalFacts) -> Batch:
    """Write the whole episodes among facts as a log, with the problem files that describe it, and return them."""
    columns = legacy_columns(problem)
    batch = _batch(problem, facts, columns)
    write_log(batch, problem, place / LOG)
    save_problem(problem, place / PROBLEM)
    legacy = {name: Incumbent(columns=names) for name, names in columns.items()}
    uniform = {name: Incumbent(policy="uniform") for name in problem.names}
    written = problem_as_logged(problem, facts.acted(), legacy or uniform, NUMBER_COLUMN)
    if written != problem:
        save_problem(written, place / OTHERS_FILE)
    return batch


def export_gate(
    database: Database,
    gate: str,
    folder: str | Path,
    keys: JournalKeys | None = None,
    archive: str | Path | None = None,
) -> dict[str, Any]:
    """Write the folder and return what is in it; InputError if there is no such gate, or nothing was counted yet.

    Where records were discarded, only episodes that were opened after them are exported, and no challenges: not those that were
    archived before them either, since what the discarded records said of them is not known.

    Parameters
    ----------
    keys : of the journal; without them signatures are not checked.
    archive : the folder with records that are no longer in the store.

    Raises
    ------
    InputError : also if records are in an archive that is not named.
    """
    journal, place = Journal(database, gate, keys=keys, archive=None if archive is None else Path(archive)), Path(folder)
    first = journal.first()
    if first is None:
        raise InputError(f"there is no gate '{gate}' in {database.shown}")
    begin = journal.beginning
    if begin and not journal.marks[-1].discarded and archive is None:
        raise InputError(f"records 1 to {begin} of gate '{gate}' are in an archive: name it with --archive")
    problem = parse_problem(write_yaml(first.body["problem"]), gate)
    facts = JournalFacts(problem)
    state = EpisodeReplay(problem, facts) if begin else LiveState(problem, on_counted=facts.counted, on_event=facts.event)
    callers, head = Counter[str](), ""
    for record in journal.read(begin):
        state.apply(record)
        head = record.hash
        if record.caller is not None:
            callers[record.caller] += 1
    facts.end()
    if not facts.trees and begin:
        raise InputError(
            f"gate '{gate}' has counted no whole episode that was opened after record {begin}, up to which records were "
            "discarded: there is nothing to export. What was archived before has its log in the archive: log.parquet in the "
            "folder of each run"
        )
    if not facts.trees:
        raise InputError(f"gate '{gate}' has counted no whole episode yet: there is nothing to export")
    with folder_lock(place):
        batch = write_episodes(place, problem, facts)
        numbers = np.array([number for number, _ in facts.trees])
        keeper = ChallengerKeeper(journal, state, problem)
        flips = [] if begin else facts.flips
        certificates = [_certificate(place, keeper, problem, facts, batch, numbers, flip) for flip in flips]
        about = {
            "gate": gate,
            "episodes": len(facts.trees),
            "broken": facts.broken,
            "gaps": len(facts.gaps),
            "head": head,
            "callers": dict(callers),
            "certificates": certificates,
            **({"discarded": begin} if begin else {}),
        }
        write_text(place / GATE, json.dumps(about, indent=2, allow_nan=False) + "\n")
    return about


def _batch(problem: Problem, facts: JournalFacts, columns: dict[str, tuple[str, ...]]) -> Batch:
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
    place: Path, keeper: ChallengerKeeper, problem: Problem, facts: JournalFacts, batch: Batch, numbers: Any, flip: Flipped
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
