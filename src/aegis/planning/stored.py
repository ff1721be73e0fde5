"""Planned policies in policy folders: their frozen parts, packed as plain data and arrays."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aegis.errors import PolicyError
from aegis.mechanisms import MECHANISM_CLASSES, Packed, pack, unpack
from aegis.planning.bernoulli_mix import MixChoice
from aegis.planning.by_level import ByLevelChoice
from aegis.planning.commits import Commit
from aegis.planning.d_optimal import DOptimalChoice
from aegis.planning.greedy import GreedyChoice
from aegis.planning.ids import IdsChoice
from aegis.planning.information import Information
from aegis.planning.integration import Integration
from aegis.planning.thompson import ThompsonChoice
from aegis.planning.top_k import TopKChoice
from aegis.planning.ucb import SpreadChoice
from aegis.problem import Problem, State

PLANNING_CLASSES: dict[str, type] = MECHANISM_CLASSES | {
    found.__name__: found
    for found in (
        ByLevelChoice, Commit, DOptimalChoice, GreedyChoice, IdsChoice, Information, Integration, MixChoice, SpreadChoice,
        ThompsonChoice, TopKChoice,
    )
}  # fmt: skip


def plan_state(kind: str, parts: Mapping[str, Any]) -> State:
    """Return the state of a planned policy made of `parts`; policies among them become members."""
    packed = pack(parts, PLANNING_CLASSES)
    return State(kind, {"plan": packed.tree}, packed.arrays, packed.members)


def plan_parts(state: State, problem: Problem) -> dict[str, Any]:
    """Return the parts that `plan_state` stored."""
    found = unpack(Packed(state.setting("plan"), dict(state.arrays), dict(state.members)), PLANNING_CLASSES, problem)
    if not isinstance(found, dict):
        raise PolicyError(f"policy of kind '{state.kind}': its parts are missing; restore the folder or learn it again")
    return found
