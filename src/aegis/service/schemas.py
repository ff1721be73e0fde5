"""Bodies of requests and answers, and their checks against the problem: contexts, masks, propensities, results, operators.

What does not fit raises `WrongRequest`, which names the field and what was expected. Values come out as arrays hold them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from aegis.errors import did_you_mean
from aegis.handover import ACTIONS
from aegis.policies import INCUMBENT_ROUND_OFF
from aegis.problem import Level, Problem, Variable
from aegis.service.http_errors import WrongRequest
from aegis.service.live_episodes import DecisionResult

NAME = r"^[A-Za-z0-9][A-Za-z0-9._:-]*$"

Name = Annotated[str, Field(min_length=1, max_length=64, pattern=NAME)]

Number = Annotated[StrictInt | StrictFloat, Field(ge=-1e300, le=1e300)]

Value = StrictBool | Number | Annotated[StrictStr, Field(max_length=200)]

Numbers = Annotated[list[Number], Field(max_length=1000)]


class Body(BaseModel):
    """A body: unknown fields are refused, so that a misspelt one is not lost in silence."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class OpenEpisode(Body):
    """Opens an episode."""

    id: Name | None = Field(None, description="Your own name of it; made from the idempotency key if it is left out.")
    time: Value | None = Field(None, description="When it started, in a problem with a time column.")


class Legacy(Body):
    """What the legacy would do: its distribution, or its action with the rate at which it explores.

    Where gains are over an incumbent that the control system sends, the distribution goes with the incumbent.
    """

    distribution: Annotated[list[Number], Field(max_length=100_000)] | None = Field(
        None, description="One probability for each action, in the order of the problem file."
    )
    action: Value | None = Field(None, description="The action it means to take.")
    epsilon: Number | None = Field(None, description="The rate at which it takes a uniformly drawn action instead.")
    taken: Value | None = Field(None, description="The action it has drawn already; used while the legacy is in control.")
    incumbent: Value | Annotated[list[Number], Field(max_length=100_000)] | None = Field(
        None,
        description="What the incumbent does, which is the legacy without its exploration: one action, or one probability for "
        "each action. Goes with 'distribution', at levels whose incumbent is sent (see /v1/problem); 'action' says it already.",
    )


class Ask(Body):
    """Asks for a decision."""

    level: Name
    id: Name | None = Field(None, description="Your own name of it, unique in its episode.")
    parent: Name | None = Field(None, description="The decision above; may be left out if there is only one.")
    context: Annotated[dict[str, Value | Numbers], Field(max_length=1000)] = Field(default_factory=dict)
    available: Annotated[list[StrictBool], Field(max_length=100_000)] | None = Field(
        None, description="One flag for each action, at levels with an action mask."
    )
    legacy: Legacy | None = None


class Overrule(Body):
    """Says that the legacy's action was used, since the gate did not answer in time."""

    ask: Ask
    used: Value
    explored: bool = Field(False, description="Whether it was drawn with the probabilities that the legacy says.")


class Report(Body):
    """What came of a decision."""

    episode: Name
    decision: Name | None = Field(None, description="Left out where rewards belong to whole episodes.")
    reward: Number | None = None
    missing: bool = Field(False, description="The reward will never come.")
    outcome: Value | Numbers | None = None
    guards: Annotated[dict[str, Number], Field(max_length=100)] = Field(default_factory=dict)


class Reports(Body):
    """Results of one or more decisions, of one or more episodes: all are taken, or none."""

    items: Annotated[list[Report], Field(min_length=1, max_length=1000)]


class Close(Body):
    """Closes an episode."""

    abandoned: bool = Field(False, description="Rewards that have not come are missing for good.")
    incomplete: bool = Field(False, description="Some of its decisions could not be told: it is no evidence of anything.")


class Say(Body):
    """What an operator says."""

    action: Annotated[str, Field(max_length=16)] = Field(description="What to do.", json_schema_extra={"enum": list(ACTIONS)})
    why: Annotated[str, Field(max_length=1000)] = Field(
        description="A reason, which is kept.", json_schema_extra={"minLength": 1, "pattern": r"\S"}
    )
    level: Name | None = None
    challenge: Annotated[str, Field(max_length=128)] | None = Field(
        None, description="What is approved; refused if something else waits by now."
    )


