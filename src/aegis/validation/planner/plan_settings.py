"""Settings of a plan: the guess of gain, loss and spread, exploration rates, caps and risk, checked."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aegis.errors import SettingError
from aegis.evidence import check_delta

RATES = (0.05, 0.1, 0.2, 0.5, 1.0)
CAPS = (1.5, 2.0, 3.0, math.inf)
SPREAD_SHARE = 0.1  # of the declared range, the default spread of rewards
# A guess stands for a level where all contexts are alike. Where gains and spreads differ from one context to the next, and the
# reward model is a learned one, evidence grows more slowly: it does, measured, if rewards are taken to vary more by this factor.
ALLOWANCE = 1.25
MOST = 10**7  # episodes, tests, decisions


@dataclass(frozen=True, slots=True)
class PlanGuess:
    """What the user expects, in the reward's units, above 0 being better. None: not known.

    gain: how much more the best action earns than the one the legacy takes when it does not explore, on average over decisions.
    loss: how much less a random action earns than the legacy's own, below 0 if it earns more. spread: standard deviation of a
    reward around what its context and action explain. typical: what the legacy earns per decision. decisions: how many the level
    has in an episode.
    """

    gain: float | None = None
    loss: float | None = None
    spread: float | None = None
    typical: float | None = None
    decisions: int | None = None

    def __post_init__(self) -> None:
        if self.gain is not None:
            object.__setattr__(
                self, "gain", _number_above("gain", self.gain, 0.0, "the gain that is hoped for, in the reward's units")
            )
        if self.loss is not None:
            object.__setattr__(
                self, "loss", _number_above("loss", self.loss, -math.inf, "what a random action earns less than the legacy's own")
            )
            if self.gain is not None:
                _check_loss(self.loss, self.gain)
        if self.spread is not None:
            object.__setattr__(self, "spread", _from_zero("spread", self.spread, "the standard deviation of a reward"))
        if self.typical is not None:
            object.__setattr__(
                self, "typical", _number_above("typical", self.typical, -math.inf, "what the legacy earns per decision")
            )
        if self.decisions is not None:
            _whole("decisions", self.decisions, "how many decisions of the level an episode has")


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Exploration rates and caps to compare, risk, number of tests that share it, and the number of episodes that is wanted.

    tests: None stands for one claim of gain and one for each guard. within: None if no number is wanted.
    """

    explore: tuple[float, ...] = RATES
    caps: tuple[float, ...] = CAPS
    delta: float = 0.05
    tests: int | None = None
    within: int | None = None
    seed: int = 1

    def __post_init__(self) -> None:
        rates = _numbers("explore", self.explore, "exploration rates above 0 and at most 1, such as 0.05,0.2,1")
        for rate in rates:
            if not 0 < rate <= 1:
                raise SettingError(
                    f"explore: an exploration rate is above 0 and at most 1, found {rate:g}; without exploration nothing can be "
                    "certified, and 1 is a uniform choice"
                )
        caps = _numbers("caps", self.caps, "caps above 1, such as 1.5,2,inf")
        for cap in caps:
            if not cap > 1:
                raise SettingError(
                    f"caps: a cap W is above 1 (inf for none), found {cap:g}; the candidate raises no probability more than W "
                    "times, so that with 1 it would be the legacy itself"
                )
        object.__setattr__(self, "explore", tuple(sorted(set(rates))))
        object.__setattr__(self, "caps", tuple(sorted(set(caps))))
        check_delta(self.delta)
        if self.tests is not None:
            _whole("tests", self.tests, "how many claims share the risk")
        if self.within is not None:
            _whole("within", self.within, "how many episodes the study may take")


def _check_loss(loss: float, gain: float) -> None:
    """Refuse a legacy whose own action would be worse than the worst one, actions being evenly spaced."""
    least = -gain / 2
    if loss < least:
        raise SettingError(
            f"loss: with a gain of {gain:g} it is {least:g} or more, found {loss:g}; at {least:g} the legacy's own action is the "
            "worst there is, and a random one lies half way between that and the best"
        )


def _numbers(name: str, values: Sequence[float], allowed: str) -> tuple[float, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Sequence) or not values:
        raise SettingError(f"{name}: give one or more {allowed}; found {values!r}")
    for value in values:
        if not _number(value) or math.isnan(value):
            raise SettingError(f"{name}: give {allowed}; found {value!r}")
    return tuple(float(value) for value in values)


def _number_above(name: str, value: Any, least: float, what: str) -> float:
    if not _number(value) or not (math.isfinite(value) and value > least):
        above = f" above {least:g}" if math.isfinite(least) else ""
        raise SettingError(f"{name}: {what}, a number{above}; found {value!r}")
    return float(value)


def _from_zero(name: str, value: Any, what: str) -> float:
    if not _number(value) or not (math.isfinite(value) and value >= 0):
        raise SettingError(f"{name}: {what}, a number from 0; found {value!r}")
    return float(value)


def _whole(name: str, value: Any, what: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        raise SettingError(f"{name}: {what}, a whole number from 1 to {MOST}; found {value!r}")


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
