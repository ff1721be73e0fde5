"""Choices as the spool keeps them."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from aegis.service.client.choices import ActionChoice, UnreportedChoice, read_choice, same_action
from aegis.service.client.spool import KeptChoice

CHOICE = ActionChoice("mid-level-2", "mid-level", 1.0, 0.5, "agent", 3)


def test_a_choice_comes_back_as_it_was() -> None:
    kept = KeptChoice("e", CHOICE.id, asdict(CHOICE), False)
    assert read_choice(kept) == CHOICE
    assert UnreportedChoice.of(kept) == UnreportedChoice("e", "mid-level-2", "mid-level", CHOICE)


@pytest.mark.parametrize("content", [None, {"wrong": 1}, {}])
def test_what_was_not_answered_or_cannot_be_read_is_marked(content: dict[str, int] | None) -> None:
    item = UnreportedChoice.of(KeptChoice("e", "mid-level-2", content, False))
    assert (item.level, item.choice, item.answered) == ("mid-level", None, False)


def test_actions_are_compared_as_values() -> None:
    assert same_action(1.0, 1) and same_action("a", "a") and same_action(True, True)
    assert not same_action(1, True) and not same_action("a", "b")
