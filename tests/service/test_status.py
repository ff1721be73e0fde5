"""Who took a level over, when and why; and that an alarm stays until an operator answers it."""

from __future__ import annotations

from typing import Any

from aegis.handover import Alarm, Event, Flipped, OperatorAction, Paused, Restarted, Reverted, event_to_plain
from aegis.handover.events import ModeChanged
from aegis.service.status import MOST_CHANGES, ControlChanges

ALARM = Alarm(60, 120.0, 0.5)


def flip(since: int, action: str = "handover", level: str = "inner") -> Flipped:
    return Flipped(level, f"1-{level}-2", action, 2.0, "policy", since - 1, since, 30, 0.1, 0.5)


def said(action: str, why: str = "a reason", level: str | None = None) -> OperatorAction:
    return OperatorAction(action, "Ada", why, 1, level)


def followed(*events: Event) -> ControlChanges:
    changes = ControlChanges()
    for place, event in enumerate(events):
        changes.follow(event, {"seq": place, "at": f"2030-01-01T00:00:{place % 60:02d}", **event_to_plain(event)})
    return changes


def held(changes: ControlChanges, level: str = "inner") -> dict[str, Any]:
    found = changes.held(level)
    assert found is not None
    return found


def test_a_level_that_never_changed_hands_has_no_history() -> None:
    assert followed(said("pause"), Paused(1, "why"), ALARM, flip(5, level="meta")).held("inner") is None


def test_an_upgrade_keeps_since_when_the_agent_is_in_control() -> None:
    changes = followed(flip(41), flip(90, "upgrade"))
    assert held(changes)["since"] == {"episode": 41, "at": "2030-01-01T00:00:00"}
    assert held(changes)["last"]["since"] == 90


def test_a_level_that_was_given_back_starts_again() -> None:
    given = said("revert", "noise", "inner"), Reverted("inner", 59, 60)
    changes = followed(flip(41), *given)
    assert held(changes)["since"]["episode"] == 60
    assert (held(changes)["last"]["who"], held(changes)["last"]["said"]) == ("Ada", "noise")
    assert held(followed(flip(41), *given, flip(80)))["since"]["episode"] == 80


def test_only_what_follows_from_an_operator_bears_their_name() -> None:
    changes = followed(
        said("approve", "fine", "inner"),
        flip(41),
        flip(70, level="meta"),
        said("live"),
        ModeChanged(71, "live"),
        flip(90, "upgrade"),
    )
    assert [item.get("who") for item in changes.history] == ["Ada", None, None]


def test_an_alarm_stays_until_an_operator_gives_a_level_back_or_resumes() -> None:
    standing = (ALARM, said("pause"), Paused(61, "by Ada"), said("live"), ModeChanged(62, "live"), flip(80, "upgrade"))
    for count in range(1, len(standing) + 1):
        found = followed(flip(41), *standing[:count]).alarm
        assert found is not None and found["episode"] == 60
    assert followed(flip(41), *standing, Restarted(90, 91, "resumed by Ada")).alarm is None
    assert followed(flip(41), *standing, Reverted("inner", 90, 91)).alarm is None


def test_so_many_changes_are_kept_and_the_newest_are() -> None:
    changes = followed(*(flip(since, "upgrade") for since in range(2, MOST_CHANGES + 30)))
    assert len(changes.history) == MOST_CHANGES and changes.history[-1]["since"] == MOST_CHANGES + 29


def test_a_restart_by_the_gate_itself_does_not_answer_an_alarm() -> None:
    changes = followed(flip(41), ALARM, Restarted(70, 71, "a decision came late"))
    assert changes.alarm is not None and changes.alarm["episode"] == 60
