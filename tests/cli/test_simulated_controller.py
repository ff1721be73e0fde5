"""A simulated control system: it asks for every decision, and takes what the gate answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from aegis.cli.simulated_controller import make_simulated_plant, run_episode
from aegis.errors import SettingError


@dataclass
class Choice:
    """An answer of the gate."""

    id: str
    action: Any


@dataclass
class FirstAction:
    """A gate, and an episode of it, that always answers with the first action; it writes down what it is asked."""

    problem: Any
    asked: list[tuple[str, dict[str, Any], Any]] = field(default_factory=list)
    results: list[dict[str, Any]] = field(default_factory=list)
    closed: bool = False

    def open_episode(self, name: str, time: Any) -> FirstAction:
        return self

    def decide(self, level: str, context: dict[str, Any], legacy: dict[str, Any], parent: Any, available: Any) -> Choice:
        self.asked.append((level, legacy, parent))
        return Choice(f"{level}-{len(self.asked)}", self.problem.level(level).actions.values[0])

    def report_all(self, results: list[dict[str, Any]]) -> None:
        self.results += results

    def close(self) -> None:
        self.closed = True


def test_every_decision_is_asked_for_below_its_own_parent_and_reported() -> None:
    plant = make_simulated_plant("additive", "natural:epsilon=0.3", {"inner_steps": 3})
    gate = FirstAction(plant.problem)
    run_episode(plant, gate, 0)  # type: ignore[arg-type]
    outer, inner = plant.problem.names
    levels = [level for level, _, _ in gate.asked]
    assert levels.count(inner) == 3 * levels.count(outer) == len(gate.results) and gate.closed
    parents = {parent.id for level, _, parent in gate.asked if level == inner}
    assert parents == {f"{outer}-{place + 1}" for place, level in enumerate(levels) if level == outer}
    for _, legacy, _ in gate.asked:
        assert np.isclose(sum(legacy["distribution"]), 1)
    assert [item["decision"] for item in gate.results] == [f"{level}-{n}" for n, level in enumerate(levels, 1) if level == inner]


def test_an_unknown_world_is_named() -> None:
    with pytest.raises(SettingError, match="did you mean 'additive'"):
        make_simulated_plant("aditive", "uniform", {})
