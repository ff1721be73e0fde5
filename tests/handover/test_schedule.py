"""The schedule: freezes come at doubling distances since the last flip, and a paused gate freezes nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aegis.handover import GateSettings, GateState, draw_arm
from aegis.handover.schedule import freeze_is_due, next_freeze


@pytest.mark.parametrize(("freezes", "due"), [(0, 44), (1, 58), (2, 86), (5, 478)])
def test_freezes_come_at_doubling_distances(freezes: int, due: int) -> None:
    state = GateState(GateSettings(first=14), ("inner",), episode=due - 1, start=30, freezes=freezes)
    assert next_freeze(state) == due and not freeze_is_due(state)
    assert freeze_is_due(replace(state, episode=due))
    assert not freeze_is_due(replace(state, episode=due, paused="an operator"))


def test_while_the_legacy_controls_everything_there_is_one_arm() -> None:
    settings = GateSettings(holdback=0.5, share=0.5, stage=10)
    assert {draw_arm(settings, GateState(settings, ("inner",)), 1, episode) for episode in range(1, 20)} == {"agent"}
