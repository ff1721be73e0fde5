"""Which scope has the largest bound: certificates of all scopes on the same units, paid for by a union bound."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from aegis.comparison.bounds import BoundCase, ScaledBound, unmet_by_estimates, with_unmet
from aegis.comparison.comparison import ScopeChoice
from aegis.comparison.unit_series import largest_weight
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
from aegis.ope import CandidateView, Measure, plain_values
from aegis.problem import Array, Problem, Scope

SEPARATOR = " + "
PUBLISHED_CHOICE = "PRISM: lam*, B observed, Q = p0"


@dataclass(frozen=True, slots=True)
class ScopeCandidates:
    """The scopes to choose from, by name, and the series that each needs. unmet: conditions that no method meets there."""

    named: Mapping[str, Scope]
    measure: Measure
    unmet: Mapping[str, tuple[str, ...]]

    @classmethod
    def of(cls, problem: Problem, scopes: Iterable[Scope], measure: Measure) -> ScopeCandidates:
        """Return scopes under names that list their levels, outermost first."""
        named = {SEPARATOR.join(name for name in problem.names if name in scope): scope for scope in scopes}
        return cls(named, measure, {name: unmet_by_estimates(problem, scope) for name, scope in named.items()})

    def series(self) -> dict[str, Callable[[CandidateView], Array]]:
        """Return the values of each scope."""
        return {_key(name): _values(scope, self.measure) for name, scope in self.named.items()}

    def peaks(self) -> dict[str, Callable[[CandidateView], float]]:
        """Return the largest weight of each scope."""
        return {_key(name): _largest(scope) for name, scope in self.named.items()}

    def choices(self, case: BoundCase) -> tuple[ScopeChoice, ...]:
        """Return which scope each method chooses; none if there is one scope only."""
        if len(self.named) < 2:
            return ()
        methods = {PUBLISHED_CHOICE: _published, SHARP: _sharp}
        choices = []
        for method, bound in methods.items():
            try:
                chosen = select_scope({name: bound(case, name, words) for name, words in self.unmet.items()}, case.delta)
            except SettingError:  # a scope whose weights are all 0 has no B
                continue
            shown = {
                name: ScaledBound(method, "value", one, claim=f"the value of the candidate at {name}").shown(self.measure)
                for name, one in chosen.bounds.items()
            }
            own = chosen.bound
            choices.append(
                ScopeChoice(
                    method=method,
                    scope=tuple(chosen.scope.split(SEPARATOR)),
                    bounds=shown,
                    delta=case.delta,
                    certificate=own.certificate,
                    label=own.label,
                )
            )
        return tuple(choices)


def _published(case: BoundCase, name: str, unmet: tuple[str, ...]) -> Callable[[float], Bound]:
    def bound(delta: float) -> Bound:
        largest = largest_observed(np.array([case.units.peaks[_key(name)]]))
        published = published_bound(case.units[_key(name)], delta, "closed form", largest, reading=BoundOrigin("observed"))
        return with_unmet(published, unmet)

    return bound


def _sharp(case: BoundCase, name: str, unmet: tuple[str, ...]) -> Callable[[float], Bound]:
    def bound(delta: float) -> Bound:
        values = case.units[_key(name)]
        grid = value_grid(bet_centre(case.prior_series(_key(name)), values.size, delta))
        return with_unmet(sharp_grid_bound(values, grid, delta), unmet)

    return bound


def _key(name: str) -> str:
    return f"scope {name}"


def _values(scope: Scope, measure: Measure) -> Callable[[CandidateView], Array]:
    return lambda view: plain_values(view, scope, measure)


def _largest(scope: Scope) -> Callable[[CandidateView], float]:
    return lambda view: largest_weight(view, scope)
