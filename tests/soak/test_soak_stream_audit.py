"""How often a gate pauses, and how often it hands over all the same, on plants that are not as declared and on plants that are.

`python tests/soak/test_soak_stream_audit.py` prints the rates of docs/claims.md.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "handover"))

from soak_size import choose
from visits_plant import Visits, gate

from aegis.handover import HOSTS, GateSettings, Handover
from aegis.worlds import make_world

pytestmark = pytest.mark.soak
RUNS, EPISODES = choose(40, 8), 400
ATTACKS = {
    "carry-over": {"later": 0.3},
    "weak carry-over": {"later": 0.2},
    "episodes interfere": {"across": 0.5},
    "episodes done again": {"redone": True},
    "propensities": {"drawn": 0.15},
    "the next episode pays": {"now": 0.15, "next": 0.3},
}
UNSEEN = {  # seen too late or too seldom: measured, and said on the page of claims
    "the next episode pays, rewards 0 or 1": {"now": 0.15, "next": 0.3, "success": True},
    "carry-over, rewards 0 or 1": {"later": 0.3, "success": True},
}
CLEAN = {
    "visits": lambda seed: gate(Visits(), seed),
    "visits at the null": lambda seed: gate(Visits(now=0.0), seed),
    "additive": lambda seed: world_gate("additive", "uniform", seed, inner_steps=5),
    "additive, sign": lambda seed: world_gate("additive", "sign:epsilon=0.3", seed, inner_steps=5),
    "clinic": lambda seed: world_gate("clinic", "uniform", seed),
}
OF_EACH = choose(40, 4)  # 200 runs of plants that are as declared
MOST_PAUSES = OF_EACH // 20  # one in a hundred


def world_gate(name: str, legacy: str, seed: int, **settings: object) -> Handover:
    """Return a gate on a simulated world."""
    from aegis.api import load_legacy

    world = make_world(name, **settings)
    return Handover(world, load_legacy(legacy, world), HOSTS["greedy"](), GateSettings(upgrades=False), seed)


def ended(run: Handover, episodes: int = EPISODES) -> tuple[bool, bool]:
    """Return whether a run has handed over anything, and whether its audit paused it."""
    run.advance(episodes)
    return any(event.kind == "flip" for event in run.events), bool(run.state.refusals)


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks_hand_over_in_at_most_one_of_eight_runs(name: str) -> None:
    found = [ended(gate(Visits(**ATTACKS[name]), seed)) for seed in range(RUNS)]  # type: ignore[arg-type]
    assert sum(flipped for flipped, _ in found) <= RUNS // 8
    assert sum(paused for _, paused in found) >= RUNS - RUNS // 8


def test_plants_that_are_as_declared_are_paused_in_at_most_one_of_a_hundred_runs() -> None:
    paused = {name: sum(ended(make(seed))[1] for seed in range(OF_EACH)) for name, make in CLEAN.items()}
    assert sum(paused.values()) <= MOST_PAUSES, paused


if __name__ == "__main__":
    for name, settings in {**ATTACKS, **UNSEEN}.items():
        found = [ended(gate(Visits(**settings), seed)) for seed in range(RUNS)]  # type: ignore[arg-type]
        print(f"{name}: {sum(one for one, _ in found)} handed over, {sum(two for _, two in found)} paused, of {RUNS}", flush=True)
    for name, make in CLEAN.items():
        found = [ended(make(seed)) for seed in range(OF_EACH)]
        print(
            f"clean {name}: {sum(one for one, _ in found)} handed over, {sum(two for _, two in found)} paused, of {OF_EACH}",
            flush=True,
        )
