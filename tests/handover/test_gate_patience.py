"""Who wins a level, and when: patience for larger caps, operators who approve, gates in shadow, and what a flip leaves."""

from __future__ import annotations

import math

import pytest
from gate_cases import Values, frozen, propose, run, unit

from aegis.handover import (
    Challenge,
    ChallengeCertified,
    Event,
    Flipped,
    GateState,
    OperatorAction,
    Paused,
    Restarted,
    UnitCounted,
    Waiting,
    replay_events,
    step,
)
from aegis.handover.schedule import freeze_is_due, next_freeze

CAPS = (1.5, 2.0, 3.0)


def three_caps(**settings: object) -> tuple[GateState, list[Event]]:
    """Return a gate with challengers of three caps that are not followed by others for long."""
    proposed = [propose("dose", cap) for cap in CAPS]
    return frozen(*proposed, **{"first": 100, "delta": 0.5, **settings})  # type: ignore[arg-type]


def starting(when: dict[float, int]) -> Values:
    """Return units that speak for each cap from its own unit on, and against it never."""

    def values(item: Challenge, what: str) -> float:
        return 0.45 if what == "gain" and item.units + 1 >= when.get(item.cap, math.inf) else 0.9 if what == "value" else 0.0

    return values


def crossings(events: list[Event]) -> dict[float, int]:
    """Return after how many units each cap was certified."""
    return {float(event.challenge.rsplit("-", 1)[1]): event.units for event in events if isinstance(event, ChallengeCertified)}


def flip_of(events: list[Event]) -> Flipped:
    """Return the only flip."""
    (found,) = [event for event in events if isinstance(event, Flipped)]
    return found


