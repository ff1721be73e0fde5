"""A bound in scaled units with how it came about, before it is turned into the user's units."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aegis.certificate.measures import Measure
from aegis.comparison.results import LowerBound, Missing, What
from aegis.errors import ModelError, SettingError
from aegis.evidence import Bound
from aegis.problem import Problem, Scope

CLAIM = {"value": "the value of the candidate", "gain": "the gain of the candidate over its comparator"}


@dataclass(frozen=True, slots=True)
class Found:
    """A bound by one method. shift: what was added to the unit values before, and is taken off the bound again."""

    method: str
    what: What
    bound: Bound
    shift: float = 0.0
    provenance: Mapping[str, Any] = field(default_factory=dict)
    claim: str = ""

    def shown(self, measure: Measure) -> LowerBound:
        """Return it in the user's units; whether it is a certificate is what the bound itself says, nothing else."""
        scaled = self.bound.value - self.shift
        return LowerBound(
            self.method,
            self.what,
            measure.gain(scaled) if self.what == "gain" else measure.value(scaled),
            self.bound.delta,
            self.bound.units,
            self.bound.validity,
            self.bound.certificate,
            self.bound.label,
            self.claim or CLAIM[self.what],
            self.bound.met,
            self.bound.unmet,
            self.provenance,
        )


def not_exact(problem: Problem, scope: Scope) -> tuple[str, ...]:
    """Return which condition of every method that takes propensities as exact is not met at a scope; empty if it is."""
    levels = [level for level in problem.levels if level.name in scope and level.propensity is not None]
    estimated = [f"'{level.name}'" for level in levels if level.propensity is not None and level.propensity.estimated]
    return (f"the propensities at {', '.join(estimated)} are estimated, and taken as exact here",) if estimated else ()


def lacking(bound: Bound, words: tuple[str, ...]) -> Bound:
    """Return the bound with further conditions that it does not meet."""
    return replace(bound, unmet=(*bound.unmet, *words)) if words else bound


@dataclass(slots=True)
class Findings:
    """Bounds found so far, and what could not be computed."""

    bounds: list[Found] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    def unmet(self, words: tuple[str, ...]) -> None:
        """Add conditions that none of the bounds so far meets."""
        self.bounds = [replace(item, bound=lacking(item.bound, words)) for item in self.bounds]

    def lacks(self, method: str, reason: str) -> None:
        """Note that a method has no number, once."""
        if all(item.method != method for item in self.missing):
            self.missing.append(Missing(method, reason))

    def take(self, method: str, compute: Callable[[], Found]) -> None:
        """Add what is computed under a name, or say why it cannot be; what data refute (RefusedError) ends the comparison."""
        try:
            self.bounds.append(replace(compute(), method=method))
        except (SettingError, ModelError) as error:
            self.lacks(method, str(error))
