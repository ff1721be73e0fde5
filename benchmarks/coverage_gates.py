"""Gates and identities of coverage: what must not be handed over or certified, by name, each as a task of single runs.

The world: an additive one with five inner actions whose legacy means to take 1 and explores in four of ten decisions. Exploring
costs, so that the incumbent, who does not explore, earns more than the log. The challengers earn more than the log as well.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from aegis.certificate import certify
from aegis.files import json_digest
from aegis.handover import Flipped, GateSettings, Handover, History
from aegis.handover.hosts.external import ExternalHost
from aegis.logs import Source, to_table
from aegis.policies import Function, without_exploration
from aegis.problem import Array, Level, Policy, Rows
from aegis.rng import stream
from aegis.validation import problem_with_comparator
from aegis.worlds import World, make_world
from coverage_studies import two_neighbours

LEGACY = "constant:value=1,epsilon=0.4"
LOW = "constant:value=-2,epsilon=0.4"  # so bad that a first handover comes soon
HIGH = "constant:value=2,epsilon=0.4"  # the best, but for its exploration
EPISODES, LONG = 150, 200
LOG = 120


def swinging(level: Level, rows: Rows) -> Array:
    """Take 2 where the task T is negative and 0 elsewhere: T is symmetric and enters no reward, so that the gain over 1 is 0."""
    return two_neighbours(level.actions.numbers, np.where(rows["T"] < 0, 2.0, 0.0))


def worse(level: Level, rows: Rows) -> Array:
    """Do a little less than `swinging`."""
    return two_neighbours(level.actions.numbers, np.where(rows["T"] < 0, 2.0, -0.1))


def highest(level: Level, rows: Rows) -> Array:
    """Always take 2, the best there is."""
    return two_neighbours(level.actions.numbers, np.full(len(rows["T"]), 2.0))


def steady(level: Level, rows: Rows) -> Array:
    """Always take 1, which earns as much as `swinging`."""
    return two_neighbours(level.actions.numbers, np.ones(len(rows["T"])))


@dataclass(frozen=True, slots=True)
class Climbing:
    """Proposes `steady` for the first handover, and after it `swinging`, which is no better."""

    def propose(self, history: History, levels: Sequence[str], seed: int) -> Mapping[str, Policy]:
        """Return the policy of the phase."""
        return {"inner": Function(history.problem, swinging if history.start else steady)} if "inner" in levels else {}


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate in which nothing, or nothing but a first handover, may be put in control.

    wrong: the kind of flip that must not happen. A run says whether it did, and whether the other kind did.
    """

    source: Any
    settings: GateSettings
    legacy: str = LEGACY
    episodes: int = EPISODES
    wrong: str = "handover"
    over: str = "incumbent"

    @property
    def key(self) -> str:
        """Return the digest of everything that a run depends on."""
        function = getattr(self.source, "__name__", repr(self.source))
        return json_digest([function, repr(self.settings), self.episodes, self.wrong, self.legacy, repr(gated())])

    def prepare(self) -> Callable[[int], list[dict[str, Any]]]:
        """Return what does one run."""
        world = gated()
        legacy = world.legacy(self.legacy)
        source = Function(world.problem, self.source) if callable(self.source) else self.source
        host = ExternalHost(source, ("inner",) if callable(self.source) else ())

        def run(number: int) -> list[dict[str, Any]]:
            gate = Handover(world, legacy, host, self.settings, int(stream(1, "gate of coverage", number).integers(2**62)))
            gate.advance(self.episodes)
            kinds = {event.action for event in gate.events if isinstance(event, Flipped)}
            return [{"wrong": self.wrong in kinds, "other": bool(kinds - {self.wrong})}]

        return run


@dataclass(frozen=True, slots=True)
class Identity:
    """A log certified with the incumbent itself as the candidate: refused as identical, never certified."""

    over: str = "incumbent"

    @property
    def key(self) -> str:
        """Return the digest of everything that a run depends on."""
        return json_digest(["identity", LEGACY, LOG, repr(gated())])

    def prepare(self) -> Callable[[int], list[dict[str, Any]]]:
        """Return what does one run."""
        world = gated()
        legacy = world.legacy(LEGACY)
        problem, candidate = problem_with_comparator(world.problem, legacy), without_exploration(legacy)

        def run(number: int) -> list[dict[str, Any]]:
            log = world.episodes(0, LOG, legacy, int(stream(1, "identity of coverage", number).integers(2**62)))
            found = certify(Source(to_table(log, problem), problem), candidate, scopes=[["inner"]], ledger=False)
            (level,) = found.levels
            return [{"wrong": level.verdict != "refused", "other": "[identical]" in level.reason}]

        return run


@cache
def gated() -> World:
    """Return the world of the gates."""
    return make_world("additive", inner_steps=1, inner_points=5)


def gates() -> dict[str, Gate | Identity]:
    """Return all gates and identities by name."""
    single = GateSettings(levels=("inner",), caps=(math.inf,), patience=1.0)
    exact = single.model_copy(update={"floor": 0.0, "upgrades": False})
    return {
        "gate, exact null": Gate(swinging, exact),
        "gate, slightly worse": Gate(worse, single),
        "gate, nothing beats the incumbent": Gate(highest, GateSettings(levels=("inner",), patience=1.0), HIGH),
        "gate, upgrade at the exact null": Gate(
            Climbing(), single.model_copy(update={"wider": (math.inf,)}), LOW, LONG, "upgrade"
        ),
        "candidate equal to the incumbent": Identity(),
    }
