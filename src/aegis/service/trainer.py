"""The trainer, in a process of its own: what episodes contribute to challenges, the audit of the stream, and new challengers.

Decisions never wait for learning.
"""

from __future__ import annotations

import contextlib
import logging
import math
import multiprocessing
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from aegis.engine import exit_with_parent, limit_blas_threads
from aegis.errors import AegisError
from aegis.handover import (
    AGENT,
    NO_RESPONSE,
    OVERRULED,
    AuditResponse,
    Challenger,
    GateState,
    History,
    Host,
    Logs,
    ProposedChallenge,
    StreamAudit,
    UnitCounted,
    acting_policy,
    freeze_challengers,
    pack_challenger,
    scaled_episode_rewards,
    unpack_challenger,
    unpack_policy,
)
from aegis.ope import Comparator
from aegis.problem import Batch, Policy, Problem
from aegis.service.gate_problem import legacy_columns, live_legacy
from aegis.service.http_errors import StoreDamaged
from aegis.service.live_episodes import LiveEpisode, episodes_to_batch
from aegis.service.live_state import LiveState
from aegis.service.store.blocks import (
    BROKEN,
    LARGEST,
    BlockMark,
    EpisodeBlock,
    latest_blocks,
    learning_window,
    list_blocks,
    read_block,
)
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal
from aegis.service.store.journal_keys import load_journal_keys
from aegis.service.store.snapshots import newest_mark, restore_newest

WINDOW = 200_000  # innermost decisions that are learned from, the latest; evidence comes from later episodes alone
SOME = 0.2  # seconds for which stored episodes are audited before something else is answered
log = logging.getLogger("aegis.service")
UnitEvidence = dict[str, dict[str, tuple[Logs, ...]]]  # by challenge and claim


@dataclass(slots=True)
class EpisodeJudgement:
    """The scaled mean reward of an episode, None if it is missing, and its evidence for every challenge that counts it."""

    reward: float | None
    evidence: UnitEvidence


