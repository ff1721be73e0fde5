"""What is sent, checked against the problem: contexts, masks, the legacy's probabilities, results, what an operator wants.

Everything that does not fit raises WrongRequest, which names the field and says what was expected. Values come out as arrays hold
them: numbers, or codes of categories.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aegis.errors import nearest
from aegis.handover.gate import ACTIONS
from aegis.policies.incumbent import ROUND_OFF
from aegis.problem import Level, Problem, Variable
from aegis.service.errors import WrongRequest
from aegis.service.trees import Result

SUM_TOLERANCE = 1e-6
LONGEST = 80  # characters of what was sent that an answer repeats


def level_of(problem: Problem, name: str) -> Level:
    """Return a level by its name."""
    if name not in problem.names:
        raise WrongRequest(f"level: there is no '{name}'{nearest(name, problem.names)}; levels: {', '.join(problem.names)}")
    return problem.level(name)


def context_of(level: Level, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context of a decision."""
    names = [variable.name for variable in level.context]
    for name in given:
        if name not in names:
            raise WrongRequest(f"context: level '{level.name}' has no '{name}'{nearest(name, names)}; it has {', '.join(names)}")
    missing = [name for name in names if name not in given]
    if missing:
        raise WrongRequest(f"context: '{missing[0]}' is missing; a decision at level '{level.name}' needs {', '.join(names)}")
    return {variable.name: value_of(variable, given[variable.name], "context") for variable in level.context}


def value_of(variable: Variable, given: Any, where: str) -> Any:
    """Return the value of a variable: a number, a list of them, or the code of a category."""
    if variable.kind == "categorical":
        for code, value in enumerate(variable.values):
            if given == value and isinstance(given, bool) == isinstance(value, bool):
                return code
        raise WrongRequest(f"{where}: '{variable.name}' is one of {shown(list(variable.values))}, found {shown(given)}")
    if variable.kind == "real":
        return _number(given, f"{where}: '{variable.name}'")
    if not isinstance(given, list) or len(given) != len(variable.columns):
        raise WrongRequest(f"{where}: '{variable.name}' is a list of {len(variable.columns)} numbers, found {shown(given)}")
    return [_number(value, f"{where}: '{variable.name}'") for value in given]


def mask_of(level: Level, given: Sequence[bool] | None) -> tuple[bool, ...] | None:
    """Return which actions are available; None at a level where all always are."""
    if not level.masked:
        if given is not None:
            raise WrongRequest(
                f"available: every action of level '{level.name}' is always available in this problem; leave it out"
            )
        return None
    if given is None or len(given) != level.actions.count:
        found = "nothing" if given is None else f"{len(given)} values"
        raise WrongRequest(f"available: one true or false for each of the {level.actions.count} actions, found {found}")
    if not any(given):
        raise WrongRequest("available: a decision needs at least one available action")
    return tuple(bool(item) for item in given)


def action_of(level: Level, given: Any, where: str) -> int:
    """Return the index of an action given by its value."""
    actions = level.actions
    if not actions.numeric:
        if isinstance(given, str) and given in actions.values:
            return actions.values.index(given)
    elif isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        place = int(np.argmin(np.abs(actions.numbers - given)))
        if math.isclose(actions.numbers[place], given, rel_tol=1e-9, abs_tol=1e-12):
            return place
    listed = ", ".join(map(shown, actions.values[:8])) + (", ..." if actions.count > 8 else "")
    raise WrongRequest(f"{where}: an action of level '{level.name}' is one of {listed}, found {shown(given)}")


def legacy_of_action(level: Level, action: Any, epsilon: float, mask: tuple[bool, ...] | None) -> tuple[float, ...]:
    """Return the probabilities of a legacy that means to take an action and explores uniformly at a rate."""
    if not 0.0 < epsilon <= 1.0:
        raise WrongRequest(
            f"legacy.epsilon: a rate of exploration above 0 and at most 1, found {epsilon}; a legacy that never explores "
            "cannot be compared with anything"
        )
    chosen = action_of(level, action, "legacy.action")
    opened = mask or (True,) * level.actions.count
    if not opened[chosen]:
        raise WrongRequest(f"legacy.action: {shown(action)} is not available")
    share = epsilon / sum(opened)
    return tuple(share * can + (1.0 - epsilon) * (place == chosen) for place, can in enumerate(opened))


def distribution_of(
    level: Level, given: Sequence[float], mask: tuple[bool, ...] | None, where: str = "legacy.distribution"
) -> tuple[float, ...]:
    """Return probabilities of all actions. where: the field that holds them."""
    if len(given) != level.actions.count:
        raise WrongRequest(f"{where}: one probability for each of the {level.actions.count} actions, found {len(given)}")
    values = [_number(value, where) for value in given]
    for place, value in enumerate(values):
        if not 0.0 <= value <= 1.0:
            raise WrongRequest(f"{where}: {value} is not a probability; expected numbers from 0 to 1, no logarithms or densities")
        if mask is not None and value > 0 and not mask[place]:
            raise WrongRequest(
                f"{where}: action {shown(level.actions.values[place])} has the probability {value} and is not available"
            )
    total = math.fsum(values)
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise WrongRequest(f"{where}: probabilities sum to 1, found {total:.9g}")
    return tuple(value / total for value in values)


def incumbent_of(level: Level, given: Any, mask: tuple[bool, ...] | None) -> tuple[float, ...]:
    """Return the incumbent's probabilities of all actions, given as these or as the one action that it means to take."""
    where = "legacy.incumbent"
    if isinstance(given, list | tuple):
        return distribution_of(level, given, mask, where)
    return certain(level, action_of(level, given, where), mask, where)


