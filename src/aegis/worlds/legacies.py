"""Legacy controllers by name: `natural`, `sign:epsilon=0.3`, `constant:value=1.6,epsilon=0.2`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from aegis.errors import SettingError, nearest
from aegis.policies import Epsilon, Legacy, Rule
from aegis.problem import Policy, Problem
from aegis.worlds.settings import LARGEST

Rules = dict[str, Rule]


@dataclass(frozen=True, slots=True)
class Offer:
    """A legacy that a world has: `rules` builds one rule per level from settings, whose defaults are given."""

    rules: Callable[[Mapping[str, float]], Rules]
    defaults: Mapping[str, float]


def explored(rule: Rule, epsilon: float) -> Rule:
    """Return the rule with a uniform choice mixed in at rate `epsilon`; the rule itself at rate 0."""
    return Epsilon(rule, epsilon) if epsilon > 0 else rule


def build_legacy(world: str, problem: Problem, offers: Mapping[str, Offer], spec: str) -> Policy:
    """Parse `NAME` or `NAME:KEY=NUMBER,...` and return the legacy; raise SettingError with what the world offers."""
    name, settings = parse_spec(spec)
    if name not in offers:
        raise SettingError(
            f"world '{world}' has no legacy '{name}'{nearest(name, offers)}; choose one that it offers: {describe(offers)}"
        )
    offer = offers[name]
    for key in settings:
        if key not in offer.defaults:
            raise SettingError(
                f"legacy '{name}' of world '{world}' has no setting '{key}'{nearest(key, offer.defaults)}; "
                f"the world offers: {describe(offers)}"
            )
        if abs(settings[key]) > LARGEST:
            raise SettingError(
                f"legacy '{spec}': '{key}' is a number from {-LARGEST:.0f} to {LARGEST:.0f}; found {settings[key]:g}"
            )
    merged = {**offer.defaults, **settings}
    epsilon = merged.get("epsilon", 0.0)
    if not 0 <= epsilon <= 1:
        raise SettingError(f"legacy '{spec}': 'epsilon' is an exploration rate from 0 to 1; found {epsilon}")
    return Legacy(problem, offer.rules(merged))


def parse_spec(spec: str) -> tuple[str, dict[str, float]]:
    """Return name and settings of a legacy written as `NAME` or `NAME:KEY=NUMBER,KEY=NUMBER`."""
    name, colon, rest = spec.partition(":")
    settings: dict[str, float] = {}
    if not name.strip() or (colon and not rest.strip()):
        raise SettingError(f"a legacy is written NAME or NAME:KEY=NUMBER,...; found '{spec}'")
    for part in rest.split(",") if rest else []:
        key, _, text = (piece.strip() for piece in part.partition("="))
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not key or not math.isfinite(value):
            raise SettingError(f"legacy '{spec}': expected KEY=NUMBER with a finite number; found '{part}'")
        if key in settings:
            raise SettingError(f"legacy '{spec}': the setting '{key}' is given twice")
        settings[key] = value
    return name.strip(), settings


def describe(offers: Mapping[str, Offer]) -> str:
    """Return the legacies of a world with their default settings, in one line."""
    words = []
    for name, offer in offers.items():
        settings = ",".join(f"{key}={value:g}" for key, value in offer.defaults.items())
        words.append(f"{name}:{settings}" if settings else name)
    return ", ".join(words)
