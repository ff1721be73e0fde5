"""Rows of the tables of `aegis compare`. A number that is not a certificate is never written like one."""

from __future__ import annotations

from collections.abc import Iterable
from string import ascii_lowercase

from aegis.certificate import format_at_least
from aegis.comparison import Comparison, Estimate, LowerBound, MissingMethod, ScopeChoice

NO_NUMBER = "-"
ROUNDING = 1e-12  # standard errors below this share of the estimate come from sums of equal numbers
HOLDS = {"anytime": "anytime", "fixed time": "at this K"}


def certificate_rows(comparison: Comparison) -> list[list[str]]:
    """Return method, gain, value and when it holds; bounds are rounded to the side that promises less."""
    costs = comparison.goal == "minimise"
    return [
        [
            method,
            format_at_least(bounds["gain"].value) if "gain" in bounds else NO_NUMBER,
            format_at_least(bounds["value"].value, upper=costs) if "value" in bounds else NO_NUMBER,
            HOLDS[next(iter(bounds.values())).validity],
        ]
        for method, bounds in _bounds_by_method(comparison.certificates).items()
    ]


def estimate_rows(comparison: Comparison) -> list[list[str]]:
    """Return method, gain and value with their standard errors, and what to know about it."""
    rows = []
    for method in dict.fromkeys(item.method for item in comparison.estimates):
        gain, value = comparison.estimate(method, "gain"), comparison.estimate(method, "value")
        one = gain or value
        rows.append([method, estimate_text(gain), estimate_text(value), "" if one is None else one.note])
    return rows


def nominal_rows(comparison: Comparison) -> tuple[list[list[str]], dict[str, str]]:
    """Return method, nominal gain and value, letters of the reasons why it is no certificate; and the reasons by letter."""
    letters: dict[str, str] = {}
    rows = []
    for method, bounds in _bounds_by_method(comparison.others).items():
        reasons = dict.fromkeys(reason for bound in bounds.values() for reason in _reasons(bound))
        for reason in reasons:
            letters.setdefault(reason, ascii_lowercase[len(letters)])
        why = " ".join(letters[reason] for reason in reasons)
        rows.append([method, _nominal(bounds.get("gain")), _nominal(bounds.get("value")), why])
    return rows, {letter: reason for reason, letter in letters.items()}


def methods_by_reason(missing: Iterable[MissingMethod]) -> dict[str, list[str]]:
    """Return the methods that have no number by reason."""
    methods: dict[str, list[str]] = {}
    for item in missing:
        methods.setdefault(item.reason, []).append(item.method)
    return methods


def scope_choice_line(choice: ScopeChoice, costs: bool) -> str:
    """Return which scope a method would choose, and whether that is a certificate."""
    best = choice.bounds[" + ".join(choice.scope)]
    lead = f"best of {len(choice.bounds)} scopes by {choice.method}: {' + '.join(choice.scope)}"
    if choice.certificate:
        return f"{lead}, {'cost ≤' if costs else 'value ≥'} {format_at_least(best.value, upper=costs)} (certificate)"
    return f"{lead}, nominal ({best.value:.4g}), not a certificate"


def _bounds_by_method(bounds: Iterable[LowerBound]) -> dict[str, dict[str, LowerBound]]:
    by_method: dict[str, dict[str, LowerBound]] = {}
    for bound in bounds:
        by_method.setdefault(bound.method, {})[bound.what] = bound
    return by_method


def estimate_text(estimate: Estimate | None) -> str:
    """Return a number with its standard error, without one where a model gives all units the same value."""
    if estimate is None:
        return NO_NUMBER
    same = estimate.error <= ROUNDING * abs(estimate.value)
    return f"{estimate.value:.4g} ± {NO_NUMBER if same else f'{estimate.error:.2g}'}"


def _nominal(bound: LowerBound | None) -> str:
    """Return a number in brackets: it is no bound to rely on."""
    return NO_NUMBER if bound is None else f"({bound.value:.4g})"


def _reasons(bound: LowerBound) -> tuple[str, ...]:
    return bound.unmet or (bound.label.removeprefix("not a certificate: "),)
