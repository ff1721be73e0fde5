"""The journal of a gate as a tidy log, with the challenges that were put in control: `aegis certify` gives the gate's numbers.

A folder holds `log.parquet` (every counted episode with the probability of every action, what the legacy would have done, the
number of the episode, who acted, whether something is not known), `problem.yaml`, `gate.json` and `challenges/NAME/`. Where a
level was handed over, `problem-others.yaml` is the problem for candidates that the gate did not test.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from aegis.certificate.sides import GAP
from aegis.errors import InputError
from aegis.files import locked, write_text
from aegis.handover.challenge import Challenge
from aegis.handover.events import Certified, Event, Flipped, Frozen, Unit
from aegis.handover.exported import OTHERS, as_logged
from aegis.handover.folder import seen_of
from aegis.handover.recounting import ARM, NUMBER, save_challenge
from aegis.logs import write_log
from aegis.problem import Batch, Incumbent, Problem, concat, parse_problem, save_problem
from aegis.problem.strict_yaml import write_yaml
from aegis.service.keeper import Keeper
from aegis.service.problems import known_legacy, legacy_columns
from aegis.service.state import LiveState
from aegis.service.store import Database, Journal, Record
from aegis.service.trees import Tree, batch_of

LOG, PROBLEM, GATE, CHALLENGES = "log.parquet", "problem.yaml", "gate.json", "challenges"
BLOCK = 512  # episodes that become a batch at a time


@dataclass(slots=True)
class _Told:
    """What the journal tells on the way: whole episodes, challenges by name, and what was certified of those in control."""

    problem: Problem
    trees: list[tuple[int, Tree]] = field(default_factory=list)
    frozen: dict[str, tuple[Challenge, int]] = field(default_factory=dict)  # with the episode after which it was frozen
    certified: dict[str, Certified] = field(default_factory=dict)
    flips: list[Flipped] = field(default_factory=list)
    gaps: set[int] = field(default_factory=set)  # numbers of episodes that are no evidence, or that stand for one left out
    broken: int = 0
    _left_out: bool = False

    def counted(self, tree: Tree, unit: Unit) -> None:
        if not tree.whole(self.problem):
            self.broken += 1
            self._left_out = True
            return
        self.trees.append((unit.episode, tree))
        if tree.gap or self._left_out:
            self.gaps.add(unit.episode)
        self._left_out = False

    def end(self) -> None:
        """An episode that was left out at the end is told by the last one."""
        if self._left_out and self.trees:
            self.gaps.add(self.trees[-1][0])

    def acted(self) -> set[str]:
        """Return the levels at which a policy that was handed over has decided."""
        return {item.level for _, tree in self.trees for item in tree.decisions.values() if item.by == "agent"}

    def event(self, event: Event, _: Record) -> None:
        if isinstance(event, Frozen):
            self.frozen |= {item.name: (item, event.episode) for item in event.challenges}
        elif isinstance(event, Certified):
            self.certified[event.challenge] = event
        elif isinstance(event, Flipped):
            self.flips.append(event)


def export(database: Database, gate: str, folder: str | Path) -> dict[str, Any]:
    """Write the folder and return what is in it; InputError if there is no such gate, or nothing was counted yet."""
    journal, place = Journal(database, gate), Path(folder)
    first = next(iter(journal.read()), None)
    if first is None:
        raise InputError(f"there is no gate '{gate}' in {database.shown}")
    problem = parse_problem(write_yaml(first.body["problem"]), gate)
    told = _Told(problem)
    state = LiveState(problem, counted=told.counted, told=told.event)
    for record in journal.read():
        state.apply(record)
    told.end()
    if not told.trees:
        raise InputError(f"gate '{gate}' has counted no whole episode yet: there is nothing to export")
    columns = {} if known_legacy(problem) else legacy_columns(problem)
    batch = _batch(problem, told, columns)
    with locked(place):
        write_log(batch, problem, place / LOG)
        save_problem(problem, place / PROBLEM)
        legacy = {name: Incumbent(columns=names) for name, names in columns.items()}
        uniform = {name: Incumbent(policy="uniform") for name in problem.names}
        written = as_logged(problem, told.acted(), legacy or uniform, NUMBER)
        if written != problem:
            save_problem(written, place / OTHERS)
        numbers = np.array([number for number, _ in told.trees])
        keeper = Keeper(journal, state, problem)
        certificates = [_certificate(place, keeper, problem, told, batch, numbers, flip) for flip in told.flips]
        about = {
            "gate": gate,
            "episodes": len(told.trees),
            "broken": told.broken,
            "gaps": len(told.gaps),
            "head": journal.head_of_all(),
        }
        write_text(place / GATE, json.dumps({**about, "certificates": certificates}, indent=2, allow_nan=False) + "\n")
    return {**about, "certificates": certificates}


def _batch(problem: Problem, told: _Told, columns: dict[str, tuple[str, ...]]) -> Batch:
    found = []
    for start in range(0, len(told.trees), BLOCK):
        part = told.trees[start : start + BLOCK]
        batch = batch_of(problem, [tree for _, tree in part], columns)
        owner = batch.episode_of(problem.innermost.name)
        batch.extra[NUMBER] = np.array([number for number, _ in part])[owner]  # type: ignore[index]  # a dict of our own
        batch.extra[ARM] = np.array([tree.arm for _, tree in part])[owner]  # type: ignore[index]
        batch.extra[GAP] = np.array([number in told.gaps for number, _ in part])[owner]  # type: ignore[index]
        found.append(batch)
    return concat(found)


def _certificate(
    place: Path, keeper: Keeper, problem: Problem, told: _Told, batch: Batch, numbers: Any, flip: Flipped
) -> dict[str, Any]:
    """Write the challenge that a flip put in control, and return where its certificate can be recounted."""
    challenge, frozen_at = told.frozen[flip.challenge]
    crossing = told.certified[flip.challenge]
    # The bound holds at all units at once: the flip states the better of that at the crossing and that at the flip.
    until = crossing.episode if crossing.gain_lower >= flip.gain_lower else flip.episode
    learned = batch.take_episodes(np.flatnonzero(numbers <= frozen_at))
    folder = f"{CHALLENGES}/{flip.challenge}"
    save_challenge(place / folder, keeper.piece(flip.challenge), problem, challenge, until, seen_of(problem, learned))
    return {"level": flip.level, "challenge": flip.challenge, "folder": folder, "episode": flip.episode, "until": until}
