"""The monitor of a gate: false alarms at most its level, drops found soon, also while the gate is paused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gate_cases import frozen, gain, propose, run, through_json, value
from scipy import stats

from aegis.handover import Alarm, Event, GateState, OperatorAction, Paused, UnitCounted, replay_events, step
from aegis.rng import stream


def watching(floor: float = 0.5, **settings: object) -> tuple[GateState, list[Event]]:
    """Return a gate that has handed a level over, with a bound of the value, and freezes nothing more."""
    # The bound of the value cannot fall below its bracket, and units of the value 0 do not lift it.
    state, events = frozen(propose("dose", 2.0, gain(), replace(value(), low=floor, high=2.0)), **settings, patience=1.0)
    while not state.deployed:
        state = run(state, 1, lambda _, what: 0.45 if what == "gain" else 0.0, events)
    assert state.monitor is not None and state.monitor.floor == min(floor, 1.0 - 2.0**-20)
    return state, events


def live(state: GateState, rewards: np.ndarray | list[float | None], arm: str = "agent") -> tuple[GateState, list[Event]]:
    """Return the gate after units of these rewards, and what it said of them."""
    events: list[Event] = []
    for reward in rewards:
        state, told = step(state, UnitCounted(state.episode + 1, None if reward is None else float(reward), arm))
        events += told
    return state, events


def alarms(events: list[Event]) -> list[Alarm]:
    """Return the alarms among events."""
    return [event for event in events if isinstance(event, Alarm)]


def test_false_alarms_are_at_most_their_level():
    rng, found, runs = stream(61, "false alarms"), 0, 150
    start, _ = watching(alarm=0.1)
    for number in range(runs):
        # The mean is the floor itself, the worst that is still right; half of the runs are as spread as can be.
        rewards = (rng.random(250) < 0.5).astype(float) if number % 2 else rng.beta(2, 2, 250)
        found += bool(alarms(live(start, rewards)[1]))
    assert stats.binomtest(found, runs, 0.1, alternative="greater").pvalue > 0.001


def test_a_drop_after_two_thousand_good_episodes_is_found_in_about_128():
    rng, delays = stream(62, "drop"), []
    start, _ = watching(alarm=0.05)
    for _ in range(2):
        good, told = live(start, rng.beta(5.5, 4.5, 2000))
        assert not alarms(told)
        for _ in range(6):
            _, told = live(good, rng.beta(4.0, 6.0, 400))
            delays.append(alarms(told)[0].episode - good.episode)
    assert 64 <= np.median(delays) <= 256


def test_an_alarm_is_raised_once_and_again_only_on_new_evidence():
    start, before = watching(alarm=0.05)
    state, events = live(start, np.zeros(400))
    found = alarms(events)
    assert state.alarms == len(found) > 1
    assert all(event.evidence >= 20 for event in found)
    first, second = (event.episode for event in found[:2])
    assert second - first == first - start.episode  # it starts afresh
    assert state.at("dose") is not None  # it alerts; only an operator reverts
    assert replay_events(map(through_json, [*before, *events])) == state


def test_alarms_go_on_while_a_gate_is_paused():
    start, _ = watching()
    paused, _ = step(start, Paused(0, "the policy's version changed"))
    running, _ = live(start, np.zeros(200))
    state, events = live(paused, np.zeros(200))
    assert state.alarms == running.alarms > 0
    assert [event.kind for event in events].count("unit") == 200


def test_missing_rewards_raise_no_alarm_and_others_arms_are_not_watched():
    start, _ = watching()
    assert live(start, [None] * 300)[0].alarms == 0
    start, _ = watching(holdback=0.1, share=0.5, stage=1000)
    for arm in ("legacy", "before"):
        state, _ = live(start, np.zeros(300), arm)
        assert state.monitor == start.monitor
    assert live(start, np.zeros(300))[0].alarms > 0


def test_without_a_bound_of_the_value_there_is_nothing_to_watch():
    assert live(watching(floor=0.0)[0], np.zeros(300))[0].alarms == 0
    state, _ = live(watching(floor=1.0)[0], np.ones(50))  # a bound of one would leave no room to fall short of
    assert state.monitor is not None
    assert state.monitor.floor < 1
    assert state.alarms == 0


def test_nothing_is_watched_after_a_level_was_given_back():
    state, _ = step(watching()[0], OperatorAction("revert", "ann", "alarm", 0, "dose"))
    assert state.monitor is None
    assert live(state, np.zeros(50))[0].alarms == 0


@pytest.mark.parametrize("value", [0.0, 0.25, 0.7, 1.0])
def test_the_monitor_is_its_recursion_in_plain_loops(value: float):
    state, floor = watching()[0], 0.5
    wealth = [0.0] * 8
    for k in range(1, 6):
        state, _ = live(state, [value])
        stakes = [0.9, *[2.0**-i for i in range(1, 8)]]
        wealth = [
            (own + 1 / (k * (k + 1))) * (1 - stake * (value - floor) / (1 - floor))
            for own, stake in zip(wealth, stakes, strict=True)
        ]
        if state.monitor is not None and state.monitor.count:
            assert state.monitor.evidence == pytest.approx(sum(wealth) / 8 + 1 / (k + 1))
