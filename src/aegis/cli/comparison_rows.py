"""Rows of the tables of `aegis compare`. A number that is not a certificate is never written like one."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from string import ascii_lowercase

from aegis.certificate import format_at_least
from aegis.comparison import Comparison, Estimate, LowerBound, MissingMethod, ScopeChoice

NO_NUMBER = "-"
ROUNDING = 1e-12  # standard errors below this share of the estimate come from sums of equal numbers
HOLDS = {"anytime": "anytime", "fixed time": "at this K"}


def certificate_rows(found: Comparison) -> list[list[str]]:
    """Return method, gain, value and when it holds; bounds are rounded to the side that promises less."""
    costs = found.goal == "minimise"
    rows = []
    for method, bounds in _bounds_by_method(found.certificates).items():
        gain, value = bounds.get("gain"), bounds.get("value")
        one = next(iter(bounds.values()))
        rows.append(
            [
                method,
                NO_NUMBER if gain is None else format_at_least(gain.value),
                NO_NUMBER if value is None else format_at_least(value.value, upper=costs),
                HOLDS[one.validity],
            ]
        )
    return rows


def estimate_rows(found: Comparison) -> list[list[str]]:
    """Return method, gain and value with their standard errors, and what to know about it."""
    rows = []
    for method in dict.fromkeys(item.method for item in found.estimates):
        gain, value = found.estimate(method, "gain"), found.estimate(method, "value")
        one = gain or value
        rows.append([method, _with_error(gain), _with_error(value), "" if one is None else one.note])
    return rows


def nominal_rows(found: Comparison) -> tuple[list[list[str]], dict[str, str]]:
    """Return method, nominal gain and value, letters of the reasons why it is no certificate; and the reasons by letter."""
    letters: dict[str, str] = {}
    numbers = count()
    rows = []
    for method, bounds in _bounds_by_method(found.others).items():
        reasons = [reason for bound in bounds.values() for reason in _reasons(bound)]
        for reason in dict.fromkeys(reasons):
            if reason not in letters:
                letters[reason] = reason_letter(next(numbers))
        why = " ".join(letters[reason] for reason in dict.fromkeys(reasons))
        rows.append([method, _nominal(bounds.get("gain")), _nominal(bounds.get("value")), why])
    return rows, {letter: reason for reason, letter in letters.items()}


def methods_by_reason(missing: Iterable[MissingMethod]) -> dict[str, list[str]]:
    """Return the methods that have no number by reason."""
    found: dict[str, list[str]] = {}
    for item in missing:
        found.setdefault(item.reason, []).append(item.method)
    return found


def scope_choice_line(choice: ScopeChoice, costs: bool) -> str:
    """Return which scope a method would choose, and whether that is a certificate."""
    best = choice.bounds[" + ".join(choice.scope)]
    lead = f"best of {len(choice.bounds)} scopes by {choice.method}: {' + '.join(choice.scope)}"
    if choice.certificate:
        return f"{lead}, {'cost ≤' if costs else 'value ≥'} {format_at_least(best.value, upper=costs)} (certificate)"
    return f"{lead}, nominal ({best.value:.4g}), not a certificate"


def _bounds_by_method(bounds: Iterable[LowerBound]) -> dict[str, dict[str, LowerBound]]:
    found: dict[str, dict[str, LowerBound]] = {}
    for bound in bounds:
        found.setdefault(bound.method, {})[bound.what] = bound
    return found


def _with_error(found: Estimate | None) -> str:
    """Return a number with its standard error; without one where all units have the same value, as some models say."""
    if found is None:
        return NO_NUMBER
    same = found.error <= ROUNDING * abs(found.value)
    return f"{found.value:.4g} ± {NO_NUMBER if same else f'{found.error:.2g}'}"


def _nominal(bound: LowerBound | None) -> str:
    """Return a number in brackets: it is no bound that anybody may rely on."""
    return NO_NUMBER if bound is None else f"({bound.value:.4g})"


def _reasons(bound: LowerBound) -> tuple[str, ...]:
    return bound.unmet or (bound.label.removeprefix("not a certificate: "),)


def reason_letter(number: int) -> str:
    """Return a, b, ..., z, aa, ab, ..."""
    more, last = divmod(number, len(ascii_lowercase))
    return ("" if not more else reason_letter(more - 1)) + ascii_lowercase[last]
