"""The schedule of a gate: which arm acts in each episode, and which challengers are frozen when a freeze is due.

`GateState.next_freeze` says when a freeze is due.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from aegis.certificate import ChallengeTerms
from aegis.errors import PolicyError
from aegis.handover.challenger import Challenger, make_challenger
from aegis.handover.events import AGENT, BEFORE, LEGACY
from aegis.handover.gate_settings import FULL, STEPS, GateSettings
from aegis.handover.gate_state import GateState
from aegis.handover.hosts.base import Host, capped_steps, host_seed
from aegis.handover.risk_budget import margin_allowance
from aegis.handover.run_history import History
from aegis.ope import Comparator, capped_variation
from aegis.policies import Floored, Hybrid
from aegis.problem import Policy, Problem
from aegis.rng import stream


def draw_arm(settings: GateSettings, state: GateState, seed: int, episode: int) -> str:
    """Return the arm of an episode, counted from 1; it is drawn from the seed, so that it does not depend on the episode.

    Episodes that are held back, or left to what acted before, are no part of any test: what is tested is compared with the
    policies that are in control now.
    """
    if not state.deployed or (settings.holdback == 0.0 and (settings.stage == 0 or settings.share == 1.0)):
        return AGENT
    held, staged = stream(seed, "arm", episode).random(2)
    if held < settings.holdback:
        return LEGACY
    latest = max(item.since for item in state.deployed)
    return BEFORE if episode < latest + settings.stage and staged >= settings.share else AGENT


def acting_policy(problem: Problem, legacy: Policy, deployed: Mapping[str, Policy]) -> Policy:
    """Return deployed policies at their levels and the legacy elsewhere, as one policy."""
    policy = legacy
    for level in problem.names:
        if level in deployed:
            policy = Hybrid(problem, [level], deployed[level], policy)
    return policy


def previous_policy(
    problem: Problem, legacy: Policy, deployed: Mapping[str, Policy], state: GateState, retired: Mapping[str, Policy]
) -> Policy:
    """Return what acted before the last flip: there the policy it replaced, or the legacy."""
    latest = max(state.deployed, key=lambda item: item.since).level
    others = {level: policy for level, policy in deployed.items() if level != latest}
    if latest in retired:
        others[latest] = retired[latest]
    return acting_policy(problem, legacy, others)


def freeze_challengers(host: Host, history: History, state: GateState, changed: Mapping[str, int], seed: int) -> list[Challenger]:
    """Return what a host proposes for the levels of a gate, frozen.

    changed: how often each level has changed hands since the legacy had it last. seed: of the run, which a host that is not of
    this package does not get to know (`seed_for`). Raises PolicyError, naming host and level, if a proposal cannot be frozen.
    """
    problem, legacy, settings = history.problem, history.legacy, state.settings
    floor, upgrades = settings.floor, settings.upgrades and settings.floor > 0
    levels = [name for name in state.levels if state.at(name) is None or upgrades]
    prior, challengers, incumbent = history.phase(), [], history.comparator
    for level, proposal in host.propose(history, levels, host_seed(host, seed)).items():
        for cap, new in capped_steps(
            problem, legacy, level, proposal, caps_for_level(state, level, level in incumbent.levels)
        ).items():
            policy = Floored(problem, new, legacy, floor, [level])
            comparator = incumbent.at(level) if state.at(level) is None else None
            terms = ChallengeTerms(
                variation=largest_variation(level, cap, floor, comparator),
                allowed=margin_allowance(changed.get(level, 0), upgrades),
                levels=len(state.levels),
                comparator=comparator or Comparator(),
            )
            try:
                challengers.append(make_challenger(problem, level, cap, policy, terms, proposal.prediction, prior))
            except PolicyError as error:
                raise PolicyError(f"host '{host.name}', level '{level}': {error}") from error
    return challengers


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


def caps_for_level(state: GateState, level: str, explored: bool = False) -> tuple[float, ...]:
    """Return the caps of challengers at a level; explored: the legacy there explores around a stated incumbent."""
    now = state.at(level)
    if now is None:
        return state.settings.caps or (FULL if explored else STEPS)
    least = math.inf if now.cap is None else now.cap
    return tuple(cap for cap in state.settings.wider if cap >= least)
