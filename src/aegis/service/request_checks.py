"""Checks of requests against the problem: contexts, masks, actions, results, operators, probabilities of legacy and incumbent.

What does not fit raises `WrongRequest`, which names the field and what was expected. Values come out as arrays hold them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aegis.errors import did_you_mean
from aegis.handover import ACTIONS
from aegis.policies import INCUMBENT_ROUND_OFF
from aegis.problem import SUM_TOLERANCE, Level, Problem, Variable
from aegis.service.client.fallback import explore_uniformly
from aegis.service.gate_problem import sends_incumbent
from aegis.service.http_errors import WrongRequest
from aegis.service.live_episodes import DecisionResult
from aegis.service.schemas import Legacy, Report

LONGEST = 80  # characters of what was sent that an answer repeats
LISTED = 8  # actions that an answer lists

Mask = tuple[bool, ...] | None  # which actions are available; None at a level where all always are
Probabilities = tuple[float, ...]  # of all actions


# ---- decisions ---------------------------------------------------------------------------------------------------------------


def find_level(problem: Problem, name: str) -> Level:
    """Return a level by its name."""
    if name not in problem.names:
        raise WrongRequest(f"level: there is no '{name}'{did_you_mean(name, problem.names)}; levels: {', '.join(problem.names)}")
    return problem.level(name)


def check_context(level: Level, sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context of a decision."""
    names = [variable.name for variable in level.context]
    for name in sent:
        if name not in names:
            raise WrongRequest(
                f"context: level '{level.name}' has no '{name}'{did_you_mean(name, names)}; it has {', '.join(names)}"
            )
    missing = [name for name in names if name not in sent]
    if missing:
        raise WrongRequest(f"context: '{missing[0]}' is missing; a decision at level '{level.name}' needs {', '.join(names)}")
    return {variable.name: _check_value(variable, sent[variable.name], "context") for variable in level.context}


def _check_value(variable: Variable, sent: Any, where: str) -> Any:
    """Return the value of a variable: a number, a list of them, or the code of a category."""
    if variable.kind == "categorical":
        for code, value in enumerate(variable.values):
            if sent == value and isinstance(sent, bool) == isinstance(value, bool):
                return code
        raise WrongRequest(f"{where}: '{variable.name}' is one of {quote_json(list(variable.values))}, found {quote_json(sent)}")
    if variable.kind == "real":
        return _check_number(sent, f"{where}: '{variable.name}'")
    if not isinstance(sent, list) or len(sent) != len(variable.columns):
        count = len(variable.columns)
        raise WrongRequest(f"{where}: '{variable.name}' is a list of {count} numbers, found {quote_json(sent)}")
    return [_check_number(value, f"{where}: '{variable.name}'") for value in sent]


def check_mask(level: Level, sent: Sequence[bool] | None) -> Mask:
    """Return which actions are available; None at a level where all always are."""
    if not level.masked:
        if sent is not None:
            raise WrongRequest(
                f"available: every action of level '{level.name}' is always available in this problem; leave it out"
            )
        return None
    if sent is None or len(sent) != level.actions.count:
        count = "nothing" if sent is None else f"{len(sent)} values"
        raise WrongRequest(f"available: one true or false for each of the {level.actions.count} actions, found {count}")
    if not any(sent):
        raise WrongRequest("available: a decision needs at least one available action")
    return tuple(sent)


def find_action(level: Level, sent: Any, where: str) -> int:
    """Return the index of an action from its value. where: the field that holds it."""
    actions = level.actions
    if not actions.numeric:
        if isinstance(sent, str) and sent in actions.values:
            return actions.values.index(sent)
    elif isinstance(sent, int | float) and not isinstance(sent, bool) and math.isfinite(sent):
        place = int(np.argmin(np.abs(actions.numbers - sent)))
        if math.isclose(actions.numbers[place], sent, rel_tol=1e-9, abs_tol=1e-12):
            return place
    listed = ", ".join(map(quote_json, actions.values[:LISTED])) + (", ..." if actions.count > LISTED else "")
    raise WrongRequest(f"{where}: an action of level '{level.name}' is one of {listed}, found {quote_json(sent)}")


def check_taken(level: Level, sent: Any, legacy: Sequence[float], where: str) -> int:
    """Return the action that the legacy took itself. where: the field that holds it."""
    action = find_action(level, sent, where)
    if legacy[action] <= 0.0:
        raise WrongRequest(f"{where}: the legacy says that it never takes {quote_json(sent)} here: its probability is 0")
    return action


