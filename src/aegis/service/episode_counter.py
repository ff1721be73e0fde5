"""The counter: a thread that takes settled episodes to the gate while decisions are answered elsewhere."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from aegis.errors import AegisError
from aegis.handover import (
    NO_RESPONSE,
    OVERRULED,
    TESTED_ARMS,
    AuditResponse,
    GateState,
    UnitCounted,
    freeze_is_due,
    is_audit_due,
    is_decision,
    standing_postponement,
)
from aegis.service.http_errors import ServiceError, StoreDamaged, StoreUnavailable
from aegis.service.live_episodes import LiveEpisode
from aegis.service.live_gate import LiveGate, internal_key
from aegis.service.trainer import EpisodeJudgement, TrainerGone, TrainerProcess

BLOCK = 64  # episodes that are judged at a time
SILENT = 32  # episodes without a reward after which the gate pauses
YIELD = 0.001  # seconds between two writes of its own, in which requests that wait are answered
REST = 1.0  # seconds after which a thread looks again, even if nothing has changed
log = logging.getLogger("aegis.service")


@dataclass(slots=True)
class EpisodeCounter:
    """Counts settled episodes in the order in which they started, and freezes challengers when that is due.

    abandon: seconds without a request after which an episode is closed, its rewards missing for good; None: never.
    """

    live: LiveGate
    worker: TrainerProcess
    abandon: float | None = None
    failure: str | None = field(default=None, init=False)  # why nothing is counted now, None if it is
    _since: float = field(default=-math.inf, init=False)  # when it was started, by `time.monotonic`
    _thread: threading.Thread | None = field(default=None, init=False)
    _going: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.live.audit = self._audited

    def _audited(self, gate: GateState) -> tuple[bool, AuditResponse]:
        """Return whether all units of a state could be audited, and what their audit asks for before a handover."""
        try:
            answer: tuple[bool, AuditResponse] = self.worker.call("audit", gate, None, True)
        except TrainerGone:
            return False, NO_RESPONSE
        return answer

    def start(self) -> None:
        """Start the thread; if it runs already, let the worker read the journal anew, since others have written meanwhile."""
        self._going, self._since = True, time.monotonic()
        if self._thread is not None and self._thread.is_alive():
            self.worker.stop()
            return
        self._thread = threading.Thread(target=self._run, name="aegis-counting", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """End thread and worker."""
        self._going = False
        self.live.wake()
        self.worker.stop()
        if self._thread is not None:
            self._thread.join(10 if self.live.failure is None else 1)  # a write that hangs was not acknowledged
            self.worker.stop()  # the thread may have started it again meanwhile

    def _run(self) -> None:
        while self._going:
            try:
                busy = self.once()
                self.failure = None
            except (StoreUnavailable, TrainerGone) as error:
                self.failure, busy = str(error), False
                if isinstance(error, TrainerGone) and self._going:
                    log.warning("%s; it is started again", error)
                if self._going:
                    time.sleep(REST)  # a trainer that cannot start at all would keep the machine busy
            except Exception as error:
                self.failure, busy = f"{type(error).__name__}: {error}", False
                log.exception("counting failed; decisions go on")
                time.sleep(REST)
            if not busy:
                with self.live.changed:
                    if self._going and not self._work():
                        self.live.changed.wait(REST)

    def _work(self) -> bool:
        state = self.live.state
        return state.gate is not None and bool(state.settled(1) or freeze_is_due(state.gate))

    def once(self) -> bool:
        """Do what is due now; say whether there was anything."""
        with self.live.changed:
            if not self.live.started:
                return False
            gate, trees = self.live.state.opened, self.live.state.settled(BLOCK)
        if freeze_is_due(gate):
            self._freeze(gate)
            return True
        abandoned = self._abandon()
        if not trees:
            return abandoned
        broken = next((place for place, tree in enumerate(trees) if not self._judged(tree)), len(trees))
        if broken == 0:
            self._broken(trees[0])
        else:
            self._count(gate, trees[:broken])
        return True

    def _judged(self, tree: LiveEpisode) -> bool:
        """Say whether what an episode contributes is known: it is whole, or counts at its worst."""
        return tree.whole(self.live.problem) or tree.arm == OVERRULED

    def _count(self, gate: GateState, trees: Sequence[LiveEpisode]) -> None:
        """Judge episodes and count them one by one, until something changes what is tested."""
        tested = gate if gate.paused is None else replace(gate, challenges=())  # while it is paused nothing is evidence
        try:
            pieces = {name: self.live.keeper.piece(name) for name in self.worker.call("unknown", tested)}
            judgements: list[EpisodeJudgement] = self.worker.call("judge", trees, tested, pieces)
        except StoreDamaged as error:  # these episodes are counted next, for what they earned alone
            self.live.pause(str(error))
            return
        except ServiceError:
            raise
        except AegisError as error:
            self.live.pause(f"episode {trees[0].number} and following cannot be judged: {error}")
            judgements = [EpisodeJudgement(None, {}) for _ in trees]
        for tree, judgement in zip(trees, judgements, strict=True):
            with self.live.changed:
                now = self.live.state.opened
                if freeze_is_due(now):
                    return  # nothing is put off until a block is through
                if now.challenges and [item.name for item in now.challenges] != [item.name for item in gate.challenges]:
                    return  # something was frozen or given up meanwhile: these judgements do not count now
                counting = {item.name for item in now.counting(tree.number or 0)} if now.paused is None else set()
                evidence = {name: judgement.evidence[name] for name in counting} if tree.arm in TESTED_ARMS else {}
                unit = UnitCounted(tree.number or 0, judgement.reward, tree.arm, evidence)
                events = self.live.after(unit)
                due, audited = is_audit_due(now, unit, events), standing_postponement(now, events)
                if not due:
                    self.live.step(unit, audited=audited)
            if due:
                latest = tree if now.audits(unit) else None
                known, audited = self.worker.call("audit", now, latest, is_decision(events))
                with self.live.changed:
                    if not known or self.live.state.opened is not now or tree.arm != unit.arm:
                        return  # an operator has acted, or a late decision has come: this audit does not count now
                    self.live.step(unit, audited=audited)
            self._counted(tree, unit)

    def _counted(self, tree: LiveEpisode, unit: UnitCounted) -> None:
        """Let the worker know, without holding up decisions: it may have to be started first."""
        self.worker.call("counted", tree, unit)
        if self.live.state.silent >= SILENT:
            self.live.pause(f"no reward has come for {SILENT} episodes")

    def _broken(self, tree: LiveEpisode) -> None:
        """Count an episode that broke off above the innermost level: it is no evidence, and it cannot be left out."""
        if tree.arm != "mixed":  # one of those ends every test that would count it anyway
            self.live.pause(
                f"episode '{tree.id}' was closed before every decision had one below it: what it would have earned is not known"
            )
        unit = UnitCounted(tree.number or 0, None, tree.arm, {})
        self.live.step(unit)
        self._counted(tree, unit)

    def _freeze(self, gate: GateState) -> None:
        """Let challengers be made, and freeze them unless a new phase has begun meanwhile."""
        try:
            deployed = {item.level: self.live.keeper.piece(item.challenge) for item in gate.deployed}
            with self.live.changed:
                changed = dict(self.live.state.changed)
            challengers = self.worker.call("freeze", gate, changed, deployed)
        except StoreDamaged as error:
            self.live.pause(str(error))
            return
        except ServiceError:
            raise
        except AegisError as error:
            self.live.pause(f"no challengers could be made: {error}")
            return
        with self.live.changed:
            now = self.live.state.opened
            if (now.start, now.freeze) != (gate.start, gate.freeze) or not freeze_is_due(now):
                return
            pieces = [(digest, piece) for _, digest, piece in challengers]
            self.live.step([item for item, _, _ in challengers], challengers=lambda names: dict(zip(names, pieces, strict=True)))

    def _abandon(self) -> bool:
        """Close episodes without a request for too long; say whether there were any. One that was open is no evidence.

        The time starts again with this process, since no request could arrive before. A clock that is set closes nothing.
        """
        if self.abandon is None:
            return False
        limit = time.monotonic() - self.abandon
        if self._since > limit:
            return False
        for place in range(BLOCK):
            with self.live.changed:
                tree = self.live.state.quiet(limit)
                if tree is None:
                    return place > 0
                self.live.close(internal_key("abandoned", tree.id), tree.id, abandoned=True, incomplete=not tree.closed)
            time.sleep(YIELD)
        return True
