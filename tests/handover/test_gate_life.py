"""The life of a gate in any order: its ledger, its counter, who counts what, and that events are all there is to know."""

from __future__ import annotations

import random
from dataclasses import replace
from fractions import Fraction

import hypothesis.strategies as st
import pytest
from gate_cases import gain, guard, opened, propose, through_json, unit, value
from hypothesis import given, settings

from aegis.errors import InputError
from aegis.handover import (
    AuditNote,
    AuditResponse,
    DoubtPassed,
    Event,
    Flipped,
    Frozen,
    GateInput,
    GateOpened,
    GateState,
    LateDecision,
    OperatorAction,
    Paused,
    Postponed,
    Restarted,
    Reverted,
    UnitCounted,
    Waiting,
    apply_event,
    is_decision,
    replay_events,
    step,
    verify_events,
)
from aegis.handover.events import EVENT_KINDS, ModeChanged
from aegis.handover.gate import MODE_ACTIONS, Interruption
from aegis.handover.schedule import freeze_is_due, next_freeze

LEVELS = ("dose", "recipe", "season")
CAPS = (1.5, 2.0, float("inf"))
VALUES = {"gains": 0.45, "loses": -0.3, "nothing": 0.0, "kills": -0.9, "impossible": 30.0}

REFUSED, DOUBTED = (
    Paused(0, "decisions carry over", "carry-over", "dose", "declare it"),
    Postponed(0, "they may", "carry-over", "dose"),
)


