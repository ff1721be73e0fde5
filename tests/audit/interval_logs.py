"""Logs with an action on an interval."""

from __future__ import annotations

from aegis.audit import Audit, Auditor
from aegis.problem import Array, Batch
from aegis.worlds import World, make_world

CUT, CLIP = make_world("dosing"), make_world("dosing", ends="clip", natural_sd=4.0)


def log(world: World, seed: int = 5, count: int = 400) -> Batch:
    return world.episodes(0, count, world.legacy("natural"), seed)


def audited(world: World, batch: Batch) -> Audit:
    auditor = Auditor(world.problem)
    auditor.add(batch)
    return auditor.result()


def exact(batch: Batch) -> Array:
    value = batch.levels["dose"].value
    assert value is not None
    return value
