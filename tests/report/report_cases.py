"""Certificates of every kind for the tests of this room."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from report_parts import (
    ASSUMPTIONS,
    DELTA,
    NOTE,
    PROBLEM,
    REFUSAL,
    WARNING,
    diagnostics,
    difference,
    level,
    path,
    stored_test,
    subgroup,
    verdict_of,
    weights,
)

from aegis.certificate import Certificate, Verdict
from aegis.certificate.certificate import Assumption, GuardResult


def certified(**changes: Any) -> Certificate:
    """Return a certified handover of `dose`, with the other scopes in other states."""
    best = level(("dose",))
    outer = level(("recipe",), "not yet", estimate=0.61, value_lower=None)
    both = level(("recipe", "dose"), "not yet", gain_lower=-2.7182, estimate=2.6, further_units=None, path=path(-2.7182, 812))
    base = Certificate(
        verdict=verdict_of(
            best,
            "Certified: with probability at least 95 %, policy at 'dose' earns at least 1.234 EUR more per decision than the "
            "legacy (estimate 2.05 EUR), on 812 episodes.",
            "Hand 'dose' over to policy, exactly as it was certified, and go on logging propensities.",
        ),
        levels=(outer, best, both),
        findings=(NOTE, WARNING),
        assumptions=ASSUMPTIONS,
        blocking="The weights at 'recipe' slow things down most: the effective sample is 4.1 % of its decisions, the largest "
        "weight 87.",
        counts={"episodes": 1650, "certified_episodes": 812, "prior_episodes": 838, "waiting_episodes": 0, "rows": 16500},
        candidates=(
            {"name": "policy", "digest": "9f" * 16, "kind": "greedy", "caps": {"recipe": None, "dose": 2.0}, "columns": []},
        ),
        splits=({"kind": "hash", "key": "aegis", "fraction": 0.5},),
        looks={
            "number": 2,
            "earlier": [
                {
                    "when": "2026-11-02T10:00:00+00:00",
                    "candidates": [{"name": "first try", "digest": "1"}],
                    "verdict": "not yet",
                    "delta": 0.05,
                    "same": False,
                },
                {
                    "when": "2026-11-03T10:00:00+00:00",
                    "candidates": ["policy"],
                    "verdict": "certified",
                    "delta": 0.05,
                    "same": True,
                },
            ],
            "ledger": "looks/ab12.json",
        },
        settings={
            "delta": DELTA,
            "method": "auto",
            "what": ["gain", "value"],
            "fresh": False,
            "risk": {"asked": 2 * DELTA, "requests": 2, "sum": 2 * DELTA, "looks": False, "fixed_before": ""},
        },
        digests={"data": "c0ffee" * 8, "files": {"log.parquet": "beef" * 8}, "problem": "dead" * 8},
        problem=PROBLEM,
        diagnostics=diagnostics(),
        versions={"aegis": "0.1.0", "numpy": "2.4.6", "python": "3.11.7"},
        created="2026-11-16T02:30:00+00:00",
    )
    return dataclasses.replace(base, **changes)


def not_yet() -> Certificate:
    """Return a certificate that needs more evidence; no ledger, no subgroups."""
    best = level(("dose",), "not yet", margin=0.5)
    found = verdict_of(
        best,
        "Not yet: on 812 episodes it is not certified at risk 5 % that policy at 'dose' is more than 0.5 EUR better.",
        "Keep the legacy. Log about 1340 further episodes under it and certify the same candidate on the whole log again.",
    )
    return certified(verdict=found, levels=(best,), findings=(), looks={}, diagnostics={"weights": [weights(["dose"], None)]})


def refused(**changes: Any) -> Certificate:
    """Return a refused certificate that carries numbers it must not show."""
    bad = level(
        ("dose",),
        "refused",
        reason=f"{REFUSAL['message']} [deterministic-level]",
        gain_lower=7.77123,
        value_lower=8.88123,
        guards=(GuardResult("scrap", 0.66123, 0.01, "certified"),),
        tests=(stored_test(0.55123, True),),
        path=path(7.77123, 812),
    )
    found = verdict_of(
        bad, f"Refused: {REFUSAL['message']}", "Do not hand over. Mix exploration into the controller at this level."
    )
    found = dataclasses.replace(found, gain_lower=7.77123)
    more = {
        "weights": [weights(["dose"], None)],
        "differs": [difference("dose", legacy=False)],
        "subgroups": [subgroup("below 71", 9.99123, 1.9, "certified")],
    }
    changes = {"verdict": found, "levels": (bad,), "findings": (NOTE, REFUSAL), "diagnostics": more} | changes
    return certified(**changes)


def three_levels() -> Certificate:
    """Return a certificate over three levels and all their scopes, some refused."""
    names = ("plan", "recipe", "dose")
    scopes = [(n,) for n in names] + [("plan", "recipe"), ("plan", "dose"), ("recipe", "dose"), names]
    levels = []
    for place, scope in enumerate(scopes):
        kind = "refused" if "plan" in scope else "certified" if scope == ("recipe", "dose") else "not yet"
        numbers: dict[str, Any] = {"gain_lower": None, "estimate": None, "estimate_error": None, "value_lower": None, "path": ()}
        levels.append(level(scope, kind, **(numbers if kind == "refused" else {"estimate": 0.4 * place})))
    best = next(result for result in levels if result.verdict == "certified")
    problem = PROBLEM | {"levels": [{"name": name} for name in names]}
    several = [
        weights(list(best.scope), None),
        weights(["recipe"], "recipe"),
        weights(["dose"], "dose"),
        weights(["plan"], "plan"),
    ]
    found = verdict_of(
        best, "Certified: the gain at 'recipe' and 'dose' is certified.", "Hand 'recipe' and 'dose' over to policy."
    )
    return certified(verdict=found, levels=tuple(levels), problem=problem, diagnostics={**diagnostics(), "weights": several})


def guarded() -> Certificate:
    """Return a certificate whose gain is certified and whose guards are not all."""
    guards = (
        GuardResult("scrap_rate", -0.00412, 0.01, "certified"),
        GuardResult("energy", -3.2112, 2.0, "not yet"),
        GuardResult("noise", 0.1234, 0.5, "certified"),
        GuardResult("smell", None, 0.5, "not yet"),
    )
    best = level(
        ("dose",), "not yet", gain_lower=0.7, reason="the gain is certified, the guard 'energy' is not yet", guards=guards
    )
    found = verdict_of(best, "Not yet: the guard 'energy' is not certified.", "Keep the legacy. Log about 1340 further episodes.")
    return certified(verdict=found, levels=(best, level(("recipe",))))


def minimise() -> Certificate:
    """Return a certificate about a cost, in clusters."""
    reward = {"column": "energy", "range": [0.0, 9000.0], "unit": "kWh", "goal": "minimise", "per": "episode"}
    best = level(
        ("dose",),
        gain_lower=123.456,
        estimate=180.25,
        estimate_error=20.0,
        value_lower=4321.987,
        value_estimate=4200.0,
        legacy_value=4380.25,
        path=path(123.456, 812, 5000.0),
    )
    found = dataclasses.replace(
        verdict_of(best, "Certified: 123.4 kWh less.", "Hand 'dose' over."), unit="kWh", unit_word="clusters"
    )
    return certified(verdict=found, levels=(best,), problem=PROBLEM | {"reward": reward, "cluster": "machine"}, diagnostics={})


def several() -> Certificate:
    """Return a certificate of three candidates."""
    found = tuple(
        level((name,), kind, candidate=candidate, estimate=estimate)
        for candidate, kind, estimate in (("capped", "certified", 1.6), ("greedy", "not yet", 3.1), ("mixture", "not yet", 2.9))
        for name in ("dose", "recipe")
    )
    both = [{**item, "candidate": name} for name in ("capped", "greedy") for item in diagnostics()["weights"]]
    shown = {"weights": both, "differs": [difference("dose", "capped"), difference("dose", "greedy")]}
    return certified(
        verdict=verdict_of(found[0], "Certified: capped at 'dose'.", "Hand 'dose' over to capped."),
        levels=found,
        diagnostics=shown,
    )


def bare(verdict: str = "refused") -> Certificate:
    """Return a certificate without any number that may be missing."""
    nothing = Verdict(
        verdict=verdict,
        sentence="There is nothing to certify.",
        candidate=None,
        scope=(),
        gain_lower=None,
        estimate=None,
        unit="",
        units=0,
        unit_word="episodes",
        delta=DELTA,
        further_units=None,
        next_step="See the findings.",
    )
    empty: Mapping[str, Any] = {}
    blank = level(
        ("dose",),
        verdict,
        gain_lower=None,
        estimate=None,
        estimate_error=None,
        value_lower=None,
        value_estimate=None,
        legacy_value=None,
        further_units=None,
        path=(),
        tests=(stored_test(None, False),),
        units=0,
        guards=(GuardResult("scrap", None, 0.1, verdict),),
    )
    part = dict.fromkeys(("candidate", "scope", "level", "ess_share", "largest", "top_share", "histogram", "units", "delta"))
    nulls = {"weights": [part], "differs": [part], "subgroups": [part], "rewards": {"mean": None, "low": 0.0}}
    return certified(
        verdict=nothing,
        levels=(blank,),
        findings=(),
        assumptions=(),
        blocking="",
        counts=empty,
        candidates=(),
        splits=(),
        looks={},
        settings=empty,
        digests=empty,
        problem=empty,
        diagnostics=nulls,
        versions=empty,
    )


def hostile(text: str = "<b onload=\"x('&')\">") -> Certificate:
    """Return a certificate in which every text that comes from the user is `text`."""
    scope = (text,)
    best = level(
        scope,
        candidate=text,
        reason=text,
        method=text,
        guards=(GuardResult(text, -0.1, 0.2, "certified"),),
        tests=(dataclasses.replace(stored_test(0.1, True), column=text, method=(text,), what=text),),
    )
    problem = {**PROBLEM, "reward": {**PROBLEM["reward"], "per": text, "unit": text}, "levels": [{"name": text}], text: text}
    changed: dict[str, Any] = {
        "weights": [{**weights([text], None, text)}, {**weights([text], text, text)}],
        "differs": [{**difference(text, text), "actions": [text] * 5, "bins": [{"variable": text, "label": text}]}],
        "subgroups": [{**subgroup(text, 0.1, 0.2, text, scope), "candidate": text, "variable": text}],
    }
    found = Verdict(
        verdict="certified",
        sentence=text,
        candidate=text,
        scope=scope,
        gain_lower=1.2,
        estimate=2.0,
        unit=text,
        units=812,
        unit_word=text,
        delta=DELTA,
        further_units=None,
        next_step=text,
    )
    finding = {
        "code": text,
        "severity": text,
        "message": text,
        "fix": text,
        "level": text,
        "column": text,
        "figures": {text: text},
    }
    look = {"when": text, "candidates": [{"name": text}], "verdict": text, "same": False}
    return Certificate(
        verdict=found,
        levels=(best, level((text,), "not yet", candidate="another")),
        findings=(finding,),
        assumptions=(Assumption(text, text, text),),
        blocking=text,
        counts={text: 1},
        candidates=({"name": text, "caps": {text: [text]}},),
        splits=({"key": text},),
        looks={"number": 2, "earlier": [look], "ledger": text},
        settings={text: text},
        digests={"files": {text: text}},
        problem=problem,
        diagnostics=changed,
        versions={text: text},
        created=text,
    )


KINDS = {
    "certified": certified,
    "not_yet": not_yet,
    "refused": refused,
    "three_levels": three_levels,
    "guarded": guarded,
    "minimise": minimise,
    "several": several,
    "bare": bare,
    "hostile": hostile,
}