class Life:
    """Everything that can happen to a gate, beside a naive account of it that knows only what was given and answered."""

    def __init__(self, chance: random.Random) -> None:
        """Open a gate with settings as they come."""
        self.chance = chance
        self.audits = random.Random(5)
        given = {
            "delta": chance.choice([0.05, 0.5, 0.95]),
            "first": chance.randint(1, 3),
            "generations": chance.randint(1, 3),
            "patience": chance.choice([1.0, 1.5]),
            "mode": chance.choice(["live", "live", "approve", "shadow"]),
            **chance.choice([{}, {"holdback": 0.1, "share": 0.5, "stage": 10**6}]),
        }
        self.state, self.events = opened(LEVELS[: chance.choice([1, 2, 2, 3])], caps=list(CAPS), **given)
        self.again: GateState = replay_events([through_json(event) for event in self.events])
        self.running = 0  # episodes that have started
        self.open_since: dict[str, int] = {}
        self.counted: dict[str, int] = {}
        self.born: dict[str, int] = {}
        self.control: dict[str, str] = {}
        self.tests: dict[str, list[tuple[int, int]]] = {}  # first and last unit of the tests behind each level in control
        self.phase, self.of_phase = 0, 0
        self.paused = False

    def take(self, given: GateInput, instead: Interruption | None = None) -> list[Event]:
        """Give the gate something and keep the naive account of what it answers."""
        passed = () if self.state.put_off is None or instead is not None else (DoubtPassed(0, "carry-over"),)
        moves = (AuditNote(0, "it moves", "propensities-move", self.state.levels[0], "state the incumbent"),)
        notes = (*passed, *moves) if self.state.episode % 5 == 0 else ()
        self.state, told = step(self.state, given, self.running, AuditResponse(instead, notes))
        assert sum(isinstance(event, AuditNote) for event in self.events + list(told)) <= 1
        for event in told:
            self.events.append(event)
            self.again = apply_event(self.again, through_json(event))
            self.account(event)
        return list(told)

    def account(self, event: Event) -> None:
        """Write down an answer."""
        if isinstance(event, Frozen):
            assert event.since == self.running + 1
            assert event.episode >= self.phase + self.state.settings.first * 2**self.of_phase
            self.of_phase += 1
            for item in event.challenges:
                self.open_since[item.name], self.counted[item.name], self.born[item.name] = event.since, 0, event.freeze
        if isinstance(event, Flipped):
            froze = {item.name: item.policy for told in self.events if isinstance(told, Frozen) for item in told.challenges}
            assert event.policy == froze[event.challenge]
            assert event.challenge in self.open_since
            self.control[event.level] = event.policy
            self.tests.setdefault(event.level, []).append((self.open_since[event.challenge], event.episode))
        if isinstance(event, Reverted):
            del self.control[event.level], self.tests[event.level]
        if isinstance(event, Flipped | Restarted | Reverted):
            assert event.since == self.running + 1
            self.open_since, self.phase, self.of_phase = {}, self.running, 0
        if isinstance(event, Paused | Restarted):
            self.paused = isinstance(event, Paused)
        if isinstance(event, Paused) and event.code is not None:
            self.open_since = {}  # what was being tested is void

    def refuses(self, given: GateInput) -> None:
        """Check that something is an error that changes nothing."""
        before = self.state
        with pytest.raises(InputError):
            step(self.state, given, self.running)
        assert self.state is before

    def start(self) -> None:
        """Let episodes start before others have closed."""
        self.running += self.chance.randint(1, 3)

    def close(self, units: int = 0) -> None:
        """Close episodes; each cap has its own mood. Challengers are frozen when it is time, mostly."""
        chance = self.chance
        moods = chance.choices(["gains", "nothing", "loses"], [3, 1, 1], k=3)
        rare = chance.choices([None, "kills", "impossible"], [30, 1, 1])[0]
        left_to = chance.choices(["agent", "legacy", "before"], [6, 1, 1])[0]
        reward, freezes = chance.choice([None, 0.0, 0.4, 1.0]), chance.random() < 0.8
        for _ in range(units or chance.randint(1, 20)):
            if freeze_is_due(self.state) and freezes:
                self.freeze()
            if chance.random() < 0.3:
                self.start()
            self.running = max(self.running, self.state.episode + 1)
            episode = self.state.episode + 1
            arm = left_to if self.others_may_act(episode) else "agent"
            given = unit(self.state, lambda item, what: VALUES[rare or moods[CAPS.index(item.cap)]], reward, arm)
            counts = [name for name, since in self.open_since.items() if since <= episode and arm == "agent" and not self.paused]
            assert sorted(given.evidence) == sorted(counts)
            for name in counts:
                self.counted[name] += 1
            instead = self.audits.choices([None, REFUSED, DOUBTED], [200, 1, 4])[0]
            told = self.take(given, instead)
            assert instead is None or not is_decision(told)
            flips = [event for event in told if isinstance(event, Flipped)]
            assert len(flips) <= (self.state.settings.mode == "live")

    def others_may_act(self, episode: int) -> bool:
        """Say whether an episode can have been left to the legacy, or to what acted before."""
        return episode <= self.phase or (bool(self.control) and self.state.settings.holdback > 0)

    def wrong_units(self) -> None:
        """Refuse units out of order, rewards out of range, unknown arms and evidence for the wrong challenges."""
        self.running = max(self.running, self.state.episode + 1)
        good = unit(self.state, lambda item, what: 0.0)
        for bad in (good.episode - 1, good.episode + 1):
            self.refuses(replace(good, episode=bad))
        self.refuses(replace(good, reward=1.5))
        self.refuses(replace(good, arm="other"))
        if not self.others_may_act(good.episode):
            for arm in ("legacy", "before"):  # as if somebody had chosen afterwards what counts
                self.refuses(replace(good, arm=arm, evidence={}))
        if not self.paused:
            self.refuses(replace(good, evidence={**good.evidence, "99-dose-2": {}}))
            later = [name for name, since in self.open_since.items() if since > good.episode]
            self.refuses(replace(good, evidence={**good.evidence, **{name: {} for name in later or ["no"]}}))

    def freeze(self) -> None:
        """Freeze challengers at every level."""
        guards, caps = self.chance.randint(0, 2), self.chance.sample(CAPS, self.chance.randint(1, 3))
        self.running = max(self.running, self.state.episode)
        claims = [gain(), value(), *[guard(f"guard {index}") for index in range(guards)]]
        told = self.take([propose(level, cap, *claims) for level in self.state.levels for cap in caps])
        oldest = self.state.freeze - self.state.settings.generations
        crossed = {event.challenge for event in self.events if event.kind == "certified"}
        self.open_since = {name: since for name, since in self.open_since.items() if self.born[name] > oldest or name in crossed}
        assert [event.kind for event in told] == ["frozen"]

    def freeze_too_early(self) -> None:
        """Refuse a freeze that is not due."""
        if not freeze_is_due(self.state):
            self.refuses([propose("dose", 2.0)])

    def operator(self, action: str = "") -> None:
        """Let somebody say something, with a good reason or without."""
        words = ["approve"] * 4 + ["pause"] * 2 + ["resume"] * 4 + ["revert"] * 2 + list(MODE_ACTIONS)
        action = action or self.chance.choice(words)
        level = self.chance.choice(LEVELS)
        said = OperatorAction(action, "ann", "maintenance", 0, level)
        self.refuses(replace(said, why=" "))
        waits = [item.level for item in self.state.waiting]
        allowed = {
            "approve": self.state.settings.mode == "approve" and not self.paused and level in waits,
            "pause": True,
            "resume": self.paused,
            "revert": level in self.control,
            **{word: mode != self.state.settings.mode for word, mode in MODE_ACTIONS.items()},
        }
        allowed["shadow"] = allowed["shadow"] and not self.control
        if not allowed[action]:
            self.refuses(said)
            return
        told = self.take(said)
        assert told[0] == replace(said, episode=self.state.episode)
        answers = {
            "approve": Flipped,
            "pause": Paused,
            "resume": Restarted,
            "revert": Reverted,
            **dict.fromkeys(MODE_ACTIONS, ModeChanged),
        }
        # Evidence that cannot be pauses the gate whatever is approved; who pauses a paused gate is only written down.
        assert isinstance(told[-1], answers[action] | Paused | OperatorAction)

    def pause(self) -> None:
        """Pause for a reason, and resume after a while."""
        self.refuses(Paused(0, " "))
        self.take(Paused(0, "no data"))
        self.close(units=3)
        self.operator("resume")

    def late(self) -> None:
        """Let a decision come after its episode was counted: whatever counted it is given up, or doubted."""
        self.refuses(LateDecision(0, self.state.episode + 1, "it came late"))
        self.refuses(LateDecision(0, 0, "it came late"))
        if not self.state.episode:
            return
        self.running = max(self.running, self.state.started)
        unit, before = self.chance.randint(1, self.state.episode), self.state
        counting = not self.paused and any(since <= unit for since in self.open_since.values())
        told = self.take(LateDecision(0, unit, "it came late"))
        assert [event.kind for event in told] == (["late", "restarted"] if counting else ["late"])
        rests = {level for level, spans in self.tests.items() if any(first <= unit <= last for first, last in spans)}
        doubted = {item.level for item in self.state.deployed if item.late == unit}
        assert rests <= doubted <= rests | {item.level for item in before.deployed if item.late == unit}
        assert not (counting and self.state.challenges) and self.state.late == before.late + 1
        assert self.state.spent == before.spent

    def fewer_started_than_known(self) -> None:
        """Refuse a number of started episodes that cannot be."""
        if self.state.started:
            with pytest.raises(InputError, match="known to have"):
                step(self.state, Paused(0, "no data"), self.state.started - 1)

    def the_budget_holds(self) -> None:
        """The ledger is what all freezes ever spent, counted naively, and stays within delta."""
        delta, total = self.state.settings.delta, Fraction(0)
        freezes = [event for event in self.events if isinstance(event, Frozen)]
        assert self.state.freeze == len(freezes)
        assert [event.freeze for event in freezes] == list(range(1, len(freezes) + 1))
        for t, event in enumerate(freezes, 1):
            own = sum(Fraction(c.delta) for item in event.challenges for c in item.claims if c.what != "value")
            assert float(own) == pytest.approx(delta * 6 / 3.141592653589793**2 / t**2, rel=1e-12)
            total += own
        assert self.state.spent <= delta
        assert self.state.spent == pytest.approx(float(total), rel=1e-12)

    def events_are_all_there_is(self) -> None:
        """What the events add up to, also when they were written and read, is the state."""
        assert self.again == self.state

    def the_naive_account_agrees(self) -> None:
        """Open challenges, their units, who is in control, and the schedule are as counted by hand."""
        assert {item.name: item.since for item in self.state.challenges} == self.open_since
        assert {item.name: item.units for item in self.state.challenges} == {name: self.counted[name] for name in self.open_since}
        assert {item.level: item.policy for item in self.state.deployed} == self.control
        assert next_freeze(self.state) == self.phase + self.state.settings.first * 2**self.of_phase
        assert (self.state.paused is not None) == self.paused
        assert all(event.level not in self.control or self.state.at(event.level) for event in self.state.waiting)
        if self.state.settings.mode == "shadow":
            assert not self.control

    def check(self) -> None:
        """Check all that always holds."""
        self.the_budget_holds()
        self.events_are_all_there_is()
        self.the_naive_account_agrees()


