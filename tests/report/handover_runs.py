"""Runs of gates for pages: small, quick, and of every kind of end."""

from __future__ import annotations

from typing import Any

from aegis.handover import HOSTS, GateSettings, Handover
from aegis.paper import PublishedGate, PublishedSettings
from aegis.worlds import World, make_world


def world() -> World:
    return make_world("additive", f_a=2.0, inner_steps=3)


def challenger(episodes: int, seed: int = 1, **settings: Any) -> Handover:
    """Return a run of the challenger gate; after about 50 episodes the inner level changes hands."""
    plant = world()
    chosen = GateSettings(**{"caps": (2.0,), "upgrades": False, **settings})
    found = Handover(plant, plant.legacy("uniform"), HOSTS["greedy"](), chosen, seed)
    found.advance(episodes)
    return found


def published(episodes: int, **settings: Any) -> PublishedGate:
    """Return a run of the published gate."""
    plant = world()
    found = PublishedGate(plant, plant.legacy("uniform"), HOSTS["greedy"](), PublishedSettings(**settings), 1)
    found.advance(episodes)
    return found
