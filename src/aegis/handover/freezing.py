"""What is frozen when a freeze is due: one challenger for each level and cap, and a host's policy as it is."""

from __future__ import annotations

import math
from collections.abc import Mapping

from aegis.certificate.comparator import Comparator, capped_variation
from aegis.errors import PolicyError
from aegis.handover.budget import allowance
from aegis.handover.challengers import Challenger, make_challenger
from aegis.handover.history import History
from aegis.handover.hosts import Host, seed_for, steps
from aegis.handover.settings import FULL, STEPS
from aegis.handover.state import GateState
from aegis.policies import Floored


def challengers_of(host: Host, history: History, state: GateState, changed: Mapping[str, int], seed: int) -> list[Challenger]:
    """Return what a host proposes for the levels of a gate, frozen.

    changed: how often each level has changed hands since the legacy had it last. seed: of the run, which a host that is not of
    this package does not get to know (`seed_for`). Raises PolicyError, naming host and level, if a proposal cannot be frozen.
    """
    problem, legacy, settings = history.problem, history.legacy, state.settings
    floor, upgrades = settings.floor, settings.upgrades and settings.floor > 0
    levels = [name for name in state.levels if state.at(name) is None or upgrades]
    prior, made, incumbent = history.phase(), [], history.comparator
    for level, proposal in host.propose(history, levels, seed_for(host, seed)).items():
        for cap, new in steps(problem, legacy, level, proposal, caps_at(state, level, level in incumbent.levels)).items():
            policy = Floored(problem, new, legacy, floor, [level])
            comparator = incumbent.at(level) if state.at(level) is None else None
            variation = largest_variation(level, cap, floor, comparator)
            share = allowance(changed.get(level, 0), upgrades)
            among = len(state.levels)
            try:
                made.append(
                    make_challenger(problem, level, cap, policy, variation, proposal.prediction, prior, share, among, comparator)
                )
            except PolicyError as error:
                raise PolicyError(f"host '{host.name}', level '{level}': {error}") from error
    return made


def largest_variation(level: str, cap: float, floor: float, comparator: Comparator | None) -> float:
    """Return the largest total variation between a challenger and its comparator at a level.

    The challenger is capped at `cap` times the legacy, and leaves a share `floor` of its decisions to the legacy. comparator: the
    incumbent; None for an upgrade, which is compared with the policy in control and may move all of its probability.
    """
    if comparator is None:
        return 1.0 - floor
    if level not in comparator.levels:  # the legacy is the incumbent
        return (1.0 - floor) * (1.0 - 1.0 / cap)
    rate = comparator.rates.get(level)
    return 1.0 if rate is None else (1.0 - floor) * capped_variation(cap, rate) + floor * rate


def caps_at(state: GateState, level: str, explored: bool = False) -> tuple[float, ...]:
    """Return the caps of challengers at a level; explored: the legacy there explores around a stated incumbent."""
    now = state.at(level)
    if now is None:
        return state.settings.caps or (FULL if explored else STEPS)
    least = math.inf if now.cap is None else now.cap
    return tuple(cap for cap in state.settings.wider if cap >= least)
