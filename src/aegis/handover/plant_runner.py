"""The gate on a plant: legacy and challengers act, episodes close, levels are handed over.

Episodes are run in blocks and counted one by one. If a level flips within a block, or a pause ends the exploration there, the
rest of the block is run again.
Every number depends on the seed and on what came before, so that a run can be restored from its events.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from aegis.errors import InputError, PolicyError
from aegis.files import json_digest
from aegis.handover.challenge import Logs
from aegis.handover.challenger import Challenger, code_sources, freeze_challengers
from aegis.handover.events import (
    AGENT,
    BEFORE,
    LEGACY,
    ChallengeCertified,
    Event,
    Flipped,
    Frozen,
    OperatorAction,
    Paused,
    Restarted,
    Reverted,
    UnitCounted,
)
from aegis.handover.exploration import check_exploration, explored_legacy, with_explored_incumbent
from aegis.handover.gate import NO_RESPONSE, is_decision, step
from aegis.handover.gate_settings import GateSettings, check_margins
from aegis.handover.gate_state import GateState
from aegis.handover.hosts.base import Host
from aegis.handover.replay import check_same, open_gate
from aegis.handover.risk_budget import GateCount
from aegis.handover.run_history import History, join_batches, scaled_episode_rewards
from aegis.handover.schedule import acting_policy, draw_arm, freeze_is_due, next_freeze, previous_policy
from aegis.handover.stream_audit import (
    SILENT,
    ArrivalCheck,
    StreamAudit,
    accept_batch,
    find_policy_mismatch,
    is_audit_due,
    readable_prefix,
    standing_postponement,
)
from aegis.ope import Comparator
from aegis.policies import Legacy, known_incumbent
from aegis.problem import Array, Batch, Plant, Policy, Problem, concat, dump_problem

RUN_BLOCK = 64  # episodes that are run at a time

Watch = Callable[[Sequence[Event]], None]

BlockEvidence = dict[str, list[dict[str, tuple[Logs, ...]]]]  # by challenge, of each episode


@dataclass(slots=True)
class GateRun(ABC):
    """A run of a gate on a plant: `advance` it, or `restore` it from its events and go on.

    certificate: whether what it hands over is certified to be no worse. comparator: the incumbent of each level, as the plant's
    problem states it, else the legacy without its exploration. events: everything that happened. batches, arms, rewards: the
    closed episodes, who acted in each, and their scaled mean rewards (nan where they are missing). deployed: policies by level.
    counted: which gate of its plant it is, None if it is not written down (`aegis.handover.risk_budget`).
    """

    certificate: ClassVar[bool] = True
    plant: Plant
    legacy: Policy
    host: Host
    settings: Any
    seed: int
    comparator: Comparator = field(init=False)
    state: GateState = field(init=False)
    events: list[Event] = field(default_factory=list, init=False)
    batches: tuple[Batch, ...] = field(default=(), init=False)
    arms: list[str] = field(default_factory=list, init=False)
    rewards: list[float] = field(default_factory=list, init=False)
    deployed: dict[str, Policy] = field(default_factory=dict, init=False)
    counted: GateCount | None = field(default=None, init=False)
    _silent: int = field(default=0, init=False, repr=False)
    _arrivals: ArrivalCheck = field(init=False, repr=False)
    _audit: StreamAudit = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.comparator = Comparator.of(self.compared)
        self._audit = StreamAudit(self.problem)
        self._arrivals = ArrivalCheck(self.problem)
        settings, about = self._opening()
        self.state, opened = open_gate(settings, tuple(reversed(self.problem.names)), about)
        self.events.append(opened)

    @property
    def problem(self) -> Problem:
        """Return the plant's problem."""
        return self.plant.problem

    @property
    def compared(self) -> Problem:
        """Return the problem with the incumbents that challengers are compared with."""
        return known_incumbent(self.problem, self.legacy)

    @property
    @abstractmethod
    def acting(self) -> Policy:
        """Return the policy in control now."""

    @property
    def history(self) -> History:
        """Return the episodes so far."""
        arms, start = tuple(self.arms), self.state.start
        return History(self.problem, self.legacy, self.acting, self.batches, arms, start, comparator=self.comparator)

    @abstractmethod
    def advance(self, episodes: int, watch: Watch | None = None) -> None:
        """Run until so many episodes have closed. watch: gets the events of every block, to keep or to show."""

    @abstractmethod
    def restore(self, events: Iterable[Event]) -> None:
        """Take up a run from its events by running it again.

        Raises InputError if the events are of another run, PolicyError, naming the line, if the run comes out differently.
        """

    @abstractmethod
    def _opening(self) -> tuple[GateSettings, str]:
        """Return the settings that the gate is opened with, and what its problem is known by."""

    def _check_opening(self, events: Sequence[Event]) -> None:
        if not events or events[0] != self.events[0]:
            raise InputError(
                "these events are of a gate with other settings, levels, host or problem; give those it was opened with"
            )

    def _earned(self, batch: Batch, first: int) -> Array:
        """Return the rewards of the episodes after the first ones; an AegisError if they cannot be believed."""
        self._arrivals.check(batch, first)
        return scaled_episode_rewards(self.problem, batch)

    def _keep(self, batch: Batch, arms: Sequence[str], rewards: Array) -> None:
        self._arrivals.take(batch)
        self.batches = join_batches([*self.batches, batch]) if len(batch) > 1 else (*self.batches, batch)
        self.arms += arms
        self.rewards += rewards.tolist()


