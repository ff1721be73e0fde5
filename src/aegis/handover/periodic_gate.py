"""Base of gates that judge the log of the present phase every so many episodes, instead of testing frozen challengers.

It runs the plant, checks what it sends, keeps the same events as the challenger gate, and restores a run from its seed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np

from aegis.files import json_digest
from aegis.handover.challenge import GAIN, Challenge, ClaimState
from aegis.handover.events import NOT_A_CERTIFICATE, Event, Flipped, Frozen, Paused, UnitCounted
from aegis.handover.gate import HANDOVER, NO_RESPONSE, fresh_notes
from aegis.handover.gate_settings import GateSettings
from aegis.handover.gate_state import apply_event
from aegis.handover.plant_runner import GateRun, Watch
from aegis.handover.replay import check_complete
from aegis.handover.stream_audit import SILENT, accept_batch, find_policy_mismatch, readable_prefix
from aegis.policies import policy_digest
from aegis.problem import Batch, Policy, concat

WATCH_BLOCK = 64  # episodes that are run before `watch` gets their events


@dataclass(frozen=True, slots=True)
class GateLook:
    """What a gate saw of a level after an episode: the gain it computed, in scaled units, and what it had to reach.

    gain: None if it could not be computed. words: how it came about. units: on how many episodes. bound: what the same numbers
    bound the gain by where a price for their error is subtracted; None where `gain` has paid it. decides: False for a look at
    what was handed over already, which changes nothing.
    """

    episode: int
    level: str
    gain: float | None
    margin: float
    words: str
    units: int = 0
    bound: float | None = None
    decides: bool = True


@dataclass(slots=True)
class PeriodicGate(GateRun):
    """A run of such a gate; its settings have a `delta`, a `stride` of episodes between two looks, and `levels`.

    looks: what was computed at every look.
    """

    name: ClassVar[str]
    looks: list[GateLook] = field(default_factory=list, init=False)
    last_look: int = field(default=0, init=False)
    _unwatched: list[Event] = field(default_factory=list, init=False, repr=False)

    def _opening(self) -> tuple[GateSettings, str]:
        name = self.name if self.certificate else f"{self.name} ({NOT_A_CERTIFICATE})"
        about = f"{name} gate, host {self.host.name}, settings {json_digest(self.settings.plain())[:16]}"
        return GateSettings(delta=self.settings.delta, levels=self.settings.levels, generations=1, upgrades=False), about

    @property
    def open_levels(self) -> tuple[str, ...]:
        """Return the levels that may still be handed over, innermost first."""
        return tuple(name for name in self.state.levels if self.state.at(name) is None)

    @property
    def looks_go_on(self) -> bool:
        """Return whether there is anything to look at: a level that may still be handed over."""
        return bool(self.open_levels)

    # ---- going on ----------------------------------------------------------------------------------------------------------

    def advance(self, episodes: int, watch: Watch | None = None) -> None:
        """Run until so many episodes have closed. watch: gets the events of every block, to keep or to show.

        A look is taken when it is clear that the run goes on after it.
        """
        while self.state.episode < episodes:
            events, self._unwatched = self._unwatched, []
            events += self._look_if_due()
            now = self.state.episode
            stop = min(episodes, now - now % WATCH_BLOCK + WATCH_BLOCK, now - now % self.settings.stride + self.settings.stride)
            events += self._block(stop)
            if watch is not None:
                watch(events)

    def _look_if_due(self) -> list[Event]:
        now = self.state.episode
        if now % self.settings.stride or now == self.last_look or not self.looks_go_on or self.state.paused is not None:
            return []
        before, self.last_look = len(self.events), now
        audited = self._audit.asked(before=self.state.put_off) if self.certificate else NO_RESPONSE
        for note in fresh_notes(self.state, audited):
            self._happened(note)
        instead = audited.instead
        if instead is None:
            self._look()
        elif self.state.put_off is None or instead.code != self.state.put_off.code:
            self._happened(replace(instead, episode=now))
        return self.events[before:]

    @abstractmethod
    def _look(self) -> None:
        """Look at the log of the present phase, and flip what is to be flipped."""

    @abstractmethod
    def _in_control(self, episode: int) -> tuple[Policy, int | None]:
        """Return who acts after `episode` closed episodes, and up to which episode; None if until the next look."""

    def _block(self, stop: int) -> list[Event]:
        before = len(self.events)
        while self.state.episode < stop:
            first = self.state.episode
            policy, last = self._in_control(first)
            count = (stop if last is None else min(stop, last)) - first
            sent = accept_batch(self.plant.episodes(first, count, policy, self.seed), first, count)
            batch, rewards, failure = readable_prefix(sent, lambda part, first=first: self._earned(part, first))  # type: ignore[misc]
            otherwise = find_policy_mismatch(policy, batch) if self.state.paused is None else None
            self._keep(batch, ["agent"] * len(batch), rewards)
            for place, reward in enumerate(rewards.tolist()):
                if otherwise is not None and otherwise[0] == place:
                    self._pause(otherwise[1])
                audited = self.state.audited
                self._happened(UnitCounted(first + place + 1, None if np.isnan(reward) else reward))
                if self.certificate and self.state.audited > audited:
                    self._audit.add(batch, place)
                self._silent = self._silent + 1 if np.isnan(reward) else 0
                if self._silent == SILENT:
                    self._pause(f"no reward has come for {SILENT} episodes")
            if failure is not None:
                raise failure
        return self.events[before:]

    def _pause(self, why: str) -> None:
        """Stop looking, for good: the policies in control stay, and nothing more is handed over."""
        if self.state.paused is None:
            self._happened(Paused(self.state.episode, why))

    def _episodes(self, first: int, stop: int) -> Batch:
        """Return closed episodes from `first` up to, not including, `stop`, counted from 0."""
        start, place = len(self.arms), len(self.batches)
        while place and start > first:  # from the end, since mostly the latest are wanted
            place -= 1
            start -= len(self.batches[place])
        whole = concat(list(self.batches[place:]))
        self.batches = (*self.batches[:place], whole)
        return whole.take_episodes(np.arange(first - start, stop - start))

    def _happened(self, event: Event) -> None:
        self.state = apply_event(self.state, event)
        self.events.append(event)

    def _tried(self, policies: Mapping[str, Policy], risk: float) -> None:
        """Say which policies are looked at, by level, and at which risk each."""
        freeze, now, since = self.state.freeze + 1, self.state.episode, self.state.start + 1
        # What a look computes is kept in `looks`: the claim has no tests of its own that units would be added to.
        claims = (ClaimState(GAIN, 0.0, risk, -1.0, 1.0, ()),)
        challenges = tuple(
            Challenge(
                name=self._challenge(level),
                freeze=freeze,
                level=level,
                kind=HANDOVER,
                policy=policy_digest(policy),
                since=since,
                cap=math.inf,
                claims=claims,
            )
            for level, policy in policies.items()
        )
        self._happened(Frozen(freeze, now, since, challenges))

    def _flip(self, level: str, policy: Policy, gain: float, units: int) -> None:
        """Hand a level over to a policy that was looked at, for good."""
        now, challenge = self.state.episode, self._challenge(level)
        digest, certified = policy_digest(policy), self.certificate
        self._happened(Flipped(level, challenge, HANDOVER, None, digest, now, now + 1, units, gain, 0.0, certified))
        self.deployed[level] = policy
        self._audit.start(self.state.phases)

    def _challenge(self, level: str) -> str:
        return f"{self.name}-{level}"

    # ---- restoring ---------------------------------------------------------------------------------------------------------

    def restore(self, events: Iterable[Event]) -> None:
        """Take up a run from its events, by running it again; see `GateRun`."""
        recorded = list(events)
        self._check_opening(recorded)
        self.advance(sum(isinstance(event, UnitCounted) for event in recorded))
        if len(self.events) < len(recorded):
            self._look_if_due()
        check_complete(recorded, self.events)
        self._unwatched = self.events[len(recorded) :]
