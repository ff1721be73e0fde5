"""Which scope has the largest bound: certificates of all scopes on the same units, paid for by a union bound."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from aegis.comparison.bounds import BoundCase, lower_bound, unmet_by_estimates
from aegis.comparison.comparison import ScopeChoice
from aegis.comparison.unit_series import PeakFunctions, SeriesFunctions, largest_weight
from aegis.errors import SettingError
from aegis.evidence import (
    SHARP,
    Bound,
    BoundOrigin,
    bet_centre,
    largest_observed,
    published_bound,
    select_scope,
    sharp_grid_bound,
    value_grid,
)
from aegis.ope import Measure, plain_values
from aegis.problem import SCOPE_SEPARATOR, Problem, Scope

PUBLISHED_CHOICE = "PRISM: lam*, B observed, Q = p0"

NamedScopes = Mapping[str, Scope]


def name_scopes(problem: Problem, scopes: Iterable[Scope]) -> NamedScopes:
    """Return scopes under names that list their levels, outermost first."""
    return {SCOPE_SEPARATOR.join(name for name in problem.names if name in scope): scope for scope in scopes}


def scope_series(scopes: NamedScopes, measure: Measure) -> tuple[SeriesFunctions, PeakFunctions]:
    """Return the values of each scope, and its largest weight."""
    values = {_key(name): partial(plain_values, scope=scope, measure=measure) for name, scope in scopes.items()}
    return values, {_key(name): partial(largest_weight, scope=scope) for name, scope in scopes.items()}


def choose_scopes(problem: Problem, scopes: NamedScopes, case: BoundCase) -> tuple[ScopeChoice, ...]:
    """Return which scope each method chooses; none if there is one scope only."""
    choices = []
    unmet = {name: unmet_by_estimates(problem, scope) for name, scope in scopes.items()}
    for method, bound in {PUBLISHED_CHOICE: _published, SHARP: _sharp}.items() if len(scopes) > 1 else ():
        try:
            chosen = select_scope({name: partial(bound, case, name, words) for name, words in unmet.items()}, case.delta)
        except SettingError:  # a scope whose weights are all 0 has no B
            continue
        shown = {
            name: lower_bound(one, method, "value", case.measure, f"the value of the candidate at {name}")
            for name, one in chosen.bounds.items()
        }
        best, levels = shown[chosen.scope], tuple(chosen.scope.split(SCOPE_SEPARATOR))
        choices.append(ScopeChoice(method, levels, shown, case.delta, best.certificate, best.label))
    return tuple(choices)


def _published(case: BoundCase, name: str, unmet: tuple[str, ...], delta: float) -> Bound:
    largest = largest_observed(np.array([case.units.peaks[_key(name)]]))
    bound = published_bound(case.units[_key(name)], delta, "closed form", largest, reading=BoundOrigin("observed"))
    return replace(bound, unmet=(*bound.unmet, *unmet))


def _sharp(case: BoundCase, name: str, unmet: tuple[str, ...], delta: float) -> Bound:
    values = case.units[_key(name)]
    grid = value_grid(bet_centre(case.prior_series(_key(name)), values.size, delta))
    bound = sharp_grid_bound(values, grid, delta)
    return replace(bound, unmet=(*bound.unmet, *unmet))


def _key(name: str) -> str:
    return f"scope {name}"
