"""The live view of a gate: control, bounds, evidence, rewards and flips."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from aegis.cli.config import HandoverRequest
from aegis.cli.handover_run import prepare_run
from aegis.cli.live_view import LiveView, watch_run

SMALL: dict[str, Any] = {"f_a": 2.0, "inner_steps": 3}


def watched() -> LiveView:
    settings = {"caps": [2.0], "upgrades": False}
    made = prepare_run(HandoverRequest(settings=SMALL, host="greedy", episodes=60, gate_settings=settings))
    return LiveView(made.gate, True, 60)


def drawn(found: LiveView) -> str:
    screen = Console(record=True, width=120, file=open("/dev/null", "w"))  # noqa: SIM115
    screen.print(found.screen())
    screen.file.close()
    return screen.export_text()


def test_the_screen_shows_control_bounds_evidence_reward_and_flips() -> None:
    found = watched()
    assert "no episode yet" in drawn(found)
    found.gate.advance(30, found.add)
    early = drawn(found)
    assert re.search(r"inner\s+│ legacy\s+│ W = 2\s+│\s+[-+][\d.]+ \(0\) │ [█░]{10} -?[\d.]+ of \d\.\d", early)
    assert "agent since" not in early and "reward  legacy" in early
    found.gate.advance(60, found.add)
    late = drawn(found)
    since = found.gate.state.at("inner").since
    assert f"agent since {since}, +" in late and f"episode {since - 1}: Level 'inner' is handed over" in late
    before = np.mean([found.measure.value(value) for value in found.gate.rewards[: since - 1]])
    assert f"legacy {before:.4g}   last 50" in late


def test_the_screen_says_that_the_reward_before_a_flip_contains_exploration() -> None:
    settings = {"caps": [2.0], "upgrades": False, "explore": 0.2}
    made = prepare_run(HandoverRequest(settings=SMALL, host="greedy", episodes=20, gate_settings=settings))
    found = LiveView(made.gate, True, 20)
    found.gate.advance(20, found.add)
    assert "reward  legacy with exploration" in drawn(found)


def test_the_screen_of_a_gate_that_looks_from_time_to_time() -> None:
    made = prepare_run(HandoverRequest(settings=SMALL, gate="published", episodes=60))
    found = LiveView(made.gate, made.certificate, 60)
    found.gate.advance(60, found.add)
    text = drawn(found)
    assert "not a certificate" in text and re.search(r"inner\s+│ \S+.*│ (no cap|-)\s", text)


def test_without_a_gate_there_are_no_flips_on_the_screen() -> None:
    request = HandoverRequest(settings=SMALL, gate="published", gate_settings={"progressive_handover": False}, episodes=10)
    made = prepare_run(request)
    found = LiveView(made.gate, made.certificate, 10)
    assert found.add(made.gate.events) == []
    assert "No gate: the agent acts from the start, and not a certificate." in drawn(found)


def test_quiet_runs_say_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    found = watched()
    with watch_run(found.gate, 60, quiet=True) as watch:
        found.gate.advance(60, watch)
    assert capsys.readouterr() == ("", "")
