"""The trainer, in a process of its own: what episodes contribute to challenges, the audit of the stream, and new challengers.

Decisions never wait for learning.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import signal
import threading
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
    join_batches,
    pack_challenger,
    scaled_episode_rewards,
    unpack_challenger,
    unpack_policy,
)
from aegis.ope import Comparator
from aegis.problem import Batch, Policy, Problem
from aegis.service.gate_problem import legacy_columns, live_legacy
from aegis.service.live_episodes import LiveEpisode, episodes_to_batch
from aegis.service.live_state import LiveState
from aegis.service.store.database import Database
from aegis.service.store.journal import Journal
from aegis.service.store.journal_keys import load_journal_keys

BROKEN = "broken"  # the arm of an episode that is not whole
UnitEvidence = dict[str, dict[str, tuple[Logs, ...]]]  # by challenge and claim


@dataclass(slots=True)
class EpisodeJudgement:
    """The scaled mean reward of an episode, None if it is missing, and its evidence for every challenge that counts it."""

    reward: float | None
    evidence: UnitEvidence


@dataclass(slots=True)
class Trainer:
    """Holds the counted episodes and the challengers that are being tested."""

    problem: Problem
    host: Host
    seed: int
    batches: tuple[Batch, ...] = field(default=(), init=False)
    arms: list[str] = field(default_factory=list, init=False)
    columns: dict[str, tuple[str, ...]] = field(init=False)
    legacy: Policy = field(init=False)
    _challengers: dict[str, Challenger] = field(default_factory=dict, init=False)
    _unjoined: list[LiveEpisode] = field(default_factory=list, init=False)
    _audit: StreamAudit = field(init=False)
    _unaudited: list[LiveEpisode] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._audit = StreamAudit(self.problem)
        self.columns = legacy_columns(self.problem)
        self.legacy = live_legacy(self.problem)

    def counted(self, tree: LiveEpisode, unit: UnitCounted) -> None:
        """Take up an episode that was counted. One that is not whole or was overruled only keeps its place."""
        if len(self.arms) >= unit.episode:
            return  # known already
        whole = tree.whole(self.problem) and not tree.replaced
        self.arms.append(tree.arm if whole else BROKEN)
        if whole:
            self._unjoined.append(tree)
            if tree.arm == AGENT:
                self._unaudited.append(tree)

    def audit(self, state: GateState, tree: LiveEpisode | None, deciding: bool) -> tuple[bool, AuditResponse]:
        """Return whether all units are known here that are evidence in a state, and what their audit asks for.

        tree: the next unit, which is audited with them. deciding: something is to be decided by them.
        """
        if self._audit.segment != state.phases:
            self._audit.start(state.phases)
        fresh = [item for item in self._unaudited if (item.number or 0) > state.start]
        self._unaudited.clear()
        if fresh:
            batch = episodes_to_batch(self.problem, fresh, self.columns)
            for place in range(len(fresh)):
                self._audit.add(batch, place)
        if self._audit.episodes != state.audited:
            return False, NO_RESPONSE
        latest = None if tree is None else episodes_to_batch(self.problem, [tree], self.columns)
        return True, self._audit.asked(latest, 0, deciding, state.put_off)

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
        if self._unjoined:
            self.batches = join_batches([*self.batches, episodes_to_batch(self.problem, self._unjoined, self.columns)])
            self._unjoined.clear()
        # Episodes that are not whole have no rows: places are counted among those that have.
        history = History(
            problem=self.problem,
            legacy=self.legacy,
            acting=acting_policy(self.problem, self.legacy, policies),
            batches=self.batches,
            arms=tuple(arm for arm in self.arms if arm != BROKEN),
            start=sum(arm != BROKEN for arm in self.arms[: state.start]),
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
    trainer = _resume_trainer(order)
    pipe.send("ready")
    while True:
        try:
            method, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = True, getattr(trainer, method)(*arguments)
        except AegisError as error:
            answer = False, error
        except Exception as error:  # any that a user's own host raises
            answer = False, AegisError(f"{type(error).__name__}: {error}")
        pipe.send(answer)


def _resume_trainer(order: TrainerSetup) -> Trainer:
    """Return the trainer with everything that has been counted so far."""
    trainer = Trainer(order.problem, order.host, order.seed)
    state = LiveState(order.problem, on_counted=trainer.counted)
    with contextlib.closing(Database.at(order.store)) as database:
        keys = None if order.journal_key is None else load_journal_keys(order.journal_key)
        for record in Journal(database, order.gate, keys=keys).read():
            state.apply(record)
    return trainer
