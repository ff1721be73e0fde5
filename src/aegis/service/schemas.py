"""Bodies of requests and answers. `request_checks` checks them against the problem."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from aegis.handover import ACTIONS
from aegis.service.client.names import LONGEST_DECISION, LONGEST_NAME, NAME

Name = Annotated[str, Field(min_length=1, max_length=LONGEST_NAME, pattern=NAME)]
DecisionName = Annotated[str, Field(min_length=1, max_length=LONGEST_DECISION, pattern=NAME)]
Number = Annotated[StrictInt | StrictFloat, Field(ge=-1e300, le=1e300)]
Value = StrictBool | Number | Annotated[StrictStr, Field(max_length=200)]
Numbers = Annotated[list[Number], Field(max_length=1000)]
Intervention = Value | Annotated[list[Value], Field(max_length=100)] | Annotated[dict[str, Value], Field(max_length=100)] | None


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
    id: DecisionName | None = Field(None, description="Your own name of it, unique in its episode.")
    parent: DecisionName | None = Field(None, description="The decision above; may be left out if there is only one.")
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


class Replace(Body):
    """Says that an interlock or a person replaced the action of a decision. The episode counts at its worst for challengers."""

    decision: DecisionName
    used: Intervention = Field(
        description="What was done instead; it need not be an action of the level. Null if nothing was done."
    )
    why: Annotated[str, Field(max_length=1000)] | None = Field(None, description="A reason, which is kept.")


class Report(Body):
    """The result of a decision."""

    episode: Name
    decision: DecisionName | None = Field(None, description="Left out where rewards belong to whole episodes.")
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
    incomplete: bool = Field(False, description="Some of its decisions are not known: it is no evidence of anything.")


class Say(Body):
    """An action of an operator."""

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


class Replaced(BaseModel):
    """An action was replaced."""

    episode: str
    decision: str
    replaced: bool = Field(description="False if it was the same action.")
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
    """An operator's action was done. instead: what was done if the audit of the stream did not let it happen."""

    done: str
    at: str
    instead: str | None = None


class ErrorAnswer(BaseModel):
    """Why something was not done."""

    detail: Any = Field(description="In words; where a body has the wrong form, by field.")
    code: str = Field(description="For programs: it stays the same where the words change.")
