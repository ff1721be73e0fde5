"""The slow part of a live gate: what episodes say about challengers, and new challengers. It runs in a process of its own."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aegis.certificate.comparator import Comparator
from aegis.handover import Challenger, GateState, History, Host, Proposed
from aegis.handover.acting import AGENT, acting_policy
from aegis.handover.challenge import Logs
from aegis.handover.events import Unit
from aegis.handover.freezing import challengers_of
from aegis.handover.gate import UNASKED, Audited
from aegis.handover.history import joined
from aegis.handover.keeping import keep, kept_policy, taken_up
from aegis.handover.run import episode_rewards
from aegis.handover.stream_audit import StreamAudit
from aegis.problem import Batch, Policy, Problem
from aegis.service.problems import known_legacy, legacy_columns, legacy_of
from aegis.service.trees import Tree, batch_of

Evidence = dict[str, dict[str, tuple[Logs, ...]]]  # by challenge and claim


@dataclass(slots=True)
class Judged:
    """What an episode says: its scaled mean reward, None if it is missing, and its evidence for every challenge asked about."""

    reward: float | None
    evidence: Evidence


@dataclass(slots=True)
class Workshop:
    """Holds what has been counted, and the challengers that are being tested. `fetch` gets a kept challenger by name."""

    problem: Problem
    host: Host
    seed: int
    batches: tuple[Batch, ...] = field(default=(), init=False)
    arms: list[str] = field(default_factory=list, init=False)
    columns: dict[str, tuple[str, ...]] = field(init=False)
    legacy: Policy = field(init=False)
    _challengers: dict[str, Challenger] = field(default_factory=dict, init=False)
    _unjoined: list[Tree] = field(default_factory=list, init=False)
    _audit: StreamAudit = field(init=False)
    _unaudited: list[Tree] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self._audit = StreamAudit(self.problem)
        self.columns = {} if known_legacy(self.problem) else legacy_columns(self.problem)
        self.legacy = legacy_of(self.problem)

    def counted(self, tree: Tree, unit: Unit) -> None:
        """Take up an episode that was counted. One that is not whole cannot be learned from, but keeps its place."""
        if len(self.arms) >= unit.episode:
            return  # told twice
        self.arms.append(tree.arm if tree.whole(self.problem) else "broken")
        if tree.whole(self.problem):
            self._unjoined.append(tree)
        if tree.whole(self.problem) and tree.arm == AGENT:
            self._unaudited.append(tree)

    def audit(self, state: GateState, tree: Tree | None, deciding: bool) -> tuple[bool, Audited]:
        """Return whether all units are known here that are evidence in a state, and what their audit asks for.

        tree: the next unit, which is audited with them. deciding: something is to be decided by them.
        """
        if self._audit.segment != state.phases:
            self._audit.start(state.phases)
        fresh = [item for item in self._unaudited if (item.number or 0) > state.start]
        self._unaudited.clear()
        if fresh:
            batch = batch_of(self.problem, fresh, self.columns)
            for place in range(len(fresh)):
                self._audit.add(batch, place)
        if self._audit.episodes != state.audited:
            return False, UNASKED
        latest = None if tree is None else batch_of(self.problem, [tree], self.columns)
        return True, self._audit.asked(latest, 0, deciding, state.put_off)

    def judge(self, trees: Sequence[Tree], state: GateState, kept: Mapping[str, bytes]) -> list[Judged]:
        """Return what whole episodes say, in their order, about the challenges of `state` that count the last of them."""
        batch = batch_of(self.problem, trees, self.columns)
        rewards = episode_rewards(self.problem, batch)
        last = max(tree.number or 0 for tree in trees)
        known: dict[tuple[str, bool], Batch] = {}
        found = {item.name: self._challenger(item.name, state, kept).evidence(batch, known) for item in state.counting(last)}
        self._challengers = {name: item for name, item in self._challengers.items() if name in found}
        return [
            Judged(
                None if math.isnan(rewards[place]) else float(rewards[place]),
                {name: units[place] for name, units in found.items()},
            )
            for place in range(len(trees))
        ]

    def unknown(self, state: GateState) -> list[str]:
        """Return the challenges of a state whose challengers have to be sent along."""
        return [item.name for item in state.challenges if item.name not in self._challengers]

    def freeze(
        self, state: GateState, changed: Mapping[str, int], deployed: Mapping[str, bytes]
    ) -> list[tuple[Proposed, str, bytes]]:
        """Return new challengers: what the gate is told, the digest of the policy, and the challenger as one piece.

        deployed: kept challengers in control, by level.
        """
        policies = {level: kept_policy(piece, self.problem) for level, piece in deployed.items()}
        acting = acting_policy(self.problem, self.legacy, policies)
        if self._unjoined:
            self.batches = joined([*self.batches, batch_of(self.problem, self._unjoined, self.columns)])
            self._unjoined.clear()
        # Episodes that are not whole have no rows: places are counted among those that have.
        whole = [arm for arm in self.arms if arm != "broken"]
        start = sum(arm != "broken" for arm in self.arms[: state.start])
        history = History(
            problem=self.problem,
            legacy=self.legacy,
            acting=acting,
            batches=self.batches,
            arms=tuple(whole),
            start=start,
            everywhere=not self.columns,
            comparator=Comparator.of(self.problem),
        )
        made = challengers_of(self.host, history, state, changed, self.seed)
        return [(item.proposed, item.digest, keep(item)) for item in made]

    def _challenger(self, name: str, state: GateState, kept: Mapping[str, bytes]) -> Challenger:
        if name not in self._challengers:
            self._challengers[name] = taken_up(kept[name], self.problem, state.challenge(name))
        return self._challengers[name]
