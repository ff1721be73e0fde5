"""Gates by name, with one signature: (plant, legacy, host, settings, seed). Only `challenger` is built in.

Other packages add theirs with `register_gate`; the command line registers those of `aegis.paper`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from aegis.errors import SettingError, check_choice
from aegis.handover.gate_settings import GateSettings, refuse_interval_actions
from aegis.handover.hosts.base import Host
from aegis.handover.plant_runner import GateRun, Handover
from aegis.problem import Plant, Policy

SHARED = ("delta", "levels")  # settings that every gate has


@dataclass(frozen=True, slots=True)
class GateKind:
    """A kind of gate: `make(plant, legacy, host, settings, seed)` builds a run, `settings` is the class of its settings."""

    make: Callable[..., GateRun]
    settings: type[Any]


GATES: dict[str, GateKind] = {"challenger": GateKind(Handover, GateSettings)}


def register_gate(name: str, kind: GateKind) -> None:
    """Add a kind of gate under a name; SettingError if another kind has it."""
    if GATES.setdefault(name, kind) != kind:
        raise SettingError(f"there is another gate '{name}' already; register yours under a name of its own")


def make_gate(name: str, plant: Plant, legacy: Policy, host: Host, settings: Any = None, seed: int = 0) -> GateRun:
    """Return a gate by name.

    settings: those of the gate, plain data from which they are made, None for the defaults; or the settings of a challenger gate
    in which nothing is set that this gate does not have.
    """
    check_choice(name, GATES, "gate")
    refuse_interval_actions(plant.problem)
    return GATES[name].make(plant, legacy, host, _settings(name, settings), seed)


def _settings(gate: str, settings: Any) -> Any:
    """Return the settings of a gate from what is given; SettingError if it has no such setting."""
    kind = GATES[gate].settings
    if isinstance(settings, kind):
        return settings
    if isinstance(settings, GateSettings):
        usual = GateSettings()
        other = [name for name in GateSettings.model_fields if getattr(settings, name) != getattr(usual, name)]
        lost = [name for name in other if name not in SHARED]
        if lost:
            raise SettingError(f"the gate '{gate}' has no '{lost[0]}'; leave it out or use the gate 'challenger'")
        settings = {name: getattr(settings, name) for name in SHARED}
    if settings is not None and not isinstance(settings, Mapping):
        raise SettingError(f"settings of the gate '{gate}' are names with values, found a {type(settings).__name__}")
    return kind.of(settings or {})