@dataclass(slots=True)
class Trainer:
    """Holds the latest counted episodes, the audit of those of the present phase, and the challengers that are being tested.

    last: the last episode that was counted. database, gate: where older episodes are stored; None if all of them are here.
    """

    problem: Problem
    host: Host
    seed: int
    database: Database | None = None
    gate: str = ""
    blocks: list[EpisodeBlock] = field(default_factory=list, init=False)
    last: int = field(default=0, init=False)
    columns: dict[str, tuple[str, ...]] = field(init=False)
    legacy: Policy = field(init=False)
    stored: BlockMark = field(default_factory=BlockMark, init=False)  # where the blocks end that are in the store
    _challengers: dict[str, Challenger] = field(default_factory=dict, init=False)
    _trees: list[LiveEpisode] = field(default_factory=list, init=False)  # counted, and in no block yet
    _audit: StreamAudit = field(init=False)
    _audited: int = field(default=0, init=False)  # the last episode that the audit was shown, or that it need not see

    def __post_init__(self) -> None:
        self._audit = StreamAudit(self.problem)
        self.columns = legacy_columns(self.problem)
        self.legacy = live_legacy(self.problem)

    @property
    def arms(self) -> list[str]:
        """Return who acted in each episode that is held here, BROKEN where it is not whole."""
        latest = [] if not self._trees else self._latest().arms
        return [arm for block in self.blocks for arm in block.arms] + list(latest)

    def counted(self, tree: LiveEpisode, unit: UnitCounted) -> None:
        """Take up an episode that was counted. One that is not whole or was overruled only keeps its place.

        Places are numbers: StoreDamaged if one is missing between, since it was written and not confirmed. Who reads the journal
        anew finds it.
        """
        if self.last >= unit.episode:
            return  # known already
        if unit.episode != self.last + 1:
            raise StoreDamaged(f"gate '{self.gate}': episode {unit.episode} was counted, expected episode {self.last + 1}")
        self.last = unit.episode
        self._trees.append(tree)
        if len(self._trees) >= LARGEST:
            self._add(self._latest())
            self._trees = []

    def _latest(self) -> EpisodeBlock:
        return EpisodeBlock.of(self.problem, self.last - len(self._trees) + 1, self._trees)

    def _add(self, block: EpisodeBlock) -> None:
        """Hold a block, and only as many as are learned from."""
        self.last = max(self.last, block.last)
        self.blocks = latest_blocks([*self.blocks, block], WINDOW)

    def take_up(self, stored: BlockMark) -> None:
        """Hold the latest of the episodes that are in the store; StoreDamaged if they are not those that were stored."""
        self.stored, self.last = stored, stored.last
        for mark in reversed(self._marks(0)):
            if sum(block.decisions for block in self.blocks) >= WINDOW:
                break
            self.blocks = [self._read(mark), *self.blocks]

    def _marks(self, after: int) -> list[BlockMark]:
        return [] if self.database is None else list_blocks(self.database, self.gate, self.stored, after)

    def _read(self, mark: BlockMark) -> EpisodeBlock:
        if self.database is None:
            raise StoreDamaged("episodes were asked for that are neither here nor in a store")
        return read_block(self.database, self.gate, mark)

    # ---- the audit ---------------------------------------------------------------------------------------------------------

    def audit(self, state: GateState, tree: LiveEpisode | None, deciding: bool) -> tuple[bool, AuditResponse]:
        """Return whether all units are known here that are evidence in a state, and what their audit asks for.

        tree: the next unit, which is audited with them; None if the audit does not see it. deciding: something is to be decided
        by them.
        """
        if not self.audit_some(state) or self._audit.episodes != state.audited:
            return False, NO_RESPONSE
        latest = None if tree is None else episodes_to_batch(self.problem, [tree], self.columns)
        return True, self._audit.asked(latest, 0, deciding, state.put_off)

    def audit_some(self, state: GateState) -> bool:
        """Audit units of a state that were not audited yet, for a while; say whether all that are known here were."""
        if self._audit.segment != state.phases:
            self._audit.start(state.phases)
            self._audited = state.start
        end = time.monotonic() + SOME
        while self._audited < self.last and time.monotonic() < end:
            block = self._holding(self._audited + 1)
            whole = [(number, arm) for number, arm in enumerate(block.arms, block.first) if arm != BROKEN]
            for place, (number, arm) in enumerate(whole):
                if block.batch is not None and arm == AGENT and number > self._audited:
                    self._audit.add(block.batch, place)
            self._audited = block.last
        return self._audited >= self.last

    @property
    def unaudited(self) -> int:
        """Return how many episodes were counted since the last one that was audited."""
        return self.last - self._audited

    def _holding(self, number: int) -> EpisodeBlock:
        """Return a block with an episode: from here, or from the store."""
        if number > self.last - len(self._trees):
            return EpisodeBlock.of(self.problem, number, self._trees[number - self.last - 1 :])
        block = next((item for item in self.blocks if item.first <= number <= item.last), None)
        if block is not None:
            return block
        if number > self.stored.last and self.database is not None:
            self.stored = newest_mark(Journal(self.database, self.gate))
        if number > self.stored.last:
            raise StoreDamaged(f"gate '{self.gate}': episode {number} is in no stored block")
        block = next((self._read(mark) for mark in self._marks(number - 1)[:1]), None)
        if block is None or block.first > number:
            raise StoreDamaged(f"gate '{self.gate}': the block of episode {number} was discarded")
        return block

    def judge(self, trees: Sequence[LiveEpisode], state: GateState, pieces: Mapping[str, bytes]) -> list[EpisodeJudgement]:
        """Return what episodes contribute, in their order, to the challenges of `state` that count the last of them.

        They are whole, or overruled: those contribute the least, whatever they have earned. pieces: stored challengers that
        are not known here (`unknown`), by challenge.
        """
        last = max(tree.number or 0 for tree in trees)
        challengers = {item.name: self._challenger(item.name, state, pieces) for item in state.counting(last)}
        self._challengers = {name: item for name, item in self._challengers.items() if name in challengers}
        plain = [tree for tree in trees if tree.arm != OVERRULED]
        contributed = iter(self._contributions(plain, challengers))
        worst = {name: item.worst_evidence() for name, item in challengers.items()}
        return [EpisodeJudgement(self._reward(tree), worst) if tree.arm == OVERRULED else next(contributed) for tree in trees]

    def _contributions(self, trees: Sequence[LiveEpisode], challengers: Mapping[str, Challenger]) -> list[EpisodeJudgement]:
        """Return what whole episodes contribute by how they went."""
        if not trees:
            return []
        batch = episodes_to_batch(self.problem, trees, self.columns)
        rewards = scaled_episode_rewards(self.problem, batch)
        known: dict[tuple[str, bool], Batch] = {}
        evidence = {name: item.evidence(batch, known) for name, item in challengers.items()}
        return [
            EpisodeJudgement(
                None if math.isnan(rewards[place]) else float(rewards[place]),
                {name: units[place] for name, units in evidence.items()},
            )
            for place in range(len(trees))
        ]

    def _reward(self, tree: LiveEpisode) -> float | None:
        """Return what an overruled episode has earned; None if that is not known."""
        if not tree.whole(self.problem):
            return None
        reward = float(scaled_episode_rewards(self.problem, episodes_to_batch(self.problem, [tree], self.columns))[0])
        return None if math.isnan(reward) else reward

    def unknown(self, state: GateState) -> list[str]:
        """Return the challenges of a state whose challengers have to be sent along."""
        return [item.name for item in state.challenges if item.name not in self._challengers]

    def freeze(
        self, state: GateState, changed: Mapping[str, int], deployed: Mapping[str, bytes]
    ) -> list[tuple[ProposedChallenge, str, bytes]]:
        """Return new challengers: the proposal for the gate, the digest of the policy, and the challenger as one piece.

        deployed: kept challengers in control, by level.
        """
        policies = {level: unpack_policy(piece, self.problem) for level, piece in deployed.items()}
        blocks = [*self.blocks, self._latest()] if self._trees else self.blocks
        # Episodes that are not whole have no rows: places are counted among those that have.
        batch, numbers, arms = learning_window(blocks, self.problem.innermost.name, WINDOW)
        history = History(
            problem=self.problem,
            legacy=self.legacy,
            acting=acting_policy(self.problem, self.legacy, policies),
            batches=() if batch is None else (batch,),
            arms=arms,
            start=sum(number <= state.start for number in numbers),
            everywhere=not self.columns,
            comparator=Comparator.of(self.problem),
        )
        challengers = freeze_challengers(self.host, history, state, changed, self.seed)
        return [(item.proposed, item.digest, pack_challenger(item)) for item in challengers]

    def _challenger(self, name: str, state: GateState, pieces: Mapping[str, bytes]) -> Challenger:
        if name not in self._challengers:
            self._challengers[name] = unpack_challenger(pieces[name], self.problem, state.challenge(name))
        return self._challengers[name]