# ---- legacy and incumbent ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LegacyChecks:
    """Checks of what is sent about the legacy. uniform: the problem file says that it draws uniformly.

    rates: by level the rate of uniform exploration from which the incumbent follows, where the problem file declares one.
    """

    uniform: bool
    rates: Mapping[str, float]

    def legacy(self, level: Level, sent: Legacy | None, mask: Mask) -> Probabilities:
        """Return the legacy's probabilities at a decision."""
        if self.uniform:
            return _check_uniform(level, sent, mask)
        if sent is None or (sent.distribution is None) == (sent.action is None):
            raise WrongRequest(
                "legacy: say what the legacy would do, either its 'distribution' over the actions, or its 'action' with the rate "
                "'epsilon' at which it explores"
            )
        if sent.distribution is not None:
            if sent.epsilon is not None:
                raise WrongRequest("legacy.epsilon: belongs to 'action'; a distribution has its exploration in it")
            return _check_distribution(level, sent.distribution, mask)
        if sent.epsilon is None:
            raise WrongRequest("legacy.epsilon: say at which rate the legacy explores beside its action")
        if not 0.0 < sent.epsilon <= 1.0:
            raise WrongRequest(
                f"legacy.epsilon: a rate of exploration above 0 and at most 1, found {sent.epsilon}; a legacy that never "
                "explores cannot be compared with anything"
            )
        chosen = _check_certain(level, sent.action, mask, "legacy.action").index(1.0)
        return tuple(explore_uniformly(chosen, sent.epsilon, _available(level, mask)))

    def incumbent(self, level: Level, sent: Legacy | None, legacy: Probabilities, mask: Mask) -> Probabilities | None:
        """Return the incumbent's probabilities at a decision; None at a level where the control system does not send them."""
        own = None if sent is None else sent.incumbent
        if not sends_incumbent(level):
            if own is not None:
                raise WrongRequest(f"legacy.incumbent: {_why_not_sent(level)}; leave it out")
            return None
        if sent is not None and sent.action is not None:
            if own is not None:
                raise WrongRequest("legacy.incumbent: 'action' is what the incumbent means to take; leave one of the two out")
            return _check_certain(level, sent.action, mask, "legacy.action")
        if isinstance(own, list):
            return _check_distribution(level, own, mask, "legacy.incumbent")
        if own is not None:
            return _check_certain(level, own, mask, "legacy.incumbent")
        if level.name in self.rates:
            return _without_exploration(level, legacy, self.rates[level.name], mask)
        beside = "" if self.uniform else " beside 'distribution'; or send 'action' with 'epsilon' instead of both"
        raise WrongRequest(
            f"legacy.incumbent: gains at level '{level.name}' are over the incumbent, the legacy without its exploration: send "
            f"its action, or one probability for each of the {level.actions.count} actions{beside}"
        )


def check_ratios(level: Level, incumbent: Sequence[float], legacy: Sequence[float], sent: Legacy | None) -> None:
    """Raise WrongRequest where an incumbent takes an action more often, compared with the legacy, than the problem promises."""
    most, rate = level.ratio_bound, level.exploration
    if most is None:
        return
    for value, own, logged in zip(level.actions.values, incumbent, legacy, strict=True):
        if own > most * logged * (1.0 + INCUMBENT_ROUND_OFF) + INCUMBENT_ROUND_OFF:
            promise = "the problem file" if rate is None else f"'epsilon: {rate:g}' in the problem file"
            raise WrongRequest(
                f"{_source(sent)}: the incumbent takes {quote_json(value)} with probability {own:.6g} and the legacy with "
                f"{logged:.6g}; {promise} allows at most {most:.4g} times the probability of the legacy. Correct what is sent, "
                "or the problem file"
            )


def _source(sent: Legacy | None) -> str:
    """Return the field from which the incumbent, or what it is compared with, was taken."""
    for name, field in (("incumbent", "incumbent"), ("distribution", "distribution"), ("action", "epsilon")):
        if getattr(sent, name, None) is not None:
            return f"legacy.{field}"
    return "legacy"


def _available(level: Level, mask: Mask) -> tuple[bool, ...]:
    return mask or (True,) * level.actions.count


def _check_uniform(level: Level, sent: Legacy | None, mask: Mask) -> Probabilities:
    """Return the probabilities of a legacy that draws uniformly; WrongRequest if it is sent as another one."""
    known = tuple(explore_uniformly(0, 1.0, _available(level, mask)))
    if sent is not None and sent.distribution is not None:
        own = _check_distribution(level, sent.distribution, mask)
        if max(abs(one - other) for one, other in zip(known, own, strict=True)) > SUM_TOLERANCE:
            raise WrongRequest("legacy.distribution: the problem file says that the legacy draws uniformly, this is another one")
    elif sent is not None and (sent.action is not None or sent.epsilon is not None):
        raise WrongRequest("legacy.action: the problem file says that the legacy draws uniformly; leave it out")
    return known