def certain(level: Level, chosen: int, mask: tuple[bool, ...] | None, where: str) -> tuple[float, ...]:
    """Return the probabilities of an incumbent that means to take one action. where: the field that names it."""
    if mask is not None and not mask[chosen]:
        raise WrongRequest(f"{where}: {shown(level.actions.values[chosen])} is not available")
    return tuple(float(place == chosen) for place in range(level.actions.count))


def incumbent_below(legacy: Sequence[float], rate: float, mask: tuple[bool, ...] | None) -> tuple[float, ...]:
    """Return the incumbent's probabilities mu from those of a legacy nu = (1 - rate) mu + rate uniform over what is available."""
    opened = mask or (True,) * len(legacy)
    share = rate / sum(opened)
    values = [(chance - share * can) / (1.0 - rate) for chance, can in zip(legacy, opened, strict=True)]
    if min(values) < -SUM_TOLERANCE:
        place = values.index(min(values))
        raise WrongRequest(
            f"legacy.distribution: the problem file declares uniform exploration at the rate {rate:g}, so that every available "
            f"action has a probability of at least {share:.6g}; action {place} (from 0) has {legacy[place]:.6g}. Send the "
            "legacy's true distribution; if it explores in another way, state 'incumbent' in the problem file and send it"
        )
    values = [max(value, 0.0) for value in values]
    total = math.fsum(values)
    return tuple(value / total for value in values)


def check_ratios(level: Level, incumbent: Sequence[float], legacy: Sequence[float], where: str) -> None:
    """Raise WrongRequest where an incumbent takes an action more often, compared with the legacy, than the problem promises.

    where: the field that does not fit.
    """
    most = level.ratio_bound
    if most is None:
        return
    for value, own, logged in zip(level.actions.values, incumbent, legacy, strict=True):
        if own > most * logged * (1.0 + ROUND_OFF) + ROUND_OFF:
            raise WrongRequest(
                f"{where}: the incumbent takes {shown(value)} with probability {own:.6g} and the legacy with {logged:.6g}; "
                f"{_promise(level, most)}. Correct what is sent, or the problem file"
            )


def _promise(level: Level, most: float) -> str:
    rate = level.exploration
    if rate is not None:
        return f"'epsilon: {rate:g}' in the problem file allows at most {most:.4g} times the probability of the legacy"
    return f"the problem file allows at most {most:.4g} times the probability of the legacy"


def result_of(problem: Problem, given: Any) -> Result:
    """Return what came of a decision. given: has reward, missing, outcome and guards."""
    if given.missing:
        if given.reward is not None:
            raise WrongRequest("missing: a reward that is there is not missing; leave out one of the two")
        return Result(None)
    if given.reward is None:
        raise WrongRequest("reward: a number; or say 'missing: true' if it will never come")
    reward = _within(_number(given.reward, "reward"), problem.reward.range, problem.reward.clip, "reward")
    outcome = None
    if problem.outcome is not None:
        if given.outcome is None:
            raise WrongRequest(f"outcome: this problem has the outcome '{problem.outcome.name}', found none")
        outcome = value_of(problem.outcome, given.outcome, "outcome")
    elif given.outcome is not None:
        raise WrongRequest("outcome: this problem has none; leave it out")
    names = [guard.column for guard in problem.guards]
    for name in given.guards:
        if name not in names:
            raise WrongRequest(f"guards: there is no '{name}'{nearest(name, names)}; guards: {', '.join(names) or 'none'}")
    guards = {}
    for guard in problem.guards:
        if guard.column not in given.guards:
            raise WrongRequest(f"guards: '{guard.column}' is missing; this problem guards {', '.join(names)}")
        value = _number(given.guards[guard.column], f"guards: '{guard.column}'")
        guards[guard.column] = _within(value, guard.range, False, f"guards: '{guard.column}'")
    return Result(reward, outcome, guards)


def check_operator(levels: Sequence[str], action: str, why: str, level: str | None) -> None:
    """Raise WrongRequest if an operator says something that no gate can do: an unknown action or level, no reason."""
    if action not in ACTIONS:
        raise WrongRequest(f"action: one of {', '.join(ACTIONS)}, found '{action}'{nearest(action, ACTIONS)}")
    if not why.strip():
        raise WrongRequest(f"why: say in a few words why you {action}; it is kept with what is done, found none")
    if level is None and action in ("approve", "revert"):
        raise WrongRequest(f"level: say which one to {action}, one of {', '.join(levels)}")
    if level is not None and level not in levels:
        raise WrongRequest(f"level: one of {', '.join(levels)}, found '{level}'{nearest(level, levels)}")


def shown(value: Any) -> str:
    """Return something that was sent as it looks in JSON; of what is long the beginning."""
    text = json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _number(given: Any, where: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not math.isfinite(given):
        raise WrongRequest(f"{where}: a finite number, found {shown(given)}")
    return float(given)


def _within(value: float, limits: tuple[float, float] | None, clip: bool, where: str) -> float:
    if limits is None or limits[0] <= value <= limits[1]:
        return value
    if clip:
        return min(max(value, limits[0]), limits[1])
    raise WrongRequest(
        f"{where}: {value:g} lies outside the declared range [{limits[0]:g}, {limits[1]:g}]; nothing is certified about values "
        "beyond it: declare a wider range in the problem file, or report it as missing"
    )
