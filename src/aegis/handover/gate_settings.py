"""Settings of a gate: its risk, its schedule and how carefully it hands control over; and which problems a gate can take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    Strict,
    StrictBool,
    ValidationError,
    model_validator,
)

from aegis.errors import SettingError
from aegis.ope import reward_measure
from aegis.policies import check_cap
from aegis.problem import Problem, explain_validation_error

Mode = Literal["live", "approve", "shadow"]
MODES = get_args(Mode)

Probability = Annotated[float, Strict(), Field(gt=0, lt=1)]
Share = Annotated[float, Strict(), Field(ge=0, lt=1)]


def _read_cap(cap: object) -> object:
    return check_cap(math.inf if cap is None else cap)  # type: ignore[arg-type]  # it checks the type too


def _write_cap(cap: float) -> float | None:
    return None if math.isinf(cap) else cap


Cap = Annotated[float, BeforeValidator(_read_cap), PlainSerializer(_write_cap)]  # JSON has no infinity: no cap is null

STEPS, FULL = (1.5, 2.0, 3.0), (3.0, math.inf)


class GateSettings(BaseModel):
    """Settings of the gate. They stay while it runs, except for the mode, which an operator may change.

    delta: the probability with which anything worse than its comparison is ever put in control, over the whole life of the gate.
    first: k0, episodes before challengers are frozen for the first time; after a flip it starts again.
    caps: W of the challengers at each freeze, at levels that the legacy controls; empty means those of STEPS, and of FULL where
    the legacy explores around a stated incumbent: there a cap saves no episodes, and the full policy gains more. wider: W of
    those at levels that have been handed over; what is narrower than the deployed policy is left out. patience: how long to
    wait for a larger cap, as a multiple of the units that the first crossing took; 1 deploys at once. floor: share of
    decisions that a deployed policy leaves to the legacy. explore: share of the decisions at levels the legacy controls that an
    exploring plan of the host takes; on a plant only.
    generations: freezes whose tests are kept going at a time. upgrades: whether deployed policies are challenged too.
    levels: that may be handed over, all if empty. mode: 'live' flips when certified, 'approve' waits for an operator, 'shadow'
    only says that it would.
    share, stage: of the first `stage` episodes after a flip only this share goes to the new policy, the others stay with the one
    before. holdback: share of all later episodes that stay with the legacy at every level, for comparison.
    alarm, alarm_floor: each time the monitor starts, at a flip or after an alarm, it raises a false alarm with probability at
    most `alarm`; all the floors that it ever watches hold but with probability `alarm_floor`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    delta: Probability = 0.05
    first: Annotated[int, Strict(), Field(ge=1)] = 14
    caps: tuple[Cap, ...] = ()
    wider: Annotated[tuple[Cap, ...], Field(min_length=1)] = (3.0, 10.0, math.inf)
    patience: Annotated[float, Strict(), Field(ge=1, allow_inf_nan=False)] = 1.2
    floor: Share = 0.05
    explore: Share = 0.0
    generations: Annotated[int, Strict(), Field(ge=1)] = 4
    upgrades: StrictBool = True
    levels: tuple[str, ...] = ()
    mode: Mode = "live"
    share: Annotated[float, Strict(), Field(gt=0, le=1)] = 1.0
    stage: Annotated[int, Strict(), Field(ge=0)] = 0
    holdback: Share = 0.0
    alarm: Probability = 0.01
    alarm_floor: Probability = 0.01

    def __init__(self, **settings: Any) -> None:
        try:
            super().__init__(**settings)
        except ValidationError as error:
            raise SettingError(f"gate: {'; '.join(explain_validation_error(error, settings, GateSettings, {}))}") from error

    @model_validator(mode="after")
    def _check_together(self) -> GateSettings:
        if self.share < 1 and not self.stage:
            raise SettingError(f"gate: a 'share' of {self.share:g} is of the first 'stage' episodes after a flip: give both")
        for name, caps in (("caps", self.caps), ("wider", self.wider)):
            if len(set(caps)) < len(caps):
                raise SettingError(f"gate: '{name}' are different numbers from 1, found {list(caps)}")
            if 1.0 in caps:
                raise SettingError(f"gate: a cap of 1 is the legacy itself; leave it out of '{name}'")
        return self

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> GateSettings:
        """Return settings from plain data; SettingError for a name that does not exist."""
        return cls(**plain)

    def plain(self) -> dict[str, Any]:
        """Return plain data, from which `of` makes the same settings."""
        return self.model_dump(mode="json")


def refuse_interval_actions(problem: Problem) -> None:
    """Raise SettingError if a level has actions on an interval: a gate bets with the probabilities of all actions."""
    for level in problem.levels:
        if level.actions.continuous:
            raise SettingError(
                f"level '{level.name}': the gate needs the probabilities of all actions, and those of an interval are a density; "
                "certify from a log ('aegis certify'), or give the action a 'grid'"
            )


def check_margins(problem: Problem) -> None:
    """Raise SettingError for a margin that no gain, or every gain, exceeds."""
    width = reward_measure(problem).width
    for level in problem.levels:
        if not -width < level.margin < width:
            raise SettingError(
                f"level '{level.name}': a margin of {level.margin:g} is not smaller than the range of the reward, {width:g}; no "
                "gain, or every loss, would do"
            )
