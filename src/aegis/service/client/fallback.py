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
    """What a client knows of the problem. actions: by level, in the order of the problem file.

    uniform: the problem file says that the legacy draws uniformly everywhere, so that it need not be sent. rewarded: the level
    whose decisions get rewards, empty if whole episodes do; None if that is not known.
    """

    actions: Mapping[str, Sequence[Any]]
    uniform: bool = False
    rewarded: str | None = None

    @classmethod
    def of(cls, problem: Problem) -> ProblemFacts:
        """Return the facts of a problem."""
        uniform = all(level.propensity is not None and level.propensity.policy == "uniform" for level in problem.levels)
        rewarded = _rewarded_level([level.name for level in problem.levels], problem.reward.per)
        return cls({level.name: list(level.actions.values) for level in problem.levels}, uniform, rewarded)

    @classmethod
    def from_answer(cls, answer: Mapping[str, Any]) -> ProblemFacts:
        """Return the facts from a gate's answer to `/v1/problem`."""
        rewarded = _rewarded_level([item["level"] for item in answer["levels"]], answer["reward"]["per"])
        actions = {item["level"]: list(item["actions"]) for item in answer["levels"]}
        return cls(actions, answer["legacy"] == "uniform", rewarded)


def _rewarded_level(levels: Sequence[str], per: str) -> str:
    """Return the level whose decisions get rewards; empty if whole episodes do."""
    return "" if per == "episode" else levels[-1] if per == "decision" else per


@dataclass(frozen=True, slots=True)
class LegacyAction:
    """An action of the legacy. action: None if only its index is known. chance: its probability, None if that is not known.

    explored: it was drawn as the legacy says.
    """

    action: Any
    index: int | None
    chance: float | None
    explored: bool


def explore_uniformly(chosen: int, epsilon: float, available: Sequence[bool]) -> list[float]:
    """Return the probabilities of a controller that means one action and draws uniformly instead at the rate `epsilon`.

    At the rate 1 these are uniform over what is available.
    """
    count = sum(available)
    return [epsilon * can / count + (1.0 - epsilon) * (place == chosen) for place, can in enumerate(available)]


def draw_legacy_action(
    level: str,
    legacy: Mapping[str, Any],
    available: Sequence[bool] | None,
    facts: ProblemFacts,
    source: random.Random,
) -> LegacyAction:
    """Return what the legacy does; InputError if it does not follow from `legacy`: nothing is invented for a plant."""
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
            f"the gate does not help, and what the legacy does at level '{level}' does not follow from {dict(legacy)}: give its "
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
        chances = [float(value) for value in legacy["distribution"]]
        if actions is not None and len(chances) != len(actions):
            raise ValueError(f"{len(chances)} probabilities for {len(actions)} actions")
        if min(chances) < 0.0 or not abs(sum(chances) - 1.0) < 1e-3:
            raise ValueError(f"probabilities that sum to {sum(chances):g}")
        return chances
    if actions is None:
        raise ValueError("the actions of the level are not known yet: give them to the client")
    mask = [True] * len(actions) if available is None else available
    if legacy.get("action") is None:
        if not uniform:
            raise ValueError("it holds neither a distribution nor an action")
        return explore_uniformly(0, 1.0, mask)
    epsilon = float(legacy["epsilon"])
    if not 0.0 <= epsilon <= 1.0 or legacy["action"] not in actions:
        raise ValueError(f"no action {legacy['action']!r} with a rate of exploration of {epsilon:g}")
    if len(mask) != len(actions):
        raise ValueError(f"{len(mask)} flags for {len(actions)} actions")
    return explore_uniformly(actions.index(legacy["action"]), epsilon, mask)


def _place(actions: Sequence[Any] | None, value: Any) -> int | None:
    return actions.index(value) if actions is not None and value in actions else None
