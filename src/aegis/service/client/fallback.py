"""The fallback of a client: the legacy's own action when the gate does not answer."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aegis.errors import InputError
from aegis.problem import Problem

KEYS = ("distribution", "action", "epsilon", "taken", "incumbent")


@dataclass(frozen=True, slots=True)
class ProblemFacts:
    """What a client knows of the problem. actions: by level, in the order of the problem file. uniform: the legacy draws
    uniformly everywhere, the problem file says, so that it need not be sent."""

    actions: Mapping[str, Sequence[Any]]
    uniform: bool = False

    @classmethod
    def of(cls, problem: Problem) -> ProblemFacts:
        """Return what a problem says."""
        uniform = all(level.propensity is not None and level.propensity.policy == "uniform" for level in problem.levels)
        return cls({level.name: list(level.actions.values) for level in problem.levels}, uniform)

    @classmethod
    def told(cls, answer: Mapping[str, Any]) -> ProblemFacts:
        """Return what a gate says."""
        return cls({item["level"]: list(item["actions"]) for item in answer["levels"]}, answer["legacy"] == "uniform")

    @classmethod
    def plain(cls, kept: Mapping[str, Any] | None) -> ProblemFacts:
        """Return what was kept; nothing is known if there is none."""
        return cls({}) if kept is None else cls(**kept)


@dataclass(frozen=True, slots=True)
class LegacyAction:
    """An action of the legacy. action: None if only its index is known. chance: its probability, None if that is not known.

    explored: it was drawn as the legacy says.
    """

    action: Any
    index: int | None
    chance: float | None
    explored: bool


def draw_legacy_action(
    level: str,
    legacy: Mapping[str, Any],
    available: Sequence[bool] | None,
    facts: ProblemFacts,
    source: random.Random,
) -> LegacyAction:
    """Return what the legacy does; InputError if `legacy` does not tell: nothing is made up for a plant."""
    actions = facts.actions.get(level)
    if legacy.get("taken") is not None:
        return LegacyAction(legacy["taken"], _place(actions, legacy["taken"]), None, True)
    if actions is None and legacy.get("action") is not None:
        return LegacyAction(legacy["action"], None, None, False)
    try:
        chances = _chances(legacy, available, actions, facts.uniform)
        place = source.choices(range(len(chances)), chances)[0]
        value = None if actions is None else actions[place]
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
        if legacy.get("action") is not None:
            return LegacyAction(legacy["action"], _place(actions, legacy["action"]), None, False)
        raise InputError(
            f"the gate does not help, and what the legacy does at level '{level}' cannot be told from {dict(legacy)}: give its "
            f"'distribution', its 'action' with 'epsilon', or the action it has 'taken' ({type(error).__name__}: {error})"
        ) from error
    return LegacyAction(value, place, chances[place], True)


def _chances(
    legacy: Mapping[str, Any], available: Sequence[bool] | None, actions: Sequence[Any] | None, uniform: bool
) -> list[float]:
    unknown = sorted(set(legacy) - set(KEYS))
    if unknown:
        raise ValueError(f"there is no '{unknown[0]}'")
    if legacy.get("distribution") is not None:
        found = [float(value) for value in legacy["distribution"]]
        if actions is not None and len(found) != len(actions):
            raise ValueError(f"{len(found)} probabilities for {len(actions)} actions")
        if min(found) < 0.0 or not abs(sum(found) - 1.0) < 1e-3:
            raise ValueError(f"probabilities that sum to {sum(found):g}")
        return found
    if actions is None:
        raise ValueError("the actions of the level are not known yet: give them to the client")
    opened = list(available) if available is not None else [True] * len(actions)
    if legacy.get("action") is None:
        if not uniform:
            raise ValueError("nothing is said about it")
        return [can / sum(opened) for can in opened]
    epsilon = float(legacy["epsilon"])
    if not 0.0 <= epsilon <= 1.0 or legacy["action"] not in actions:
        raise ValueError(f"no action {legacy['action']!r} with a rate of exploration of {epsilon:g}")
    return [
        epsilon * can / sum(opened) + (1.0 - epsilon) * (value == legacy["action"])
        for value, can in zip(actions, opened, strict=True)
    ]


def _place(actions: Sequence[Any] | None, value: Any) -> int | None:
    return actions.index(value) if actions is not None and value in actions else None
