"""Who acts in an episode: the deployed policies, what acted before the last flip, or the legacy alone."""

from __future__ import annotations

from collections.abc import Mapping

from aegis.handover.settings import GateSettings
from aegis.handover.state import GateState
from aegis.policies import Hybrid
from aegis.problem import Policy, Problem
from aegis.rng import stream

AGENT, BEFORE, LEGACY = "agent", "before", "legacy"


def arm_of(settings: GateSettings, state: GateState, seed: int, episode: int) -> str:
    """Return who acts in an episode, counted from 1; drawn for each episode, whatever happens in it.

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
    found = legacy
    for level in problem.names:
        if level in deployed:
            found = Hybrid(problem, [level], deployed[level], found)
    return found


def policy_before(
    problem: Problem, legacy: Policy, deployed: Mapping[str, Policy], state: GateState, retired: Mapping[str, Policy]
) -> Policy:
    """Return what acted before the last flip: there the policy it replaced, or the legacy."""
    latest = max(state.deployed, key=lambda item: item.since).level
    others = {level: policy for level, policy in deployed.items() if level != latest}
    if latest in retired:
        others[latest] = retired[latest]
    return acting_policy(problem, legacy, others)
