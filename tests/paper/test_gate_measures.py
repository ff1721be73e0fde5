"""The measure of a gate: flips, and what came before and after the flip of each level."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from bench_cases import SETTINGS

from aegis.errors import SettingError
from aegis.handover import HOSTS, GateLook, make_gate
from aegis.paper import gate_measures
from aegis.paper.gate_measures import measure_gate
from aegis.paper.run_measures import unit_world
from aegis.worlds import true_value

PUBLISHED: dict[str, Any] = {
    "world": {"name": "additive", "f_a": 4.0, "inner_steps": 1, "inner_points": 3},
    "legacy": "sign:epsilon=0.0",
    "episodes": 1000,
    "options": {"gate": "published", "gate_settings": {"levels": ["inner"], "stride": 50, "refresh": 50}},
}


def test_a_gate_that_never_flips_earns_what_the_legacy_earns() -> None:
    (run,) = measure_gate(SETTINGS["gate"], [0])
    assert run["flip_inner"] is None and run["flipped_inner"] == run["wrong"] == run["inner_first"] == 0
    assert run["before"] is None and run["after"] is None and run["bound"] == []
    assert all(run[f"{word}_inner"] is None for word in gate_measures.PER_LEVEL[2:])
    assert run["reward"] == pytest.approx(np.mean(run["curve"]))
    world = unit_world(SETTINGS["gate"])
    assert run["legacy"] == pytest.approx(rewards(world) * true_value(world, world.legacy("uniform")))


def rewards(world: Any) -> int:
    return int(np.prod(world.steps))


@dataclass
class Recorded:
    """A run whose levels flipped at episodes of our choice; like a run of a gate, as far as the measure asks."""

    acting: Any
    flips: dict[str, int]
    looks: list[Any]
    rewards: list[float] = field(default_factory=lambda: [0.5, 0.5, 0.6, 0.7, 0.75, 0.75])
    events: list[Any] = field(default_factory=list)

    def advance(self, episodes: int, watch: Any) -> None:
        """Hand over as recorded."""
        self.events = [gate_measures.Flipped(n, "x", "handover", None, "", e, e + 1, e, 0.0, 0.0) for n, e in self.flips.items()]


def look(episode: int, level: str, gain: float | None, bound: float | None = None) -> GateLook:
    return GateLook(episode, level, gain, 0.0, "", bound=bound)


def test_rewards_and_gains_are_those_before_and_after_the_flip_of_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    world = unit_world({"world": {"name": "additive", "inner_steps": 2}})  # rewards from -10 to 10, two in an episode
    looks = [
        *(look(1, "inner", -0.5, -0.9), look(2, "inner", 0.1, -0.1), look(3, "inner", 0.2), look(4, "inner", 0.4, 0.0)),
        *(look(1, "meta", None), look(2, "meta", -0.3), look(4, "meta", 0.3), look(4, "inner + meta", 9.0)),
    ]
    recorded = Recorded(world.legacy("uniform"), {"inner": 2, "meta": 4}, looks)
    monkeypatch.setattr(gate_measures, "make_gate", lambda *_: recorded)
    settings = {**SETTINGS["gate"], "world": {"name": "additive", "inner_steps": 2}}
    (run,) = measure_gate(settings, [0])
    assert run["flip_inner"] == 2 and run["flip_meta"] == 4 and run["inner_first"] == 1
    assert run["before_inner"] == run["before"] == pytest.approx(0.0)
    assert run["after_inner"] == run["after"] == pytest.approx(2 * 20 * (0.7 - 0.5))
    assert run["before_meta"] == pytest.approx(2 * 20 * (0.575 - 0.5)) and run["after_meta"] == pytest.approx(10.0)
    # The look that flipped a level belongs to neither side.
    assert run["bound_before_inner"] == pytest.approx(-10.0) and run["bound_after_inner"] == pytest.approx(20 * 0.3)
    assert run["priced_before_inner"] == pytest.approx(-18.0) and run["priced_after_inner"] == pytest.approx(0.0)
    assert run["bound_before_meta"] == pytest.approx(-6.0) and run["bound_after_meta"] is None
    assert run["priced_before_meta"] is None and run["priced_after_meta"] is None


def test_a_published_gate_that_flips_shows_what_it_computed_before() -> None:
    (run,) = measure_gate(PUBLISHED, [0])
    assert run["flipped_inner"] == 1 and run["flipped_meta"] == 0 and run["flip_meta"] is None
    assert run["after_inner"] > run["before_inner"] and run["bound_before_inner"] < 0
    world, options = unit_world(PUBLISHED), PUBLISHED["options"]["gate_settings"]
    gate: Any = make_gate("published", world, world.legacy(PUBLISHED["legacy"]), HOSTS["greedy"](), options, 0)
    gate.advance(run["flip_inner"])
    before = [own.gain for own in gate.looks if own.level == "inner" and own.gain is not None]
    low, high = world.problem.reward.range or (0.0, 1.0)
    assert run["bound_before_inner"] == pytest.approx(np.mean(before) * (high - low))


@pytest.mark.parametrize(("name", "value"), [("agent", "nested_cts"), ("standardise", False)])
def test_a_gate_has_no_agent(name: str, value: Any) -> None:
    with pytest.raises(SettingError, match=f"'{name}' is given, but the measure 'gate' has no agent"):
        measure_gate({**SETTINGS["gate"], name: value}, ())
