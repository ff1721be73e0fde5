"""One, two or three levels: each changes hands by itself, and what acts in the end earns more."""

from __future__ import annotations

import pytest
from guarded_plant import Bed

from aegis.handover import HOSTS, CausalHost, Flipped, GateSettings, Handover
from aegis.mechanisms import MODELS
from aegis.planning import Greedy
from aegis.worlds import make_world, true_value

QUICK = GateSettings(caps=(2.0,), upgrades=False)


def order(run: Handover) -> list[str]:
    return [event.level for event in run.events if isinstance(event, Flipped)]


def test_one_level() -> None:
    bed = Bed(1.0)
    run = Handover(bed, bed.legacy, HOSTS["greedy"](), QUICK, 1)
    run.advance(100)
    assert order(run) == ["watering"]


@pytest.mark.parametrize(
    ("world", "legacy", "episodes"),
    [("additive", "uniform", 260), pytest.param("plant", "natural:epsilon=0.3", 600, marks=pytest.mark.ci)],
)
def test_every_level_of_a_world_is_handed_over(world: str, legacy: str, episodes: int) -> None:
    plant = make_world(world)
    host = CausalHost("polynomial", Greedy(), {"polynomial": MODELS["polynomial"]})
    run = Handover(plant, plant.legacy(legacy), host, QUICK, 1)
    while run.state.episode < episodes and len(run.deployed) < len(plant.problem.levels):
        run.advance(min(run.state.episode + 20, episodes))
    assert sorted(order(run)) == sorted(plant.problem.names)
    assert true_value(plant, run.acting) > true_value(plant, run.legacy)