DOINGS = {
    Life.close: 12,
    Life.start: 1,
    Life.operator: 3,
    Life.wrong_units: 1,
    Life.freeze_too_early: 1,
    Life.pause: 1,
    Life.late: 1,
    Life.fewer_started_than_known: 1,
}


def live(seed: int, doings: int = 30) -> Life:
    """Return a life of so many doings, after each of which everything was checked."""
    chance = random.Random(seed)
    life = Life(chance)
    for doing in chance.choices(list(DOINGS), list(DOINGS.values()), k=doings):
        doing(life)
        life.check()
    return life


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_budget_counts_control_and_events_agree_whatever_happens(seed: int):
    life = live(seed)
    assert replay_events(life.events) == verify_events(life.events) == life.state
    kinds = [type(event) for event in life.events]
    assert kinds[0] is GateOpened
    assert kinds.count(UnitCounted) == life.state.episode
    assert Waiting not in kinds or ModeChanged in kinds or life.state.settings.mode != "live"


def test_such_lives_see_everything_that_can_happen_to_a_gate():
    lives = [live(seed) for seed in range(16)]
    assert all(verify_events(life.events) == life.state for life in lives)
    events = [event for life in lives for event in life.events]
    assert {event.kind for event in events} >= {*EVENT_KINDS} - {"alarm"}
    flips = [event for event in events if isinstance(event, Flipped)]
    assert {event.action for event in flips} == {"handover", "upgrade"}
    assert any(event.since > event.episode + 1 for event in flips)
    assert any(isinstance(event, Paused) and "contradicts" in event.why for event in events)
    assert max(life.state.freeze for life in lives) > 10
