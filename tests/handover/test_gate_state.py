"""After one of several levels was given back: whoever is left in control is watched, and nothing is claimed of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from gate_cases import opened, propose, run, through_json

from aegis.handover import Alarm, Event, GateState, OperatorAction, Reverted, UnitCounted, apply_event, replay_events, step
from aegis.handover.gate_state import Deployed
from aegis.handover.schedule import freeze_is_due

LEVELS = ("dose", "recipe")
EASY = {"delta": 0.9, "alarm_floor": 0.9, "patience": 1, "generations": 8}


def flipped(state: GateState, events: list[Event], level: str, worth: float) -> GateState:
    """Return the gate after the next flip of a level, whose challenger alone is seen to gain, and is worth so much."""
    before = state.at(level)
    while state.at(level) == before:
        if freeze_is_due(state):
            wanted = [name for name in LEVELS if state.at(name) is None or name == level]
            state, told = step(state, [propose(name, 2.0) for name in wanted])
            events += told
        values = lambda item, what: worth if what == "value" else 0.3 if item.level == level else 0.0  # noqa: E731
        state = run(state, 1, values, events)
        assert state.episode < 500
    return state


def handed_over(*flips: tuple[str, float]) -> tuple[GateState, list[Event], list[float]]:
    """Return a gate of two levels after flips, each a level with what its challenger is worth; and what is watched after each."""
    state, events = opened(LEVELS, **EASY)
    floors = []
    for level, worth in flips:
        state = flipped(state, events, level, worth)
        assert state.monitor is not None
        floors.append(state.monitor.floor)
    return state, events, floors


def given_back(state: GateState, level: str) -> GateState:
    return step(state, OperatorAction("revert", "ann", "drift", 0, level))[0]


def earning(state: GateState, reward: float, episodes: int) -> list[Alarm]:
    found = []
    for _ in range(episodes):
        state, told = step(state, UnitCounted(state.episode + 1, reward))
        found += [event for event in told if isinstance(event, Alarm)]
    return found


def test_what_is_left_was_certified_by_itself_and_is_watched_for_that() -> None:
    state, _, (first, second) = handed_over(("recipe", 0.5), ("dose", 0.9))
    assert 0.1 < first < second and state.untested == {}
    after = given_back(state, "dose")  # recipe was certified while the legacy had dose
    assert after.untested == {}
    assert after.monitor is not None and after.monitor.floor == first and after.monitor.count == 0
    assert after.monitored_since == after.start + 1
    assert not earning(after, first + 0.05, 300) and earning(after, 0.0, 300)


def test_what_was_certified_beside_what_is_given_back_is_watched_and_not_called_certified() -> None:
    state, _, (_, second) = handed_over(("recipe", 0.5), ("dose", 0.9))
    after = given_back(state, "recipe")
    assert [item.level for item in after.deployed] == ["dose"] and after.untested == {"dose": ["recipe"]}
    assert after.monitor is not None and after.monitor.floor == second
    assert earning(after, second / 2, 500)  # less than was certified of the two together
    assert given_back(after, "dose").untested == {}


def test_nobody_is_watched_once_the_legacy_has_everything() -> None:
    state, _, _ = handed_over(("recipe", 0.5), ("dose", 0.9))
    after = given_back(given_back(state, "dose"), "recipe")
    assert after.monitor is None and after.untested == {} and not earning(after, 0.0, 100)


def test_an_upgrade_is_certified_beside_what_acts_then() -> None:
    state, _, floors = handed_over(("recipe", 0.5), ("dose", 0.7), ("recipe", 0.9))
    assert state.untested == {}
    after = given_back(state, "dose")
    assert after.untested == {"recipe": ["dose"]}  # the upgrade was certified beside the agent at dose
    assert after.monitor is not None and after.monitor.floor == floors[2]
    after = given_back(state, "recipe")
    assert after.untested == {"dose": ["recipe"]}  # beside the policy that the upgrade replaced, which is not back either


def test_an_upgrade_of_what_was_not_tested_is_compared_with_that_alone() -> None:
    state, events, _ = handed_over(("recipe", 0.5), ("dose", 0.7))
    after = flipped(given_back(state, "recipe"), events, "dose", 0.9)
    assert after.at("dose") != state.at("dose")
    assert after.untested == {"dose": ["recipe"]}  # better than the one before, which nobody compared with the legacy


def test_it_stays_so_when_the_level_changes_hands_again() -> None:
    state, events, _ = handed_over(("recipe", 0.5), ("dose", 0.7))
    after = flipped(given_back(state, "recipe"), events, "recipe", 0.9)  # to another policy than dose was certified with
    assert [item.level for item in after.deployed] == ["dose", "recipe"] and after.untested == {"dose": ["recipe"]}
    assert given_back(after, "recipe").untested == {"dose": ["recipe"]}
    assert given_back(after, "dose").untested == {"recipe": ["dose"]}  # that one was certified beside dose


@pytest.mark.parametrize("level", LEVELS)
def test_replaying_the_events_gives_the_same_monitor(level: str) -> None:
    state, events, _ = handed_over(("recipe", 0.5), ("dose", 0.9))
    state, told = step(state, OperatorAction("revert", "ann", "drift", 0, level))
    events += told
    for reward in np.linspace(0, 1, 20):
        if freeze_is_due(state):
            break
        state, told = step(state, UnitCounted(state.episode + 1, float(reward)))
        events += told
    assert replay_events(map(through_json, events)) == state


def test_of_three_levels_every_one_that_was_given_back_is_named() -> None:
    state, _ = opened(("a", "b", "c"), **EASY)
    beside: tuple[tuple[str, str], ...] = ()
    for level in ("a", "b", "c"):
        item = Deployed(level, f"1-{level}-2", "digest", 2.0, 1, 0.1, beside=beside)
        state, beside = replace(state, deployed=(*state.deployed, item)), (*beside, (level, item.challenge))
    after = apply_event(state, Reverted("a", state.episode, state.episode + 1))
    assert after.untested == {"b": ["a"], "c": ["a"]}
    after = apply_event(after, Reverted("b", after.episode, after.episode + 1))
    assert after.untested == {"c": ["a", "b"]}
