"""The status of a live gate as plain data: who controls what and why, what happens next, changes of control, paths of bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
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
    event_from_plain,
    event_in_reward_units,
    event_to_plain,
    legacy_change_warnings,
    next_freeze,
    risk_promise,
)
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

    history: flips, levels given back and restarts, as plain data; where an operator wanted them, with `who` and `said`. alarm:
    the last one, until an operator gives a level back or resumes a paused gate. That is never done by the gate itself, so an
    alarm cannot pass unseen.
    """

    history: list[dict[str, Any]] = field(default_factory=list)
    alarm: dict[str, Any] | None = None
    _paused: bool = False
    _control: dict[str, dict[str, Any]] = field(default_factory=dict)  # by level, since when it is controlled so, and why
    _operator: OperatorAction | None = None

    def follow(self, event: Event, shown: Mapping[str, Any]) -> None:
        """Follow an event. shown: the same as plain data, in units of the reward."""
        if isinstance(event, OperatorAction):
            self._operator = event  # what it leads to follows at once, in the same step
            return
        reason = {} if self._operator is None else {"who": self._operator.who, "said": self._operator.why}
        self._operator = None
        if isinstance(event, Alarm):
            self.alarm = dict(shown)
        if isinstance(event, Reverted) or (isinstance(event, Restarted) and self._paused):
            self.alarm = None
        if isinstance(event, Paused | Restarted):
            self._paused = isinstance(event, Paused)
        if isinstance(event, Flipped | Reverted | Restarted):
            change = {**shown, **reason}
            self.history = [*self.history[-MOST_CHANGES + 1 :], change]
        if isinstance(event, Flipped | Reverted):
            before = self._control.get(event.level)
            upgraded = isinstance(event, Flipped) and event.action == "upgrade"
            since = before["since"] if upgraded and before is not None else {"episode": event.since, "at": change["at"]}
            self._control[event.level] = {"since": since, "last": change}

    def kept(self) -> dict[str, Any]:
        """Return what was followed as plain data that do not change later."""
        own = {item.name: getattr(self, item.name) for item in fields(self)}
        operator = None if self._operator is None else event_to_plain(self._operator)
        return {**own, "_control": dict(self._control), "_operator": operator}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from what `kept` returned."""
        for item in fields(self):
            setattr(self, item.name, kept[item.name])
        operator = None if kept["_operator"] is None else event_from_plain(kept["_operator"])
        self._operator = operator if isinstance(operator, OperatorAction) else None

    def held(self, level: str) -> dict[str, Any] | None:
        """Return since when a level is controlled as it is now, and the last change; None if there was no change."""
        return self._control.get(level)

    def all_held(self) -> dict[str, dict[str, Any]]:
        """Return the same of every level that has changed hands."""
        return dict(self._control)


MOST_POINTS = 240  # points that are kept of a path; beyond it every other one is dropped


@dataclass(slots=True)
class GatePaths:
    """Paths to be drawn, in units of the reward. rewards: means of blocks (first episode, last, mean, who acted).

    bounds: by level, points (episode, bound of the leading challenge, margin).
    """

    measure: Measure
    bounds: dict[str, list[tuple[int, float, float]]] = field(default_factory=dict)
    rewards: list[tuple[int, int, float, str]] = field(default_factory=list)
    _every: int = 1
    _block: list[float] = field(default_factory=list)
    _size: int = 8
    _who: str = "legacy"
    _first: int = 1

    def unit(self, state: GateState, unit: UnitCounted, who: str) -> None:
        """Follow a unit. state: after it. who: acted in it, which need not be who is in control by now."""
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

    def kept(self) -> dict[str, Any]:
        """Return what was followed as plain data that do not change later."""
        own = {item.name: getattr(self, item.name) for item in fields(self) if item.name != "measure"}
        bounds = {level: list(path) for level, path in self.bounds.items()}
        return {**own, "bounds": bounds, "rewards": list(self.rewards), "_block": list(self._block)}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from what `kept` returned."""
        for item in fields(self):
            if item.name != "measure":
                setattr(self, item.name, kept[item.name])
        self.bounds = {level: [(number, low, high) for number, low, high in path] for level, path in kept["bounds"].items()}
        self.rewards = [(first, last, mean, who) for first, last, mean, who in kept["rewards"]]

    def plain(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "bounds": {level: [list(point) for point in path] for level, path in self.bounds.items()},
            "rewards": [list(block) for block in self.rewards],
        }


