"""Pieces of certificates for the tests of this room."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from aegis.certificate import LevelResult, Verdict
from aegis.certificate.certificate import Assumption, Station, Test

DELTA = 0.05
PROBLEM: dict[str, Any] = {
    "episode": "batch",
    "reward": {"column": "margin", "range": [0.0, 40.0], "unit": "EUR", "goal": "maximise", "per": "decision"},
    "levels": [{"name": "recipe", "context": ["task"]}, {"name": "dose", "context": ["temperature"]}],
}
ASSUMPTIONS = (
    Assumption(
        "propensities", "The logged probabilities are those with which the controller chose.", "tested: no evidence against"
    ),
    Assumption("stationarity", "The plant goes on as it was in the log.", "first half against second half: no drift found"),
    Assumption("confounding", "Nothing unobserved acts on both choice and reward.", "by declaration"),
)
NOTE = {
    "code": "range-too-wide",
    "severity": "note",
    "message": "the declared range is 6 times as wide as the rewards",
    "fix": "declare a narrower range if the plant allows it",
    "level": None,
    "column": "margin",
    "figures": {"ratio": 6.0},
}
WARNING = {
    "code": "poor-overlap",
    "severity": "warning",
    "message": "the heaviest hundredth of the decisions carries 41 % of the weight",
    "fix": "learn a candidate closer to the log: aegis learn --kind capped --cap 2",
    "level": "recipe",
    "column": None,
    "figures": {"share": 0.41, "where": "task 3"},
}
REFUSAL = {
    "code": "deterministic-level",
    "severity": "refused",
    "message": "all 4120 decisions at 'dose' were taken with probability one",
    "fix": "mix exploration into the controller at this level, and log the probabilities",
    "level": "dose",
    "column": None,
    "figures": {"decisions": 4120.0},
}


def path(last: float, units: int, slope: float = 60.0) -> tuple[Station, ...]:
    """Return a path that rises to `last` the way bounds do."""
    stops = [max(1, round(units * (i + 1) / 24)) for i in range(24)]
    return tuple(Station(n, last - slope * (1 / math.sqrt(n) - 1 / math.sqrt(units))) for n in dict.fromkeys(stops))


def stored_test(lower: float | None, certified: bool, what: str = "gain", column: str = "margin", units: int = 812) -> Test:
    """Return one stored test."""
    return Test(
        what=what,
        column=column,
        method=("water-filled",),
        delta=0.00625,
        margin_scaled=0.0,
        lower_scaled=lower,
        certified=certified,
        units=units,
        units_needed=None,
        centres=(3,),
        sums=(("123", None),),
        grids=("ab12",),
    )


def level(scope: tuple[str, ...], verdict: str = "certified", **changes: Any) -> LevelResult:
    """Return the result of a scope with all numbers."""
    good = verdict == "certified"
    lower = 1.23456 if good else -0.31415
    base = LevelResult(
        candidate="policy",
        scope=scope,
        verdict=verdict,
        reason="the gain is certified" if good else "the gain is not certified to exceed the margin yet",
        delta=0.0125,
        margin=0.0,
        gain_lower=lower,
        estimate=2.05,
        estimate_error=0.2125,
        value_lower=11.907,
        value_estimate=13.456,
        legacy_value=11.406,
        units=812,
        further_units=None if good else 1340,
        method="water-filled",
        guards=(),
        path=path(lower, 812),
        tests=(stored_test(lower / 40, good), stored_test(0.297, True, "value")),
    )
    return dataclasses.replace(base, **changes)


def weights(scope: list[str], level: str | None, candidate: str = "policy") -> dict[str, Any]:
    """Return the diagnostics of some weights."""
    histogram = [[-3, 0.08], [-2, 0.12], [-1, 0.2], [0, 0.31], [1, 0.12], [3, 0.02]]
    return {
        "candidate": candidate,
        "scope": scope,
        "level": level,
        "decisions": 8000,
        "ess_share": 0.4321,
        "largest": 11.25,
        "top_share": 0.087,
        "mean": 1.0,
        "zero_share": 0.15,
        "histogram": histogram,
    }


def difference(level: str, candidate: str = "policy", legacy: bool = True) -> dict[str, Any]:
    """Return where a candidate differs at a level."""
    bins = [
        {"variable": "temperature", "label": "above 82.5", "decisions": 903, "total_variation": 0.81},
        {"variable": "temperature", "label": "71 to 82.5", "decisions": 1101, "total_variation": 0.34},
    ]
    return {
        "candidate": candidate,
        "level": level,
        "decisions": 4000,
        "total_variation": 0.472,
        "favourite_differs": 0.388 if legacy else None,
        "bins": bins,
        "actions": ["-2.0", "-1.0", "0.0", "1.0", "2.0"],
        "policy": [0.05, 0.1, 0.2, 0.25, 0.4],
        "legacy": [0.2, 0.2, 0.3, 0.2, 0.1] if legacy else None,
    }


def subgroup(
    label: str, lower: float | None, estimate: float | None, verdict: str, scope: tuple[str, ...] = ("dose",)
) -> dict[str, Any]:
    """Return a subgroup's gain."""
    return {
        "candidate": "policy",
        "scope": list(scope),
        "variable": "temperature",
        "label": label,
        "units": 203,
        "gain_lower": lower,
        "estimate": estimate,
        "delta": 0.0125,
        "verdict": verdict,
    }


def diagnostics() -> dict[str, Any]:
    """Return diagnostics of all kinds."""
    return {
        "weights": [
            weights(["dose"], None),
            weights(["recipe"], None),
            weights(["recipe", "dose"], None),
            weights(["dose"], "dose"),
            weights(["recipe"], "recipe"),
        ],
        "differs": [difference("recipe"), difference("dose")],
        "subgroups": [
            subgroup("below 71", 0.5217, 1.9, "certified"),
            subgroup("71 to 82.5", -0.2113, 0.8, "not yet"),
            subgroup("above 82.5", -1.7, -0.4, "not yet"),
        ],
        "rewards": {"mean": 11.4, "smallest": 8.1, "largest": 14.9, "low": 0.0, "high": 40.0},
    }


def verdict_of(result: LevelResult, sentence: str, step: str) -> Verdict:
    """Return the verdict that speaks of a result."""
    bare = result.verdict == "refused"
    return Verdict(
        verdict=result.verdict,
        sentence=sentence,
        candidate=result.candidate,
        scope=result.scope,
        gain_lower=None if bare else result.gain_lower,
        estimate=None if bare else result.estimate,
        unit="EUR",
        units=result.units,
        unit_word="episodes",
        delta=DELTA,
        further_units=result.further_units,
        next_step=step,
    )
