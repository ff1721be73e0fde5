"""Settings of a gate: its risk, its schedule and how carefully it hands control over; and which problems a gate can take."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from aegis.errors import SettingError, check_choice
from aegis.ope import reward_measure
from aegis.policies import check_cap
from aegis.problem import Problem

MODES = ("live", "approve", "shadow")

CAPS = ("caps", "wider")  # settings that are lists of caps

STEPS, FULL = (1.5, 2.0, 3.0), (3.0, math.inf)


@dataclass(frozen=True, slots=True)
class GateSettings:
    """Settings of the gate. They stay while it runs, except for the mode, which an operator may change.

    delta: the probability with which anything worse than its comparison is ever put in control, over the whole life of the gate.
    first: k0, episodes before challengers are frozen for the first time; after a flip it starts again.
    caps: W of the challengers at each freeze, at levels that the legacy controls; empty means those of STEPS, and of FULL where
    the legacy explores around a stated incumbent: there a cap saves no episodes, and the full policy gains more. wider: W of
    those at levels that have been handed over; what is narrower than the deployed policy is left out. patience: how long to
    wait for a larger cap, as a multiple of the units that the first crossing took; 1 deploys at once. floor: share of
    decisions that a deployed policy leaves to the legacy.
    generations: freezes whose tests are kept going at a time. upgrades: whether deployed policies are challenged too.
    levels: that may be handed over, all if empty. mode: 'live' flips when certified, 'approve' waits for an operator, 'shadow'
    only says that it would.
    share, stage: of the first `stage` episodes after a flip only this share goes to the new policy, the others stay with the one
    before. holdback: share of all later episodes that stay with the legacy at every level, for comparison.
    alarm, alarm_floor: each time the monitor starts, at a flip or after an alarm, it raises a false alarm with probability at
    most `alarm`; all the floors that it ever watches hold but with probability `alarm_floor`.
    """

    delta: float = 0.05
    first: int = 14
    caps: tuple[float, ...] = ()
    wider: tuple[float, ...] = (3.0, 10.0, math.inf)
    patience: float = 1.2
    floor: float = 0.05
    generations: int = 4
    upgrades: bool = True
    levels: tuple[str, ...] = ()
    mode: str = "live"
    share: float = 1.0
    stage: int = 0
    holdback: float = 0.0
    alarm: float = 0.01
    alarm_floor: float = 0.01

    def __post_init__(self) -> None:
        for name in (*CAPS, "levels"):
            if not isinstance(getattr(self, name), list | tuple):
                raise SettingError(f"gate: '{name}' is a list, found {getattr(self, name)!r}")
        for name in CAPS:
            object.__setattr__(self, name, tuple(check_cap(cap) for cap in getattr(self, name)))
        object.__setattr__(self, "levels", tuple(self.levels))
        check_choice(self.mode, MODES, "mode of a gate")
        _within(self, "delta", 0.0, 1.0)
        _within(self, "alarm", 0.0, 1.0)
        _within(self, "alarm_floor", 0.0, 1.0)
        _within(self, "floor", 0.0, 1.0, low_too=True)
        _within(self, "holdback", 0.0, 1.0, low_too=True)
        _within(self, "share", 0.0, 1.0, high_too=True)
        _whole(self, "first", 1)
        _whole(self, "generations", 1)
        _whole(self, "stage", 0)
        if not isinstance(self.upgrades, bool):
            raise SettingError(f"gate: 'upgrades' is true or false, found {self.upgrades!r}")
        if self.share < 1 and not self.stage:
            raise SettingError(f"gate: a 'share' of {self.share:g} is of the first 'stage' episodes after a flip: give both")
        if not (_number(self.patience) and self.patience >= 1):
            raise SettingError(f"gate: 'patience' is a number from 1, found {self.patience!r}")
        for name in CAPS:
            caps = getattr(self, name)
            if (not caps and name != "caps") or len(set(caps)) < len(caps):
                raise SettingError(f"gate: '{name}' are one or more different numbers from 1, found {list(caps)}")
            if caps and min(caps) == 1.0:
                raise SettingError(f"gate: a cap of 1 is the legacy itself; leave it out of '{name}'")

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> GateSettings:
        """Return settings from plain data; SettingError for a name that does not exist."""
        known = [item.name for item in fields(cls)]
        for name in given:
            check_choice(name, known, "setting of a gate")
        found: dict[str, Any] = dict(given)
        for name in CAPS:
            if isinstance(found.get(name), list | tuple):
                found[name] = [math.inf if cap is None else cap for cap in found[name]]
        return cls(**found)

    def plain(self) -> dict[str, Any]:
        """Return plain data, from which `of` makes the same settings; no cap at all is None, since JSON has no infinity."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        for name in CAPS:
            found[name] = [None if math.isinf(cap) else cap for cap in found[name]]
        return {**found, "levels": list(self.levels)}


def _number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _within(settings: GateSettings, name: str, low: float, high: float, low_too: bool = False, high_too: bool = False) -> None:
    value = getattr(settings, name)
    if not (_number(value) and (low < value < high or (low_too and value == low) or (high_too and value == high))):
        ends = f"{'from' if low_too else 'above'} {low:g} {'up to' if high_too else 'and below'} {high:g}"
        raise SettingError(f"gate: '{name}' is a number {ends}, found {value!r}")


def _whole(settings: GateSettings, name: str, least: int) -> None:
    value = getattr(settings, name)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise SettingError(f"gate: '{name}' is a whole number from {least}, found {value!r}")


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