class Opened(BaseModel):
    """An episode was opened."""

    episode: str
    opened: str


class Answer(BaseModel):
    """The answer to a decision."""

    episode: str
    decision: str
    level: str
    action: Any = Field(description="The value of the action to take.")
    index: int
    propensity: float = Field(gt=0, le=1, description="The exact probability with which this action was chosen.")
    by: str = Field(description="'agent' or 'legacy'.")
    version: str = Field(description="'legacy', or the challenge whose policy chose it.")
    at: str


class Accepted(BaseModel):
    """Results were taken."""

    accepted: int
    late: bool = Field(description="The episode had been counted already: kept, but not used.")
    at: str


class Closed(BaseModel):
    """An episode was closed."""

    episode: str
    closed: str
    missing: int


class Done(BaseModel):
    """What an operator said was done. instead: what came in its place, if the audit of the stream did not let it happen."""

    done: str
    at: str
    instead: str | None = None


class ErrorAnswer(BaseModel):
    """Why something was not done."""

    detail: Any


SUM_TOLERANCE = 1e-6

LONGEST = 80  # characters of what was sent that an answer repeats


def level_of(problem: Problem, name: str) -> Level:
    """Return a level by its name."""
    if name not in problem.names:
        raise WrongRequest(f"level: there is no '{name}'{did_you_mean(name, problem.names)}; levels: {', '.join(problem.names)}")
    return problem.level(name)


def context_of(level: Level, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the context of a decision."""
    names = [variable.name for variable in level.context]
    for name in given:
        if name not in names:
            raise WrongRequest(
                f"context: level '{level.name}' has no '{name}'{did_you_mean(name, names)}; it has {', '.join(names)}"
            )
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
        if own > most * logged * (1.0 + INCUMBENT_ROUND_OFF) + INCUMBENT_ROUND_OFF:
            raise WrongRequest(
                f"{where}: the incumbent takes {shown(value)} with probability {own:.6g} and the legacy with {logged:.6g}; "
                f"{_promise(level, most)}. Correct what is sent, or the problem file"
            )


def _promise(level: Level, most: float) -> str:
    rate = level.exploration
    if rate is not None:
        return f"'epsilon: {rate:g}' in the problem file allows at most {most:.4g} times the probability of the legacy"
    return f"the problem file allows at most {most:.4g} times the probability of the legacy"


def result_of(problem: Problem, given: Any) -> DecisionResult:
    """Return what came of a decision. given: has reward, missing, outcome and guards."""
    if given.missing:
        if given.reward is not None:
            raise WrongRequest("missing: a reward that is there is not missing; leave out one of the two")
        return DecisionResult(None)
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
            raise WrongRequest(f"guards: there is no '{name}'{did_you_mean(name, names)}; guards: {', '.join(names) or 'none'}")
    guards = {}
    for guard in problem.guards:
        if guard.column not in given.guards:
            raise WrongRequest(f"guards: '{guard.column}' is missing; this problem guards {', '.join(names)}")
        value = _number(given.guards[guard.column], f"guards: '{guard.column}'")
        guards[guard.column] = _within(value, guard.range, False, f"guards: '{guard.column}'")
    return DecisionResult(reward, outcome, guards)


def check_operator(levels: Sequence[str], action: str, why: str, level: str | None) -> None:
    """Raise WrongRequest if an operator says something that no gate can do: an unknown action or level, no reason."""
    if action not in ACTIONS:
        raise WrongRequest(f"action: one of {', '.join(ACTIONS)}, found '{action}'{did_you_mean(action, ACTIONS)}")
    if not why.strip():
        raise WrongRequest(f"why: say in a few words why you {action}; it is kept with what is done, found none")
    if level is None and action in ("approve", "revert"):
        raise WrongRequest(f"level: say which one to {action}, one of {', '.join(levels)}")
    if level is not None and level not in levels:
        raise WrongRequest(f"level: one of {', '.join(levels)}, found '{level}'{did_you_mean(level, levels)}")


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
