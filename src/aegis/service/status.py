"""The status of a live gate as plain data: who controls what and why, what happens next, changes of control, paths of bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from aegis.errors import RefusedError
from aegis.handover import (
    GAIN,
    Alarm,
    AuditNote,
    Challenge,
    ChallengeCertified,
    Event,
    Flipped,
    Frozen,
    GateOpened,
    GateState,
    OperatorAction,
    Paused,
    Postponed,
    Restarted,
    Reverted,
    UnitCounted,
    event_in_reward_units,
    legacy_change_warnings,
    risk_promise,
)
from aegis.handover import event_to_plain as event_plain
from aegis.ope import Measure, reward_measure
from aegis.policies import stated_levels
from aegis.report import LevelStanding, challenge_bound, challenge_evidence, leading_challenge, level_standings
from aegis.service.gate_problem import comparators_by_level
from aegis.service.live_episodes import LiveEpisode
from aegis.service.live_gate import LiveGate
from aegis.service.store.journal import JournalRecord

MOST_CHANGES = 200  # changes that are kept to be drawn; the journal has all of them


@dataclass(slots=True)
class ControlChanges:
    """Follows the events of a gate.

    kept: flips, levels given back and restarts, as plain data; where an operator wanted them, with `who` and `said`. alarm: the
    last one, until an operator gives a level back or resumes a paused gate. That is never done by the gate itself, so an alarm
    cannot pass unseen.
    """

    kept: list[dict[str, Any]] = field(default_factory=list)
    alarm: dict[str, Any] | None = None
    _held: dict[str, dict[str, Any]] = field(default_factory=dict)  # by level, since when and why who controls it does
    _said: OperatorAction | None = None

    def told(self, event: Event, shown: Mapping[str, Any]) -> None:
        """Go on by an event; shown: the same as plain data, in units of the reward."""
        if isinstance(event, OperatorAction):
            self._said = event  # what it leads to follows at once, in the same step
            return
        said = {} if self._said is None else {"who": self._said.who, "said": self._said.why}
        self._said = None
        if isinstance(event, Alarm):
            self.alarm = dict(shown)
        if isinstance(event, Reverted | Restarted):
            self.alarm = None
        if isinstance(event, Flipped | Reverted | Restarted):
            found = {**shown, **said}
            self.kept = [*self.kept[-MOST_CHANGES + 1 :], found]
            if not isinstance(event, Restarted):
                self._control(event, found)

    def _control(self, event: Flipped | Reverted, found: dict[str, Any]) -> None:
        before = self._held.get(event.level)
        upgraded = isinstance(event, Flipped) and event.action == "upgrade" and before is not None
        since = before["since"] if upgraded and before is not None else {"episode": event.since, "at": found["at"]}
        self._held[event.level] = {"since": since, "last": found}

    def held(self, level: str) -> dict[str, Any] | None:
        """Return since when a level is in the hands it is in, and the change that led to it; None if it never changed hands."""
        return self._held.get(level)


MOST_POINTS = 240  # points that are kept of a path; beyond it every other one is dropped


@dataclass(slots=True)
class GatePaths:
    """bounds: by level, points (episode, bound of the leading challenge, margin) in units of the reward. rewards: means of blocks
    (first episode, last, mean, who acted)."""

    measure: Measure
    bounds: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)
    rewards: list[tuple[int, int, float, str]] = field(default_factory=list)
    _every: int = 1
    _block: list[float] = field(default_factory=list)
    _size: int = 8
    _who: str = "legacy"
    _first: int = 1

    def unit(self, state: GateState, unit: UnitCounted, who: str) -> None:
        """Go on by a unit; state: after it. who: acted in it, which may be somebody else than who is in control by now."""
        if unit.episode % self._every == 0:
            for level in state.levels:
                ahead = leading_challenge(state, level, self.measure)
                if ahead is not None:
                    margin = self.measure.gain(ahead[0].claim(GAIN).margin)
                    self.bounds.setdefault(level, []).append((unit.episode, ahead[1], margin))
            if max((len(path) for path in self.bounds.values()), default=0) > MOST_POINTS:
                self.bounds = {level: path[::2] for level, path in self.bounds.items()}
                self._every *= 2
        if who != self._who or len(self._block) >= self._size:
            self._close(unit.episode - 1)
            self._who, self._first = who, unit.episode
        if unit.reward is not None:
            self._block.append(unit.reward)

    def changed(self, event: Flipped | Reverted) -> None:
        """Take note that who acts has changed: what comes now is a block of its own."""
        self._close(event.episode)
        self._first = event.episode + 1

    def _close(self, last: int) -> None:
        if self._block:
            mean = self.measure.value(sum(self._block) / len(self._block))
            self.rewards.append((self._first, last, mean, self._who))
        self._block = []
        if len(self.rewards) > MOST_POINTS:
            self.rewards = _halved(self.rewards)
            self._size *= 2

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "bounds": {level: [list(point) for point in path] for level, path in self.bounds.items()},
            "rewards": [list(block) for block in self.rewards],
        }


def _halved(blocks: list[tuple[int, int, float, str]]) -> list[tuple[int, int, float, str]]:
    """Return blocks with neighbours of the same actor joined, two at a time."""
    found: list[tuple[int, int, float, str]] = []
    place = 0
    while place < len(blocks):
        one = blocks[place]
        two = blocks[place + 1] if place + 1 < len(blocks) else None
        if two is None or two[3] != one[3]:
            found.append(one)
            place += 1
            continue
        sizes = one[1] - one[0] + 1, two[1] - two[0] + 1
        found.append((one[0], two[1], (one[2] * sizes[0] + two[2] * sizes[1]) / sum(sizes), one[3]))
        place += 2
    return found


MOST_EVENTS = 500  # that are kept to be shown; the journal has all of them

BEFORE, NOW = "the policy in control before it", "the policy in control now"  # with which an upgrade is compared

MOST_SHOWN = 60  # events and freezes that a page is sent


@dataclass(slots=True)
class GateStatus:
    """Follows a live gate from its start. A reader holds `live.changed`."""

    live: LiveGate
    measure: Measure = field(init=False)
    paths: GatePaths = field(init=False)
    events: list[dict[str, Any]] = field(default_factory=list, init=False)
    certificates: list[dict[str, Any]] = field(default_factory=list, init=False)
    ledger: list[dict[str, Any]] = field(default_factory=list, init=False)
    earned: dict[str, list[float]] = field(default_factory=dict, init=False)  # by `Tree.who`: sum of rewards, episodes
    overruled: int = field(default=0, init=False)
    aborted: int = field(default=0, init=False)  # episodes that were counted and not whole: cut off, or with rewards missing
    changes: ControlChanges = field(default_factory=ControlChanges, init=False)

    def __post_init__(self) -> None:
        self.measure = reward_measure(self.live.problem)
        self.paths = GatePaths(self.measure)
        self.live.state.told = self._told
        self.live.state.counted = self._counted

    @property
    def comparators(self) -> dict[str, str]:
        """Return by level, in words, who a challenger of the legacy is compared with."""
        return comparators_by_level(self.live.problem, self.live.state.opened.moving)

    # ---- following ---------------------------------------------------------------------------------------------------------

    def _counted(self, tree: LiveEpisode, unit: UnitCounted) -> None:
        who = tree.who()
        self.paths.unit(self.live.state.opened, unit, who)
        self.overruled += sum(item.overruled for item in tree.decisions.values())
        broken = not tree.whole(self.live.problem) or any(item.reward is None for item in tree.results.values())
        self.aborted += tree.cut or broken
        if unit.reward is not None:
            total, count = self.earned.get(who, [0.0, 0])
            self.earned[who] = [total + unit.reward, count + 1]

    def _told(self, event: Event, record: JournalRecord) -> None:
        if isinstance(event, UnitCounted | GateOpened):
            return
        shown = {"seq": record.seq, "at": record.at, **event_in_reward_units(event, self.measure), **self._over(event)}
        self.events = [*self.events[-MOST_EVENTS + 1 :], shown]
        self.changes.told(event, shown)
        if isinstance(event, Flipped | Reverted):
            self.paths.changed(event)
        if isinstance(event, Flipped):
            self.certificates.append({**shown, "delta": self.live.state.opened.settings.delta})
        if isinstance(event, Frozen):
            spent = sum(item.spent for item in event.challenges)
            names = [item.name for item in event.challenges]
            found = {"at": record.at, "freeze": event.freeze, "episode": event.episode, "spent": spent, "what": names}
            self.ledger.append({**found, "caps": _caps(event)})

    def _over(self, event: Event) -> dict[str, str]:
        """Return over whom a certified gain is, beside its event."""
        if not isinstance(event, ChallengeCertified | Flipped):
            return {}
        kind = event.action if isinstance(event, Flipped) else self._kind(event)
        return {"comparator": BEFORE if kind == "upgrade" else self.comparators[event.level]}

    def _kind(self, event: ChallengeCertified) -> str:
        """Return whether what was certified is a handover or an upgrade."""
        return "handover" if self.live.state.opened.at(event.level) is None else "upgrade"

    # ---- reading -----------------------------------------------------------------------------------------------------------

    def gate(self) -> dict[str, Any]:
        """Return everything a page about the gate shows."""
        state, live = self.live.state.opened, self.live.state
        waiting, holding = live.waiting(), live.holding()
        return {
            "gate": self.live.name,
            "mode": state.settings.mode,
            "paused": state.paused,
            "alarms": state.alarms,
            "alarm": self.changes.alarm,
            "unit": self.measure.unit,
            "goal": self.live.problem.reward.goal,
            "episodes": {
                "started": live.started,
                "counted": state.episode,
                "open": len(live.trees) - waiting,
                "waiting": waiting,
                "holding": None if holding is None else asdict(holding),
                "overruled": self.overruled,
                "aborted": self.aborted,
            },
            "audit": {
                "refused": [_finding(item) for item in state.refusals],
                "doubted": [item.level for item in state.deployed if item.doubted],
                "put_off": None if state.put_off is None else _finding(state.put_off),
                "noted": [_finding(item) for item in state.notes],
                "moved": legacy_change_warnings(state, stated_levels(self.live.problem)),
                "audited": state.audited,
            },
            "gates": {**self.live.count.plain(), "words": self.live.count.words},
            "promise": risk_promise(state, self.live.count.number > 1) if state.deployed else "",
            "next_freeze": state.next_freeze if state.paused is None else None,
            "levels": self.levels(),
            "never": [name for name in self.live.problem.names if name not in state.levels],
            "leaves": {name: getattr(state.settings, name) for name in ("floor", "holdback", "share", "stage")},
            "changes": self.changes.kept,
            "ledger": {
                "delta": state.settings.delta,
                "spent": state.spent,
                "freezes": state.freeze,
                "entries": self.ledger[-MOST_SHOWN:],
            },
            "earned": {
                who: {"mean": self.measure.value(total / count), "episodes": count} for who, (total, count) in self.earned.items()
            },
            "monitor": self._monitor(state),
            "paths": self.paths.plain(),
            "events": [_without_infinities(item) for item in self.events if item["kind"] not in ("frozen",)][-MOST_SHOWN:],
        }

    def levels(self) -> list[dict[str, Any]]:
        """Return every level, outermost first: who controls it, and who challenges that."""
        state = self.live.state.opened
        return [self._level(state, item) for item in reversed(level_standings(state, self.measure))]

    def _level(self, state: GateState, item: LevelStanding) -> dict[str, Any]:
        held = state.at(item.level)
        waiting = next((found for found in state.waiting if found.level == item.level), None)
        found = {
            "level": item.level,
            "control": item.control,
            "since": item.since,
            "version": "legacy" if held is None else held.challenge,
            "comparator": self.comparators[item.level],
            "cap": None if held is None else held.cap,
            "gain_lower": item.gain_lower,
            "held": self.changes.held(item.level),
            "waiting": None
            if waiting is None
            else {"challenge": waiting.challenge, "episode": waiting.episode, "why": waiting.why},
            "leading": None if item.leading is None else _without_infinities(asdict(item.leading)),
            "challengers": [self._challenger(one) for one in state.challenges if one.level == item.level],
        }
        found["next"] = self._next(state, found)
        return found

    def _challenger(self, item: Challenge) -> dict[str, Any]:
        evidence = challenge_evidence(item) if item.units else None
        try:
            bound = challenge_bound(item, self.measure) if item.units else None
        except RefusedError:
            bound = None
        return _without_infinities(
            {
                "challenge": item.name,
                "kind": item.kind,
                "comparator": NOW if item.kind == "upgrade" else self.comparators[item.level],
                "cap": item.cap,
                "since": item.since,
                "units": item.units,
                "bound": bound,
                "margin": self.measure.gain(item.claim(GAIN).margin),
                "evidence": None if evidence is None else evidence.share,
                "certified": item.crossed is not None,
            }
        )

    def _next(self, state: GateState, level: dict[str, Any]) -> str:
        """Return in a sentence what happens next at a level."""
        if state.paused is not None:
            return "Nothing is tested while the gate is paused. An operator resumes it."
        if state.put_off is not None:
            return (
                "What would be decided is put off: there is some evidence against what the gate counts, and more episodes will "
                f"tell ({state.put_off.code})."
            )
        over = NOW if level["control"] == "agent" else level["comparator"]
        if level["waiting"] is not None:
            asks = "An operator has to approve it." if state.settings.mode == "approve" else "In shadow it is not carried out."
            return f"A policy better than {over} is certified. {asks}"
        if level["control"] == "agent" and not state.settings.upgrades:
            return "The policy stays in control. This gate tests no other policies at a level that was handed over."
        lead = level["leading"]
        if lead is None:
            return f"Challengers are made and frozen after episode {state.next_freeze}; then they are tested."
        if lead["certified"]:
            return f"A policy better than {over} is certified; the gate waits a little for a larger step."
        if lead["further"] is None:
            return "The evidence does not speak for a challenger yet."
        further = max(lead["further"], 1)
        return f"About {further} more episode{'s' if further > 1 else ''} until a policy is certified, if it goes on like this."

    def _monitor(self, state: GateState) -> dict[str, Any] | None:
        if state.monitor is None:
            return None
        return _without_infinities(
            {
                "floor": self.measure.value(state.monitor.floor),
                "evidence": state.monitor.evidence,
                "threshold": 1.0 / state.settings.alarm,
                "episodes": state.monitor.count,
            }
        )


def _finding(item: Paused | Postponed | AuditNote) -> dict[str, Any]:
    """Return what the audit found, as plain data."""
    return {name: value for name, value in event_plain(item).items() if name != "kind"}


def _caps(event: Frozen) -> dict[str, list[float | None]]:
    """Return the caps of what was frozen, by level; None for no cap."""
    found: dict[str, list[float | None]] = {}
    for item in event.challenges:
        found.setdefault(item.level, []).append(None if math.isinf(item.cap) else item.cap)
    return found


def _without_infinities(found: dict[str, Any]) -> dict[str, Any]:
    """Return plain data without infinities, which JSON has not."""

    def one(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return _without_infinities(value) if isinstance(value, dict) else value

    return {name: one(value) for name, value in found.items()}