class TrainerGone(Exception):
    """The process ended: it is started again, and nothing is lost."""


@dataclass(frozen=True, slots=True)
class TrainerSetup:
    """What a trainer needs to resume its work: where the journal and its key are, and which host proposes challengers."""

    store: str
    gate: str
    problem: Problem
    host: Host
    seed: int
    journal_key: str | None = None


@dataclass(slots=True)
class TrainerProcess:
    """Calls methods of a `Trainer` in another process, which is started when it is needed. Callers take turns."""

    order: TrainerSetup
    _process: Any = field(default=None, init=False)
    _pipe: Connection | None = field(default=None, init=False)
    _calling: threading.Lock = field(default_factory=threading.Lock, init=False)

    def call(self, method: str, *arguments: Any) -> Any:
        """Return what a method of the trainer returns; AegisError if it raised one, TrainerGone if the process ended."""
        with self._calling:
            pipe = self._ready()
            try:
                pipe.send((method, arguments))
                worked, answer = pipe.recv()
            except (EOFError, OSError, BrokenPipeError) as error:
                self.stop()
                raise TrainerGone("the process that learns and judges has ended") from error
        if not worked:
            raise answer
        return answer

    def stop(self) -> None:
        """End the process."""
        pipe, process = self._pipe, self._process  # another thread may do the same now
        self._process = self._pipe = None
        if pipe is not None:
            with contextlib.suppress(OSError):
                pipe.close()
        if process is not None:
            process.terminate()
            process.join(5)

    def _ready(self) -> Connection:
        pipe, running = self._pipe, self._process
        if pipe is not None and running is not None and running.is_alive():
            return pipe
        self.stop()
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        process = context.Process(target=_work, args=(there, self.order), name="aegis-trainer", daemon=True)
        process.start()
        self._process = process
        there.close()
        try:
            here.recv()
        except EOFError as error:
            self.stop()
            raise TrainerGone("the process that learns and judges did not start") from error
        self._pipe = here
        return here


