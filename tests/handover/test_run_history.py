"""The events of a gate as an Arrow table."""

from __future__ import annotations

from dataclasses import replace

from aegis.handover import (
    Alarm,
    ChallengeCertified,
    Flipped,
    GateOpened,
    GateSettings,
    OperatorAction,
    UnitCounted,
    events_table,
    has_gate,
)
from aegis.handover.run_history import EVENT_SCHEMA

EVENTS = [
    GateOpened(GateSettings(), ("inner",), "digest"),
    UnitCounted(1, 0.5, "agent", {"c": {"gain": ((1, None),)}}),
    ChallengeCertified("c", "inner", 40, 30, 0.1),
    Flipped("inner", "c", "flip", None, "policy", 40, 42, 30, 0.1, 0.4),
    Alarm(90, 25.0, 0.3),
    OperatorAction("revert", "ann", "a leak", 91, "inner"),
]


def test_one_row_each_with_the_fields_it_has() -> None:
    table = events_table(EVENTS)
    assert table.schema == EVENT_SCHEMA
    assert table["kind"].to_pylist() == ["opened", "certified", "flip", "alarm", "operator"]
    assert table["episode"].to_pylist() == [None, 40, 40, 90, 91]
    flip = table.to_pylist()[2]
    assert (flip["level"], flip["since"], flip["gain_lower"], flip["value_lower"], flip["cap"]) == ("inner", 42, 0.1, 0.4, None)
    assert table["evidence"].to_pylist() == [None, None, None, 25.0, None]
    assert table["why"].to_pylist()[-1] == "a leak"


def test_closed_episodes_if_they_are_asked_for() -> None:
    table = events_table(EVENTS, units=True)
    assert table.num_rows == len(EVENTS)
    assert table["reward"].to_pylist()[1] == 0.5 and table["arm"].to_pylist()[1] == "agent"
    assert table["evidence"].to_pylist()[1] is None
    assert events_table([]).schema == EVENT_SCHEMA


def test_numbers_that_bound_nothing_are_left_out() -> None:
    flip = next(event for event in EVENTS if isinstance(event, Flipped))
    (row,) = events_table([replace(flip, certificate=False)]).to_pylist()
    assert (row["level"], row["since"], row["gain_lower"], row["value_lower"]) == ("inner", 42, None, None)


def test_an_agent_that_acts_from_the_start_has_no_gate() -> None:
    flip = next(event for event in EVENTS if isinstance(event, Flipped))
    assert has_gate([]) and has_gate(EVENTS)
    assert not has_gate([EVENTS[0], replace(flip, episode=0, since=1)])
