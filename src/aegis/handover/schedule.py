"""The schedule of a gate: when challengers are frozen, and who acts in each episode."""

from __future__ import annotations

from collections.abc import Mapping

from aegis.handover.events import AGENT, BEFORE, LEGACY
from aegis.handover.gate_settings import GateSettings
from aegis.handover.gate_state import GateState
from aegis.policies import Hybrid
from aegis.problem import Policy, Problem
from aegis.rng import stream


def next_freeze(state: GateState) -> int:
    """Return the unit after which challengers are frozen next: `start + first 2^s` after s freezes since the phase began."""
    return state.start + state.settings.first * 2**state.freezes


def freeze_is_due(state: GateState) -> bool:
    """Say whether challengers are to be frozen now."""
    return state.paused is None and state.episode >= next_freeze(state)


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