@pytest.mark.parametrize("patience", [1.0, 1.1, 1.5, 2.0, 2.2])
def test_the_flip_comes_when_patience_is_over(patience: float):
    for begin in (*range(1, 8), 21):
        state, events = three_caps(patience=patience)
        run(state, 80, starting({2.0: begin}), events)
        (crossed,) = crossings(events).values()
        flip = flip_of(events)
        tenths = round(patience * 10) * crossed
        assert flip.units == -(-tenths // 10)
        assert (flip.episode, flip.cap, flip.policy) == (100 + flip.units, 2.0, "policy of dose at 2")


def test_a_larger_cap_that_is_certified_within_patience_wins():
    state, events = three_caps(patience=1.5)
    run(state, 60, starting({1.5: 1, 3.0: 3}), events)
    found = crossings(events)
    assert found[1.5] < found[3.0] <= 1.5 * found[1.5]
    assert (flip_of(events).cap, flip_of(events).units) == (3.0, math.ceil(1.5 * found[1.5]))


def test_a_larger_cap_that_comes_too_late_or_a_smaller_one_that_comes_later_does_not():
    late, events = three_caps(patience=1.5)
    run(late, 60, starting({1.5: 1, 3.0: 30}), events)
    assert flip_of(events).cap == 1.5
    later, events = three_caps(patience=1.5)
    run(later, 60, starting({2.0: 1, 1.5: 3}), events)
    assert set(crossings(events)) == {1.5, 2.0}
    assert flip_of(events).cap == 2.0


def test_patience_of_one_deploys_at_once_and_ties_go_to_the_largest_cap():
    state, events = three_caps(patience=1)
    run(state, 60, starting({1.5: 1, 2.0: 1, 3.0: 2}), events)
    flip = flip_of(events)
    assert (flip.cap, flip.units) == (2.0, crossings(events)[2.0])


def test_what_was_certified_is_not_lost_while_waiting_for_more():
    state, events = three_caps(patience=2.5)
    run(state, 60, lambda item, what: 0.45 if item.cap == 2.0 and item.units < 9 else -0.3 if what == "gain" else 0.3, events)
    crossed = next(event for event in events if isinstance(event, ChallengeCertified))
    flip = flip_of(events)
    assert flip.units > crossed.units
    assert flip.gain_lower == crossed.gain_lower > 0


def test_a_flip_leaves_nothing_but_who_is_in_control():
    state, events = three_caps(patience=1.5, alarm_floor=0.9)
    before = state
    while not state.deployed:
        state, told = step(state, unit(state, starting({1.5: 1})), started=state.episode + 4)
        events += told
    flip = flip_of(events)
    assert flip.since == flip.episode + 4
    assert (state.challenges, state.waiting, state.freezes) == ((), (), 0)
    assert (state.freeze, state.spent) == (before.freeze, before.spent)
    assert next_freeze(state) == flip.since - 1 + 100
    assert state.monitor is not None
    assert state.monitor.floor == flip.value_lower > 0
    run_on = run(state, 3, starting({}))
    assert run_on.monitor.count == 0  # type: ignore[union-attr]  # those three were in flight
    assert run(run_on, 2, starting({})).monitor.count == 2  # type: ignore[union-attr]


def test_the_schedule_starts_again_after_a_flip_and_doubles():
    state, _ = frozen(first=2, delta=0.5, patience=1)
    dues = []
    while not state.deployed:
        if freeze_is_due(state):
            state, _ = step(state, [propose("dose", 2.0)])
        state = run(state, 1, starting({2.0: 1}))
    start, t = state.episode, state.freeze
    while len(dues) < 4:
        if freeze_is_due(state):
            dues.append(state.episode)
            state, events = step(state, [propose("dose", 2.0, policy="a better one")])
            assert (events[0].freeze, events[0].challenges[0].kind) == (t + len(dues), "upgrade")  # type: ignore[union-attr]
        state = run(state, 1, starting({}))
    assert dues == [start + 2, start + 4, start + 8, start + 16]


def test_two_levels_that_are_certified_together_are_not_handed_over_together():
    proposed = [propose(level, 2.0) for level in ("dose", "recipe")]
    state, events = frozen(*proposed, levels=("dose", "recipe"), first=100, delta=0.5, patience=1)
    state = run(state, 20, starting({2.0: 1}), events)
    assert [event.level for event in events if isinstance(event, ChallengeCertified)] == ["dose", "recipe"]
    assert flip_of(events).level == "dose"
    assert state.challenges == ()


def test_approval():
    state, events = three_caps(patience=1.5, mode="approve")
    state = run(state, 30, starting({1.5: 1, 2.0: 12}), events)
    waits = [event for event in events if isinstance(event, Waiting)]
    assert [event.challenge for event in waits] == ["1-dose-1.5", "1-dose-2"]
    assert [event.challenge for event in state.waiting] == ["1-dose-2"]
    assert state.deployed == ()
    state, told = step(state, OperatorAction("approve", "ann", "looks right", 7, "dose"), started=140)
    assert told[0] == OperatorAction("approve", "ann", "looks right", 130, "dose")
    assert flip_of(list(told)).since == 141
    assert state.at("dose").policy == "policy of dose at 2"  # type: ignore[union-attr]
    assert replay_events([*events, *told]) == state


def test_what_waits_outlives_later_freezes():
    state, events = frozen(first=4, delta=0.5, patience=1, mode="approve", generations=1)
    state = run(state, 4, starting({2.0: 1}), events)
    while not state.waiting:
        state = run(state, 1, starting({2.0: 1}), events)
    for _ in range(3):
        state = run(state, next_freeze(state) - state.episode, starting({}), events)
        state, told = step(state, [propose("dose", 3.0, policy="later")])
        events += told
    assert [item.name for item in state.challenges] == ["1-dose-2", "4-dose-3"]
    state, told = step(state, OperatorAction("approve", "ann", "at last", 0, "dose"))
    assert flip_of(list(told)).challenge == "1-dose-2"


def test_an_approval_of_evidence_that_cannot_be_pauses():
    state, _ = frozen(first=100, delta=0.5, patience=1, mode="approve")
    state = run(state, 12, starting({2.0: 1}))
    state = run(state, 20, lambda item, what: 20.0)
    state, told = step(state, OperatorAction("approve", "ann", "looks right", 0, "dose"))
    assert [type(event) for event in told] == [OperatorAction, Paused]
    assert state.deployed == ()


def test_a_gate_in_shadow_only_says_what_it_would_do():
    state, events = three_caps(patience=1, mode="shadow")
    state = run(state, 40, starting({1.5: 1, 3.0: 20}), events)
    assert [event.challenge for event in events if isinstance(event, Waiting)] == ["1-dose-1.5", "1-dose-3"]
    assert state.deployed == ()
    assert state.monitor is None


def test_a_pause_counts_nothing_and_a_resumption_starts_afresh():
    state, events = three_caps(patience=1.5)
    state = run(state, 2, starting({2.0: 1}), events)
    state, told = step(state, Paused(0, "no data"))
    assert told == (Paused(102, "no data"),)
    assert step(state, Paused(0, "still none")) == (state, ())
    kept = UnitCounted(103, 0.5, "agent", {"1-dose-2": {}})
    state, told = step(state, kept)
    assert told == (UnitCounted(103, 0.5, "agent", {}),)
    state, told = step(state, OperatorAction("resume", "ann", "repaired", 0), started=110)
    assert told[1] == Restarted(103, 111, "resumed by ann")
    assert (state.challenges, state.paused, next_freeze(state), state.freeze) == ((), None, 210, 1)


def test_a_level_that_is_given_back_is_the_legacys_again():
    state, _ = frozen(first=10, delta=0.5, patience=1)
    state = run(state, 10, starting({2.0: 1}))
    while len(state.retired) == 0:
        if freeze_is_due(state):
            state, _ = step(state, [propose("dose", 2.0, policy=f"policy {state.freeze}")])
        state = run(state, 1, starting({2.0: 1}))
    assert [item.policy for item in state.retired] == ["policy of dose at 2"]
    spent, t = state.spent, state.freeze
    state, told = step(state, OperatorAction("revert", "ann", "complaints", 0, "dose"), started=state.episode + 2)
    assert (state.deployed, state.retired, state.monitor, state.challenges) == ((), (), None, ())
    assert (state.spent, state.freeze) == (spent, t)
    assert told[1].since == state.episode + 3  # type: ignore[union-attr]
    state = run(state, 12, starting({}))
    state, told = step(state, [propose("dose", 2.0)])
    assert told[0].challenges[0].kind == "handover"  # type: ignore[union-attr]