def _work(pipe: Connection, order: TrainerSetup) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process says when to stop
    limit_blas_threads()
    exit_with_parent()
    trainer, state = resume_trainer(order)
    pipe.send("ready")
    while True:
        try:
            while state is not None and not pipe.poll():
                state = _audited(trainer, state)
            method, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        if method == "audit":
            state = None  # that of the call is newer
        try:
            answer = True, getattr(trainer, method)(*arguments)
        except StoreDamaged as error:
            log.warning("the trainer is started again: %s", error)
            return
        except AegisError as error:
            answer = False, error
        except Exception as error:  # any that a user's own host raises
            answer = False, AegisError(f"{type(error).__name__}: {error}")
        pipe.send(answer)


def _audited(trainer: Trainer, state: GateState) -> GateState | None:
    """Audit a few of the episodes of a gate while nothing is asked; return the gate if there are more."""
    try:
        return None if trainer.audit_some(state) else state
    except StoreDamaged:
        return None  # raised again when the audit is asked for


def resume_trainer(order: TrainerSetup) -> tuple[Trainer, GateState | None]:
    """Return the trainer with what has been counted so far, and the gate whose episodes it has still to audit.

    It takes up stored blocks and reads the records after the newest snapshot. Without a snapshot, or if blocks are damaged, it
    reads the whole journal and audits on the way, so that it never holds more than it learns from.
    """
    database = Database.at(order.store)
    trainer, state, journal = _empty_trainer(order, database)
    if restore_newest(journal, state):
        try:
            for mark in list_blocks(database, order.gate, state.blocks, state.opened.start):
                read_block(database, order.gate, mark)  # those that are audited are looked at once before
            trainer.take_up(state.blocks)
        except StoreDamaged as error:
            log.warning("the trainer reads the whole journal: %s", error)
            trainer, state, journal = _empty_trainer(order, database)
    whole = not journal.last
    for record in journal.news():
        state.apply(record)
        while whole and trainer.unaudited >= LARGEST and not trainer.audit_some(state.opened):
            pass
    trainer.stored = state.blocks
    return trainer, state.gate


def _empty_trainer(order: TrainerSetup, database: Database) -> tuple[Trainer, LiveState, Journal]:
    trainer = Trainer(order.problem, order.host, order.seed, database, order.gate)
    keys = None if order.journal_key is None else load_journal_keys(order.journal_key)
    return trainer, LiveState(order.problem, on_counted=trainer.counted), Journal(database, order.gate, keys=keys)
