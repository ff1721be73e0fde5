"""Turns of an agent at a level, and episodes while a level is handed over."""

from __future__ import annotations

from aegis.handover import (
    Flipped,
    Reverted,
    Turn,
    UnitCounted,
    turns,
)
from aegis.handover.run_history import handed_over_episodes, last_change_of_control


def flip(level: str, since: int, action: str = "handover") -> Flipped:
    return Flipped(level, f"1-{level}-2", action, 2.0, "digest", since - 1, since, 9, 0.1, 0.2)


def back(level: str, since: int) -> Reverted:
    return Reverted(level, since - 1, since)


def test_turns_begin_with_a_handover_and_end_with_a_revert() -> None:
    events = [flip("inner", 10), flip("inner", 20, "upgrade"), flip("meta", 30), back("inner", 41), flip("inner", 60)]
    assert turns(events) == (Turn("inner", 10, 40), Turn("meta", 30), Turn("inner", 60))
    assert (
        last_change_of_control(events) == 60
        and last_change_of_control([*events, back("meta", 70)]) == 70
        and last_change_of_control([]) == 1
    )


def test_episodes_while_anything_is_handed_over() -> None:
    events = [*(UnitCounted(n, 0.5) for n in range(1, 9)), flip("inner", 3), back("inner", 6), flip("meta", 8)]
    assert handed_over_episodes(events).tolist() == [False, False, True, True, True, False, False, True]
