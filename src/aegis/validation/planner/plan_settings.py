"""Settings of a plan: the guess of gain, loss and spread, exploration rates, caps and risk, checked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
        _check("gain", self.gain, "the gain that is hoped for, in the reward's units, a number above 0", lambda gain: gain > 0)
        _check("loss", self.loss, "what a random action earns less than the legacy's own, a number")
        _check("spread", self.spread, "the standard deviation of a reward, a number from 0", lambda spread: spread >= 0)
        _check("typical", self.typical, "what the legacy earns per decision, a number")
        _check_count("decisions", self.decisions, "how many decisions of the level an episode has")
        if self.gain is not None and self.loss is not None and self.loss < -self.gain / 2:
            least = -self.gain / 2
            raise SettingError(
                f"loss: with a gain of {self.gain:g} it is {least:g} or more, found {self.loss:g}; at {least:g} the legacy's own "
                "action is the worst there is, and a random one lies half way between that and the best"
            )


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
        why = "without exploration nothing can be certified, and 1 is a uniform choice"
        _check_list("explore", self.explore, "exploration rates are above 0 and at most 1", why, lambda rate: 0 < rate <= 1)
        why = "the candidate raises no probability more than W times, so that with 1 it would be the legacy itself"
        _check_list("caps", self.caps, "caps W are above 1 (inf for none)", why, lambda cap: cap > 1)
        object.__setattr__(self, "explore", tuple(sorted(set(map(float, self.explore)))))
        object.__setattr__(self, "caps", tuple(sorted(set(map(float, self.caps)))))
        check_delta(self.delta)
        _check_count("tests", self.tests, "how many claims share the risk")
        _check_count("within", self.within, "how many episodes the study may take")


def _check(name: str, value: Any, allowed: str, fits: Callable[[float], bool] = lambda _: True) -> None:
    if value is not None and not (_is_number(value) and math.isfinite(value) and fits(value)):
        raise SettingError(f"{name}: {allowed}; found {value!r}")


def _check_count(name: str, value: Any, what: str) -> None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST):
        raise SettingError(f"{name}: {what}, a whole number from 1 to {MOST}; found {value!r}")


def _check_list(name: str, values: Sequence[Any], allowed: str, why: str, fits: Callable[[float], bool]) -> None:
    wrong = [repr(value) for value in values if not (_is_number(value) and fits(value))]
    if wrong or not values:
        raise SettingError(f"{name}: {allowed}, found {wrong[0] if wrong else 'none'}; {why}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
