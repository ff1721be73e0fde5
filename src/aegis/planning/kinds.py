"""The table of everything a policy folder may hold, planned policies and reward models included."""

from __future__ import annotations

from pathlib import Path

from aegis.errors import PolicyError
from aegis.mechanisms import LevelRewards
from aegis.planning.planned import Planned
from aegis.planning.planned_values import PlannedValues
from aegis.planning.scores import Likeliest, Pessimistic
from aegis.policies import POLICIES, Storable, load_stored
from aegis.policies import load_policy as load_one_of
from aegis.problem import Policy, Problem

KINDS: dict[str, type[Storable]] = {
    **POLICIES,
    "planned": Planned,
    "planned_values": PlannedValues,
    "level_rewards": LevelRewards,
    Pessimistic.kind: Pessimistic,
    Likeliest.kind: Likeliest,
}


def load_policy(folder: str | Path, problem: Problem) -> Policy:
    """Return the policy stored in a folder for `problem`, whatever its kind; raises PolicyError if it cannot be used."""
    return load_one_of(folder, problem, KINDS)


def load_rewards(folder: str | Path, problem: Problem) -> LevelRewards:
    """Return the reward models stored in a folder for `problem`."""
    found = load_stored(folder, problem, KINDS)
    if not isinstance(found, LevelRewards):
        raise PolicyError(f"{folder} holds a {type(found).__name__}, not reward models")
    return found