def _halved(blocks: list[tuple[int, int, float, str]]) -> list[tuple[int, int, float, str]]:
    """Return blocks with neighbours of the same actor joined, two at a time."""
    joined: list[tuple[int, int, float, str]] = []
    left = list(reversed(blocks))
    while left:
        first, last, mean, who = left.pop()
        if left and left[-1][3] == who:
            second, end, other, _ = left.pop()
            sizes = last - first + 1, end - second + 1
            last, mean = end, (mean * sizes[0] + other * sizes[1]) / sum(sizes)
        joined.append((first, last, mean, who))
    return joined


MOST_EVENTS = 500  # that are kept to be shown; the journal has all of them
BEFORE, NOW = "the policy in control before it", "the policy in control now"  # with which an upgrade is compared
MOST_SHOWN = 60  # events and freezes that a page is sent


@dataclass(slots=True)
class GateStatus:
    """Follows a live gate from its start. A reader holds `live.changed`. followed: events so far, without counted episodes."""

    live: LiveGate
    measure: Measure = field(init=False)
    paths: GatePaths = field(init=False)
    events: list[dict[str, Any]] = field(default_factory=list, init=False)
    certificates: list[dict[str, Any]] = field(default_factory=list, init=False)
    ledger: list[dict[str, Any]] = field(default_factory=list, init=False)
    earned: dict[str, list[float]] = field(default_factory=dict, init=False)  # by `LiveEpisode.who`: sum of rewards, episodes
    overruled: int = field(default=0, init=False)
    followed: int = field(default=0, init=False)
    aborted: int = field(default=0, init=False)  # episodes that were counted and not whole: cut off, or with rewards missing
    changes: ControlChanges = field(default_factory=ControlChanges, init=False)

    def __post_init__(self) -> None:
        self.measure = reward_measure(self.live.problem)
        self.paths = GatePaths(self.measure)
        self.live.state.on_event = self._follow
        self.live.state.on_counted = self._count
        self.live.follower = self

    @property
    def comparators(self) -> dict[str, str]:
        """Return by level, in words, who a challenger of the legacy is compared with."""
        return comparators_by_level(self.live.problem, self.live.state.opened.moving)

    # ---- following ---------------------------------------------------------------------------------------------------------

    def kept(self) -> dict[str, Any]:
        """Return what was followed as plain data that do not change later."""
        return {
            "events": self.events,
            "certificates": list(self.certificates),
            "ledger": list(self.ledger),
            "earned": {who: list(sums) for who, sums in self.earned.items()},
            "overruled": self.overruled,
            "aborted": self.aborted,
            "paths": self.paths.kept(),
            "changes": self.changes.kept(),
        }

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Go on from what `kept` returned."""
        self.events, self.certificates, self.ledger = kept["events"], kept["certificates"], kept["ledger"]
        self.earned, self.overruled, self.aborted = kept["earned"], kept["overruled"], kept["aborted"]
        self.paths.restore(kept["paths"])
        self.changes.restore(kept["changes"])

    def _count(self, tree: LiveEpisode, unit: UnitCounted) -> None:
        who = tree.who()
        self.paths.unit(self.live.state.opened, unit, who)
        self.overruled += sum(item.overruled for item in tree.decisions.values())
        broken = not tree.whole(self.live.problem) or any(item.reward is None for item in tree.results.values())
        self.aborted += tree.cut or broken
        if unit.reward is not None:
            total, count = self.earned.get(who, [0.0, 0])
            self.earned[who] = [total + unit.reward, count + 1]

    def _follow(self, event: Event, record: JournalRecord) -> None:
        if isinstance(event, UnitCounted | GateOpened):
            return
        self.followed += 1
        shown = {"seq": record.seq, "at": record.at, **event_in_reward_units(event, self.measure), **self._over(event)}
        self.events = [*self.events[-MOST_EVENTS + 1 :], shown]
        self.changes.follow(event, shown)
        if isinstance(event, Flipped | Reverted):
            self.paths.changed(event)
        if isinstance(event, Flipped):
            self.certificates.append({**shown, "delta": self.live.state.opened.settings.delta})
        if isinstance(event, Frozen):
            self.ledger.append(
                {
                    "at": record.at,
                    "freeze": event.freeze,
                    "episode": event.episode,
                    "spent": sum(item.spent for item in event.challenges),
                    "what": [item.name for item in event.challenges],
                    "caps": _caps(event),
                }
            )

    def _over(self, event: Event) -> dict[str, str]:
        """Return over whom a certified gain is, beside its event."""
        if not isinstance(event, ChallengeCertified | Flipped):
            return {}
        upgrade = event.action == "upgrade" if isinstance(event, Flipped) else self.live.state.opened.at(event.level) is not None
        return {"comparator": BEFORE if upgrade else self.comparators[event.level]}

    # ---- reading -----------------------------------------------------------------------------------------------------------

    def gate(self) -> dict[str, Any]:
        """Return everything a page about the gate shows."""
        return self.picture()()

    def picture(self) -> Callable[[], dict[str, Any]]:
        """Return a function that returns what a page about the gate as it is now shows. It takes longer, and needs no lock."""
        state, live, levels = self.live.state.opened, self.live.state, self.levels_picture()
        waiting, holding = live.waiting(), live.holding()
        moment = {
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
                "late": state.late,
            },
            "changes": self.changes.history,
            "ledger": {
                "delta": state.settings.delta,
                "spent": state.spent,
                "freezes": state.freeze,
                "entries": self.ledger[-MOST_SHOWN:],
            },
            "earned": {
                who: {"mean": self.measure.value(total / count), "episodes": count} for who, (total, count) in self.earned.items()
            },
            "paths": self.paths.plain(),
        }
        events = self.events
        return lambda: {
            **moment,
            "audit": {
                "refused": [_finding(item) for item in state.refusals],
                "doubted": [item.level for item in state.deployed if item.in_doubt],
                "put_off": None if state.put_off is None else _finding(state.put_off),
                "noted": [_finding(item) for item in state.notes],
                "moved": legacy_change_warnings(state, stated_levels(self.live.problem)),
                "audited": state.audited,
            },
            "gates": {**self.live.count.plain(), "words": self.live.count.words},
            "promise": risk_promise(state, self.live.count.number > 1) if state.deployed else "",
            "next_freeze": next_freeze(state) if state.paused is None else None,
            "levels": levels(),
            "never": [name for name in self.live.problem.names if name not in state.levels],
            "leaves": {name: getattr(state.settings, name) for name in ("floor", "holdback", "share", "stage")},
            "monitor": self._monitor(state),
            "events": [_without_infinities(item) for item in events if item["kind"] not in ("frozen",)][-MOST_SHOWN:],
        }

    def levels(self) -> list[dict[str, Any]]:
        """Return every level, outermost first: who controls it, and who challenges that."""
        return self.levels_picture()()

    def levels_picture(self) -> Callable[[], list[dict[str, Any]]]:
        """Return a function that returns every level as it is now. It takes longer, and needs no lock."""
        state, held = self.live.state.opened, self.changes.all_held()
        return lambda: [self._level(state, held, item) for item in reversed(level_standings(state, self.measure))]

    def _level(self, state: GateState, held: Mapping[str, Any], item: LevelStanding) -> dict[str, Any]:
        deployed = state.at(item.level)
        waiting = next((one for one in state.waiting if one.level == item.level), None)
        level = {
            "level": item.level,
            "control": item.control,
            "since": item.since,
            "version": "legacy" if deployed is None else deployed.challenge,
            "comparator": self.comparators[item.level],
            "cap": None if deployed is None else deployed.cap,
            "gain_lower": item.gain_lower,
            "held": held.get(item.level),
            "waiting": None
            if waiting is None
            else {"challenge": waiting.challenge, "episode": waiting.episode, "why": waiting.why},
            "leading": None if item.leading is None else _without_infinities(asdict(item.leading)),
            "challengers": [self._challenger(one) for one in state.challenges if one.level == item.level],
        }
        return {**level, "next": self._next(state, level)}

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
            return f"Challengers are made and frozen after episode {next_freeze(state)}; then they are tested."
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
    """Return a finding of the audit as plain data."""
    return {name: value for name, value in event_to_plain(item).items() if name != "kind"}


def _caps(event: Frozen) -> dict[str, list[float | None]]:
    """Return the caps of what was frozen, by level; None for no cap."""
    caps: dict[str, list[float | None]] = {}
    for item in event.challenges:
        caps.setdefault(item.level, []).append(None if math.isinf(item.cap) else item.cap)
    return caps


def _without_infinities(plain: dict[str, Any]) -> dict[str, Any]:
    """Return plain data with None for infinities, which JSON lacks."""

    def one(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return _without_infinities(value) if isinstance(value, dict) else value

    return {name: one(value) for name, value in plain.items()}