@dataclass(slots=True)
class Handover(GateRun):
    """A run of the challenger gate.

    challengers: of open challenges, by name. retired: policies that acted before the last flip, by level. collecting: the legacy
    as it acts while data are collected, with the exploration of the last freeze; the legacy itself if there is none.
    """

    settings: GateSettings
    challengers: dict[str, Challenger] = field(default_factory=dict, init=False)
    retired: dict[str, Policy] = field(default_factory=dict, init=False)
    collecting: Policy = field(init=False, repr=False)
    _changed: dict[str, int] = field(default_factory=dict, init=False, repr=False)  # flips since the legacy had a level last
    _winners: dict[str, Challenger] = field(default_factory=dict, init=False, repr=False)  # in control, by level

    def __post_init__(self) -> None:
        if self.settings.explore:
            check_exploration(self.problem, self.legacy, self.host)
        super(Handover, self).__post_init__()
        self.collecting = self.legacy
        if self.settings.explore:
            self._audit = StreamAudit(self.compared, explores=True)

    def _opening(self) -> tuple[GateSettings, str]:
        check_margins(self.problem)
        return self.settings, json_digest(dump_problem(self.problem))

    @property
    def compared(self) -> Problem:
        """Return the problem with the incumbents that challengers are compared with: the legacy without any exploration."""
        if self.settings.explore and isinstance(self.legacy, Legacy):
            return with_explored_incumbent(self.problem, self.legacy, self.settings.explore)
        return known_incumbent(self.problem, self.legacy)

    @property
    def acting(self) -> Policy:
        """Return who is in control now: deployed policies at their levels, elsewhere the legacy, without the host's plan."""
        return acting_policy(self.problem, self.legacy, self.deployed)

    # ---- going on ----------------------------------------------------------------------------------------------------------

    def advance(self, episodes: int, watch: Watch | None = None) -> None:
        """Run until so many episodes have closed. watch: gets the events of every block, to keep or to show."""
        while self.state.episode < episodes:
            events: list[Event] = []
            if freeze_is_due(self.state):
                events += self._freeze()
            events += self._block(min(episodes, self._most))
            if watch is not None:
                watch(events)

    @property
    def _most(self) -> int:
        """Return the last episode of the block that begins now: blocks end at multiples of BLOCK and at freezes."""
        stop = self.state.episode - self.state.episode % RUN_BLOCK + RUN_BLOCK
        return stop if self.state.paused is not None else min(stop, next_freeze(self.state))

    def say(self, action: OperatorAction | Paused) -> Sequence[Event]:
        """Do what an operator says, or pause; return what happened. Before anything changes hands the stream is audited."""
        outcome = step(self.state, action)
        audited = self._audit.asked() if is_decision(outcome[1]) else NO_RESPONSE
        return self._take(*(outcome if audited.instead is None else step(self.state, action, audited=audited)))

    def _block(self, stop: int) -> list[Event]:
        self._check_policies()
        first, collecting = self.state.episode, self.collecting
        arms = [draw_arm(self.settings, self.state, self.seed, episode) for episode in range(first + 1, stop + 1)]
        batch, (rewards, evidence), failure = readable_prefix(
            self._run(first, arms), lambda part: self._judged(part, first, stop)
        )
        happened: list[Event] = []
        otherwise = self._acted_otherwise(batch, arms) if self.state.paused is None else None
        if otherwise is not None:
            happened += self.say(Paused(first, otherwise))
            if self.collecting is not collecting:
                return happened  # the block is run again without exploration
            evidence = {}
        try:
            for place, arm in enumerate(arms[: len(batch)]):
                own = {name: units[place] for name, units in evidence.items()} if arm == AGENT else {}
                reward = None if math.isnan(rewards[place]) else float(rewards[place])
                events = self._count(UnitCounted(first + place + 1, reward, arm, own), batch, place)
                happened += events
                self._silent = 0 if reward is not None else self._silent + 1
                if any(isinstance(event, Flipped) for event in events):
                    break  # another policy acts in the rest of the block
                if self._silent == SILENT:
                    happened += self.say(Paused(self.state.episode, f"no reward has come for {SILENT} episodes"))
                if self.collecting is not collecting:
                    break  # the rest of the block is run without exploration
                if self.state.paused is not None:
                    evidence = {}
        finally:  # also if a unit could not be counted: those before it were
            done = self.state.episode - first
            if done:
                self._keep(batch if done == len(batch) else batch.take_episodes(np.arange(done)), arms[:done], rewards[:done])
        if failure is not None and self.state.episode == first + len(batch):
            raise failure
        return happened

    def _judged(self, batch: Batch, first: int, stop: int) -> tuple[Array, BlockEvidence]:
        """Return the rewards of a block's episodes, and what each contributes to every challenge that counts it."""
        rewards = self._earned(batch, first)
        counting = [] if self.state.paused is not None else self.state.counting(stop)
        known: dict[tuple[str, bool], Batch] = {}  # what challengers get to see of the block, the same for all of them
        return rewards, {item.name: self.challengers[item.name].evidence(batch, known) for item in counting}

    def _run(self, first: int, arms: Sequence[str]) -> Batch:
        """Return the episodes after the first ones, each run by the policy of its arm."""
        batches = []
        for arm, place, count in _stretches(arms):
            batch = self.plant.episodes(first + place, count, self._policy(arm), self.seed)
            batches.append(accept_batch(batch, first + place, count))
        return batches[0] if len(batches) == 1 else concat(batches)

    def _acted_otherwise(self, batch: Batch, arms: Sequence[str]) -> str | None:
        """Return how what is logged differs from what the policy that was asked to act would do; None if it does not."""
        for arm, place, count in _stretches(arms[: len(batch)]):
            own = batch if count == len(batch) else batch.take_episodes(np.arange(place, place + count))
            mismatch = find_policy_mismatch(self._policy(arm), own)
            if mismatch is not None:
                return mismatch[1]
        return None

    def _check_policies(self) -> None:
        """Raise PolicyError if a policy in control, or a challenger that is code, is no longer the one that was frozen."""
        for challenger in self.challengers.values():
            if challenger.seal is not None:
                challenger.check()
        for level, winner in self._winners.items():
            winner.check(self.deployed[level])

    def _policy(self, arm: str) -> Policy:
        if arm == LEGACY:
            return self.legacy
        if arm == BEFORE:
            return previous_policy(self.problem, self.legacy, self.deployed, self.state, self.retired)
        return acting_policy(self.problem, self.collecting, self.deployed)

    # ---- deciding ----------------------------------------------------------------------------------------------------------

    def _count(self, unit: UnitCounted, batch: Batch, place: int) -> tuple[Event, ...]:
        """Count the episode at a place of a batch; audited first if it fills a chunk, or if anything is decided by it."""
        before, outcome = self.state, step(self.state, unit)
        if is_audit_due(before, unit, outcome[1]):
            audited = self._audit.asked(batch if before.audits(unit) else None, place, is_decision(outcome[1]), before.put_off)
        else:
            audited = standing_postponement(before, outcome[1])
        events = self._take(*(outcome if audited == NO_RESPONSE else step(before, unit, audited=audited)))
        if self.state.audited > before.audited:
            self._audit.add(batch, place)
        return events

    def _take(self, state: GateState, events: tuple[Event, ...]) -> tuple[Event, ...]:
        """Go on with a state and the events that lead to it."""
        for event in events:
            if isinstance(event, ChallengeCertified | Flipped):
                self.challengers[event.challenge].check()  # before anything is true
        self.state = state
        self.events += events
        for event in events:
            self._carry_out(event)
        return events

    def _carry_out(self, event: Event) -> None:
        if isinstance(event, Flipped):
            if event.level in self.deployed:
                self.retired[event.level] = self.deployed[event.level]
            self.deployed[event.level] = self.challengers[event.challenge].policy
            self._winners[event.level] = self.challengers[event.challenge]
            self._changed[event.level] = self._changed.get(event.level, 0) + 1
        if isinstance(event, Reverted):
            self.deployed.pop(event.level)
            self._winners.pop(event.level)
            self._changed.pop(event.level, None)
            self.retired.pop(event.level, None)
        if isinstance(event, Flipped | Reverted | Restarted):
            self._audit.start(self.state.phases)
        if isinstance(event, Flipped | Reverted | Restarted) or (isinstance(event, Paused) and event.code is not None):
            self.challengers.clear()
        if isinstance(event, Paused):
            self.collecting = self.legacy

    def _freeze(self) -> list[Event]:
        for challenger in self.challengers.values():
            challenger.check()
        challengers = freeze_challengers(self.host, self.history, self.state, self._changed, self.seed)
        before = {item.name for item in self.state.challenges}
        events = self._take(*step(self.state, [item.proposed for item in challengers]))
        names = [item.name for item in self.state.challenges if item.name not in before]
        self.challengers |= dict(zip(names, challengers, strict=True))
        open_now = {item.name for item in self.state.challenges}
        self.challengers = {name: item for name, item in self.challengers.items() if name in open_now}
        if self.settings.explore:
            levels = [name for name in self.state.levels if self.state.at(name) is None]
            self.collecting = explored_legacy(self.host, self.history, levels, self.settings.explore, self.seed)
        return list(events)

    # ---- restoring ---------------------------------------------------------------------------------------------------------

    def restore(self, events: Iterable[Event]) -> None:
        """Resume a run by replaying its events. Everything except operator actions must match the record.

        Events of the last episode that were not stored are produced again, so that there may be more of them.
        Raises InputError, naming the line, if events are of another run or differ from what comes out.
        """
        recorded = list(events)
        self._check_opening(recorded)
        while len(self.events) < len(recorded):
            place = len(self.events)
            try:
                self._again(recorded, place)
            except PolicyError:
                raise
            except InputError as error:
                raise InputError(f"line {place + 1} of the events: {error}") from error
            check_same(recorded[place:], self.events[place:], place, self._sources())
            if len(self.events) == place:
                raise InputError(f"line {place + 1} of the events: '{recorded[place].kind}' cannot have happened there")

    def _sources(self) -> list[str]:
        """Return the modules, with their files, that challengers are defined in as far as they are code."""
        return sorted({words for item in self.challengers.values() for words in code_sources(item.policy)})

    def _again(self, recorded: Sequence[Event], place: int) -> None:
        """Do once more what led to the event at a place: what was said, a freeze, or the episodes up to the next of these."""
        event = recorded[place]
        if isinstance(event, OperatorAction) or (isinstance(event, Paused) and event.code is None):
            self.say(event)
        elif isinstance(event, Frozen | UnitCounted) and freeze_is_due(self.state):
            self._freeze()
        elif isinstance(event, UnitCounted):
            stop, most = self.state.episode, self._most
            for later in itertools.islice(recorded, place, None):
                if isinstance(later, OperatorAction | Paused | Frozen) or stop == most:
                    break
                stop += isinstance(later, UnitCounted)
            self._block(stop)


def _stretches(arms: Sequence[str]) -> Iterator[tuple[str, int, int]]:
    """Yield the arms of neighbouring episodes with the place of the first of them and how many they are."""
    place = 0
    for arm, group in itertools.groupby(arms):
        count = len(list(group))
        yield arm, place, count
        place += count
