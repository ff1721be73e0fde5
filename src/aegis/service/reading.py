"""What can be read of a live gate: who controls what, why, what happens next; as plain data, in units of the reward."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any

from aegis.certificate.measures import Measure, reward_measure
from aegis.errors import RefusedError
from aegis.handover import GateState
from aegis.handover.challenge import GAIN, Challenge
from aegis.handover.events import Certified, Event, Flipped, Frozen, Noted, Opened, Paused, PutOff, Reverted, Unit
from aegis.handover.events import plain as event_plain
from aegis.handover.summary import moved, promise, told
from aegis.policies import stated_levels
from aegis.report.handover_standing import Standing, bound_of, evidence_of, standings
from aegis.service.changes import Changes
from aegis.service.live import Live
from aegis.service.paths import Paths
from aegis.service.problems import compared_at
from aegis.service.store import Record
from aegis.service.trees import Tree

EVENTS = 500  # that are kept to be shown; the journal has all of them
BEFORE, NOW = "the policy in control before it", "the policy in control now"  # with which an upgrade is compared
SHOWN = 60  # events and freezes that a page is sent


@dataclass(slots=True)
class Reading:
    """Follows a live gate from its start. A reader holds `live.changed`."""

    live: Live
    measure: Measure = field(init=False)
    paths: Paths = field(init=False)
    events: list[dict[str, Any]] = field(default_factory=list, init=False)
    certificates: list[dict[str, Any]] = field(default_factory=list, init=False)
    ledger: list[dict[str, Any]] = field(default_factory=list, init=False)
    earned: dict[str, list[float]] = field(default_factory=dict, init=False)  # by `Tree.who`: sum of rewards, episodes
    overruled: int = field(default=0, init=False)
    aborted: int = field(default=0, init=False)  # episodes that were counted and not whole: cut off, or with rewards missing
    changes: Changes = field(default_factory=Changes, init=False)

    def __post_init__(self) -> None:
        self.measure = reward_measure(self.live.problem)
        self.paths = Paths(self.measure)
        self.live.state.told = self._told
        self.live.state.counted = self._counted

    @property
    def comparators(self) -> dict[str, str]:
        """Return by level, in words, who a challenger of the legacy is compared with."""
        return compared_at(self.live.problem, self.live.state.opened.moving)

    # ---- following ---------------------------------------------------------------------------------------------------------

    def _counted(self, tree: Tree, unit: Unit) -> None:
        who = tree.who()
        self.paths.unit(self.live.state.opened, unit, who)
        self.overruled += sum(item.overruled for item in tree.decisions.values())
        broken = not tree.whole(self.live.problem) or any(item.reward is None for item in tree.results.values())
        self.aborted += tree.cut or broken
        if unit.reward is not None:
            total, count = self.earned.get(who, [0.0, 0])
            self.earned[who] = [total + unit.reward, count + 1]

    def _told(self, event: Event, record: Record) -> None:
        if isinstance(event, Unit | Opened):
            return
        shown = {"seq": record.seq, "at": record.at, **told(event, self.measure), **self._over(event)}
        self.events = [*self.events[-EVENTS + 1 :], shown]
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
        if not isinstance(event, Certified | Flipped):
            return {}
        kind = event.action if isinstance(event, Flipped) else self._kind(event)
        return {"comparator": BEFORE if kind == "upgrade" else self.comparators[event.level]}

    def _kind(self, event: Certified) -> str:
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
                "moved": moved(state, stated_levels(self.live.problem)),
                "audited": state.audited,
            },
            "gates": {**self.live.count.plain(), "words": self.live.count.words},
            "promise": promise(state, self.live.count.number > 1) if state.deployed else "",
            "next_freeze": state.next_freeze if state.paused is None else None,
            "levels": self.levels(),
            "never": [name for name in self.live.problem.names if name not in state.levels],
            "leaves": {name: getattr(state.settings, name) for name in ("floor", "holdback", "share", "stage")},
            "changes": self.changes.kept,
            "ledger": {
                "delta": state.settings.delta,
                "spent": state.spent,
                "freezes": state.freeze,
                "entries": self.ledger[-SHOWN:],
            },
            "earned": {
                who: {"mean": self.measure.value(total / count), "episodes": count} for who, (total, count) in self.earned.items()
            },
            "monitor": self._monitor(state),
            "paths": self.paths.plain(),
            "events": [_plain(item) for item in self.events if item["kind"] not in ("frozen",)][-SHOWN:],
        }

    def levels(self) -> list[dict[str, Any]]:
        """Return every level, outermost first: who controls it, and who challenges that."""
        state = self.live.state.opened
        return [self._level(state, item) for item in reversed(standings(state, self.measure))]

    def _level(self, state: GateState, item: Standing) -> dict[str, Any]:
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
            "leading": None if item.leading is None else _plain(asdict(item.leading)),
            "challengers": [self._challenger(one) for one in state.challenges if one.level == item.level],
        }
        found["next"] = self._next(state, found)
        return found

    def _challenger(self, item: Challenge) -> dict[str, Any]:
        evidence = evidence_of(item) if item.units else None
        try:
            bound = bound_of(item, self.measure) if item.units else None
        except RefusedError:
            bound = None
        return _plain(
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
        return _plain(
            {
                "floor": self.measure.value(state.monitor.floor),
                "evidence": state.monitor.evidence,
                "threshold": 1.0 / state.settings.alarm,
                "episodes": state.monitor.count,
            }
        )


def _finding(item: Paused | PutOff | Noted) -> dict[str, Any]:
    """Return what the audit found, as plain data."""
    return {name: value for name, value in event_plain(item).items() if name != "kind"}


def _caps(event: Frozen) -> dict[str, list[float | None]]:
    """Return the caps of what was frozen, by level; None for no cap."""
    found: dict[str, list[float | None]] = {}
    for item in event.challenges:
        found.setdefault(item.level, []).append(None if math.isinf(item.cap) else item.cap)
    return found


def _plain(found: dict[str, Any]) -> dict[str, Any]:
    """Return plain data without infinities, which JSON has not."""

    def one(value: Any) -> Any:
        if isinstance(value, float) and not math.isfinite(value):
            return None
        return _plain(value) if isinstance(value, dict) else value

    return {name: one(value) for name, value in found.items()}