def _check_distribution(level: Level, sent: Sequence[float], mask: Mask, where: str = "legacy.distribution") -> Probabilities:
    """Return probabilities of all actions. where: the field that holds them."""
    if len(sent) != level.actions.count:
        raise WrongRequest(f"{where}: one probability for each of the {level.actions.count} actions, found {len(sent)}")
    values = [_check_number(value, where) for value in sent]
    for place, value in enumerate(values):
        if not 0.0 <= value <= 1.0:
            raise WrongRequest(f"{where}: {value} is not a probability; expected numbers from 0 to 1, no logarithms or densities")
        if mask is not None and value > 0 and not mask[place]:
            action = quote_json(level.actions.values[place])
            raise WrongRequest(f"{where}: action {action} has the probability {value} and is not available")
    total = math.fsum(values)
    if abs(total - 1.0) > SUM_TOLERANCE:
        raise WrongRequest(f"{where}: probabilities sum to 1, found {total:.9g}")
    return tuple(value / total for value in values)


def _check_certain(level: Level, sent: Any, mask: Mask, where: str) -> Probabilities:
    """Return the probabilities of one action that is taken for certain. where: the field that names it."""
    chosen = find_action(level, sent, where)
    if mask is not None and not mask[chosen]:
        raise WrongRequest(f"{where}: {quote_json(level.actions.values[chosen])} is not available")
    return tuple(float(place == chosen) for place in range(level.actions.count))


def _without_exploration(level: Level, legacy: Probabilities, rate: float, mask: Mask) -> Probabilities:
    """Return the incumbent's probabilities mu from those of a legacy nu = (1 - rate) mu + rate uniform over what is available."""
    available = _available(level, mask)
    share = rate / sum(available)
    values = [(chance - share * can) / (1.0 - rate) for chance, can in zip(legacy, available, strict=True)]
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


def _why_not_sent(level: Level) -> str:
    if level.incumbent is None:
        return (
            f"the problem file states no incumbent at level '{level.name}', so that gains are over the policy that writes the "
            f"log, exploration included; state one there ('incumbent: {{base: COLUMN}}')"
        )
    return f"the problem file states the incumbent of level '{level.name}' ({level.incumbent.words})"


# ---- results and operators ---------------------------------------------------------------------------------------------------


def check_result(problem: Problem, sent: Report) -> DecisionResult:
    """Return the outcome of a decision."""
    if sent.missing:
        if sent.reward is not None:
            raise WrongRequest("missing: a reward that is there is not missing; leave out one of the two")
        return DecisionResult(None)
    if sent.reward is None:
        raise WrongRequest("reward: a number; or say 'missing: true' if it will never come")
    reward = _check_range(sent.reward, problem.reward.range, problem.reward.clip, "reward")
    outcome = None
    if problem.outcome is not None:
        if sent.outcome is None:
            raise WrongRequest(f"outcome: this problem has the outcome '{problem.outcome.name}', found none")
        outcome = _check_value(problem.outcome, sent.outcome, "outcome")
    elif sent.outcome is not None:
        raise WrongRequest("outcome: this problem has none; leave it out")
    names = [guard.column for guard in problem.guards]
    for name in sent.guards:
        if name not in names:
            raise WrongRequest(f"guards: there is no '{name}'{did_you_mean(name, names)}; guards: {', '.join(names) or 'none'}")
    guards = {}
    for guard in problem.guards:
        if guard.column not in sent.guards:
            raise WrongRequest(f"guards: '{guard.column}' is missing; this problem guards {', '.join(names)}")
        guards[guard.column] = _check_range(sent.guards[guard.column], guard.range, False, f"guards: '{guard.column}'")
    return DecisionResult(reward, outcome, guards)


def check_operator(levels: Sequence[str], action: str, why: str, level: str | None) -> None:
    """Raise WrongRequest if an operator wants something that no gate can do: an unknown action or level, no reason."""
    if action not in ACTIONS:
        raise WrongRequest(f"action: one of {', '.join(ACTIONS)}, found '{action}'{did_you_mean(action, ACTIONS)}")
    if not why.strip():
        raise WrongRequest(f"why: say in a few words why you {action}; it is kept with what is done, found none")
    if level is None and action in ("approve", "revert"):
        raise WrongRequest(f"level: say which one to {action}, one of {', '.join(levels)}")
    if level is not None and level not in levels:
        raise WrongRequest(f"level: one of {', '.join(levels)}, found '{level}'{did_you_mean(level, levels)}")


def quote_json(value: Any) -> str:
    """Return something that was sent as it looks in JSON; of what is long the beginning."""
    text = json.dumps(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _check_number(sent: Any, where: str) -> float:
    if isinstance(sent, bool) or not isinstance(sent, int | float) or not math.isfinite(sent):
        raise WrongRequest(f"{where}: a finite number, found {quote_json(sent)}")
    return float(sent)


def _check_range(value: float, limits: tuple[float, float] | None, clip: bool, where: str) -> float:
    value = float(value)
    if limits is None or limits[0] <= value <= limits[1]:
        return value
    if clip:
        return min(max(value, limits[0]), limits[1])
    raise WrongRequest(
        f"{where}: {value:g} lies outside the declared range [{limits[0]:g}, {limits[1]:g}]; nothing is certified about values "
        "beyond it: declare a wider range in the problem file, or report it as missing"
    )
