"""From what is asked of a run to its parts: plant with margins, legacy, host, settings, and the gate itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from aegis.cli.handover_asked import Asked
from aegis.errors import InputError, PolicyError, SettingError, choose, nearest
from aegis.policies import Legacy
from aegis.problem import Batch, Plant, Policy, Problem, Seen, content_digest, episode_hashes
from aegis.worlds import World

EXTERNAL = "external"
LOOKED_AT = 16  # episodes of the legacy that are compared with those a policy was learned from
FEW, OFTEN = 3, 5.0  # so many that are the same, and so much more often than by chance, are no chance


@dataclass(frozen=True, slots=True)
class WithMargins:
    """A plant whose levels change hands for a larger gain than it says itself."""

    plant: Plant
    problem: Problem

    def episodes(self, first: int, count: int, policy: Policy, seed: int) -> Batch:
        """Run episodes as the plant does."""
        return self.plant.episodes(first, count, policy, seed)


@dataclass(frozen=True, slots=True)
class Made:
    """A run that can begin. world: the simulated one, whose truth is known; None for a plant of the user's own.

    certificate: whether what this gate says is one.
    """

    asked: Asked
    gate: Any
    legacy: Policy
    world: World | None
    certificate: bool


def make(asked: Asked) -> Made:
    """Return the run; SettingError or PolicyError for what does not exist or does not fit."""
    from aegis.cli.objects import load_plant
    from aegis.handover.gates import is_certificate, make_gate
    from aegis.paper import register_gates
    from aegis.worlds import make_world

    register_gates()
    for name in ("preset", "shift"):
        if name in asked.settings:
            raise SettingError(f"--set changes parameters of the world; write --{name} {asked.settings[name]} instead")
    check_names(asked)
    plant: Plant = (
        load_plant(asked.plant) if asked.plant is not None else make_world(asked.world, preset=asked.preset, **asked.settings)
    )
    judged = _with_margins(plant, asked.margins, asked.places)
    legacy = _legacy(asked.legacy, plant, judged)
    host = host_of(asked.host, judged.problem)
    if isinstance(plant, World) and Path(asked.host).is_dir():
        _check_fresh(asked, judged, legacy)
    gate = make_gate(asked.gate, judged, legacy, host, asked.gate_settings, asked.seed)
    return Made(asked, gate, legacy, plant if isinstance(plant, World) else None, is_certificate(gate))


def _check_fresh(asked: Asked, plant: Plant, legacy: Policy) -> None:
    """Raise PolicyError if a policy was learned from the very episodes that a simulation of this seed would run again."""
    from aegis.policies import load_record

    found = load_record(asked.host).get("fingerprints")
    seen = None if found is None else Seen.of(found)
    if seen is None or seen.content != content_digest(plant.problem):
        return
    again = np.isin(episode_hashes(plant.episodes(0, LOOKED_AT, legacy, asked.seed)), seen.hashes)
    if again.sum() >= FEW and again.mean() > OFTEN * seen.chance:
        raise PolicyError(
            f"--host {asked.host} was learned from episodes that --seed {asked.seed} runs again: evidence for a policy is on "
            "episodes that it has not seen; give another --seed"
        )


def check_names(asked: Asked) -> None:
    """Raise InputError naming file and line for a setting in a file that neither world nor gate has."""
    from aegis.handover.gates import GATES
    from aegis.paper import register_gates
    from aegis.worlds import ALL_WORLDS

    register_gates()
    gate = GATES.get(asked.gate)
    kinds: dict[str, Any] = {"set": ALL_WORLDS.get(asked.world), "gate-set": None if gate is None else gate.settings}
    for table, kind in kinds.items():
        known = [] if kind is None else [part.name for part in fields(kind) if part.init]
        for place, where in asked.places.items():
            within, _, key = place.partition(" ")
            if known and within == table and key not in (*known, "preset", "shift"):
                raise InputError(f"{where}: unknown key '{key}' in '{table}'{nearest(key, known)}; allowed: {', '.join(known)}")


def _legacy(reference: str, plant: Plant, judged: Plant) -> Policy:
    """Return the legacy, made for the problem with its margins."""
    from aegis.cli.objects import load_legacy

    if not isinstance(plant, World):
        return load_legacy(reference, judged)
    found = load_legacy(reference, plant)
    return replace(found, problem=judged.problem) if isinstance(found, Legacy) else found


def host_of(name: str, problem: Problem) -> Any:
    """Return a host by its name, or the user's own policy or learner as one."""
    from aegis.handover import HOSTS

    own = [word for word in HOSTS if word != EXTERNAL]
    if ":" in name or (name not in own and Path(name).is_dir()):  # ./ncts is a folder, ncts is the host
        return HOSTS[EXTERNAL](_own(name, problem))
    if name == EXTERNAL:
        raise SettingError("host 'external' is a policy or a learner of your own: write --host module:object, or a policy folder")
    if name not in own:
        raise SettingError(
            f"unknown host '{name}'{nearest(name, own)}; allowed: {', '.join(own)}, or your own module:object or policy folder"
        )
    return HOSTS[name]()


def _own(reference: str, problem: Problem) -> Any:
    """Return the object with `propose` that a reference names, else the policy."""
    from aegis.cli.candidates import load_candidate
    from aegis.cli.references import load_object

    if not Path(reference).is_dir():
        found = load_object(reference, "a host of your own", "greenhouse:learner", SettingError)
        found = found() if isinstance(found, type) else found
        if callable(getattr(found, "propose", None)):
            return found
    return load_candidate(reference, problem).policy


def _with_margins(plant: Plant, margins: Mapping[str, float], places: Mapping[str, str]) -> Plant:
    if not margins:
        return plant
    problem = plant.problem
    for level in margins:
        if level:
            where = places.get(f"margin {level}")
            choose(level, problem.names, "level of --margin" + ("" if where is None else f" ({where})"))
    levels = tuple(replace(level, margin=margins.get(level.name, margins.get("", level.margin))) for level in problem.levels)
    return WithMargins(plant, replace(problem, levels=levels))
