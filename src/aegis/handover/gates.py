"""The gates by name, with one signature: (plant, legacy, host, settings, seed).

| name | decides by | a certificate |
|---|---|---|
| `challenger` | frozen challengers with caps and water-filled bets, on units that start after the freeze | yes |
| `pac-bayes` | the sharp PAC-Bayes bound with a data-free prior, on the log of the phase | yes |
| `published` | Algorithm 2 of the paper as published | no |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, Protocol, TypeVar

from aegis.errors import SettingError, choose
from aegis.handover.checks import refuse_interval
from aegis.handover.events import Event
from aegis.handover.hosts import Host
from aegis.handover.pac_bayes import PacBayes, PacBayesSettings
from aegis.handover.published import Published, PublishedSettings
from aegis.handover.run import Handover
from aegis.handover.settings import GateSettings
from aegis.handover.state import GateState
from aegis.problem import Batch, Plant, Policy, Problem

Own = TypeVar("Own", PacBayesSettings, PublishedSettings)
SHARED = ("delta", "levels")  # settings that every gate has
CERTIFICATE = "certified on units that start after what is tested was frozen"


class AnyGate(Protocol):
    """What all gates have in common."""

    state: GateState
    events: list[Event]
    batches: tuple[Batch, ...]
    arms: list[str]
    rewards: list[float]
    deployed: dict[str, Policy]

    @property
    def problem(self) -> Problem:
        """Return the plant's problem."""
        ...

    @property
    def acting(self) -> Policy:
        """Return who is in control now."""
        ...

    def advance(self, episodes: int, watch: Callable[[Sequence[Event]], None] | None = None) -> None:
        """Run until so many episodes have closed."""
        ...

    def restore(self, events: Iterable[Event]) -> None:
        """Take up a run from its events."""
        ...


def _challenger(plant: Plant, legacy: Policy, host: Host, settings: Any, seed: int) -> Handover:
    if not isinstance(settings, GateSettings):
        settings = GateSettings.of(_mapping(settings, "challenger"))
    return Handover(plant, legacy, host, settings, seed)


def _pac_bayes(plant: Plant, legacy: Policy, host: Host, settings: Any, seed: int) -> PacBayes:
    return PacBayes(plant, legacy, host, _own(PacBayesSettings, settings, "pac-bayes"), seed)


def _published(plant: Plant, legacy: Policy, host: Host, settings: Any, seed: int) -> Published:
    return Published(plant, legacy, host, _own(PublishedSettings, settings, "published"), seed)


GATES: Mapping[str, Callable[[Plant, Policy, Host, Any, int], AnyGate]] = {
    "challenger": _challenger,
    "pac-bayes": _pac_bayes,
    "published": _published,
}


def make_gate(name: str, plant: Plant, legacy: Policy, host: Host, settings: Any = None, seed: int = 0) -> AnyGate:
    """Return a gate by name.

    settings: those of the gate, plain data from which they are made, None for the defaults; or the settings of a challenger gate
    in which nothing is set that this gate does not have.
    """
    choose(name, GATES, "gate")
    refuse_interval(plant.problem)
    return GATES[name](plant, legacy, host, settings, seed)


def label_of(gate: AnyGate) -> str:
    """Return what must stand next to the results of a gate."""
    return str(getattr(gate, "label", CERTIFICATE))


def is_certificate(gate: AnyGate) -> bool:
    """Say whether what a gate hands over is certified to be no worse."""
    return bool(getattr(gate, "certificate", True))


def _own(kind: type[Own], settings: Any, gate: str) -> Own:
    if isinstance(settings, kind):
        return settings
    if isinstance(settings, GateSettings):
        usual = GateSettings()
        other = [item.name for item in fields(GateSettings) if getattr(settings, item.name) != getattr(usual, item.name)]
        lost = [name for name in other if name not in SHARED]
        if lost:
            raise SettingError(f"the gate '{gate}' has no '{lost[0]}'; leave it out or use the gate 'challenger'")
        settings = {name: getattr(settings, name) for name in SHARED}
    return kind.of(_mapping(settings, gate))


def _mapping(settings: Any, gate: str) -> Mapping[str, Any]:
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        raise SettingError(f"settings of the gate '{gate}' are names with values, found a {type(settings).__name__}")
    return settings
