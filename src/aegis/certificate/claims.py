"""The claims of a certificate, declared before the certified units are opened: each gets its share of the risk."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from aegis.certificate.groups import Group
from aegis.certificate.measures import Measure
from aegis.certificate.parts import Part
from aegis.errors import SettingError
from aegis.problem import Problem, Scope

METHODS = ("auto", "water-filled", "robust", "plain")
WHAT = ("gain", "value")
MOST_LEVELS = 4  # beyond, only scopes that go from the inside out


@dataclass(frozen=True, slots=True)
class Claim:
    """What is claimed of a candidate at a scope, at which risk, and by which tests.

    what: gain, value or guard. margin: the scaled gain that has to be exceeded (a guard: minus the worsening allowed).
    group: the subgroup of units it is about, None for all.
    No parts: candidate and comparator agree, there is nothing to test.
    """

    candidate: int
    scope: Scope
    what: str
    measure: Measure
    margin: float
    delta: float
    parts: tuple[Part, ...]
    group: Group | None = None

    @property
    def bracket(self) -> tuple[float, float]:
        """Return the smallest and the largest scaled value or gain that is possible."""
        if self.what == "value":
            return 0.0, 1.0
        largest = min(1.0, max(part.largest for part in self.parts)) if self.parts else 1.0  # no gain exceeds the range
        return -largest, largest


def scopes_of(
    problem: Problem, asked: Iterable[Iterable[str]] | None = None, levels: Iterable[str] | None = None
) -> tuple[Scope, ...]:
    """Return the scopes to certify: those asked for, else all of `levels` (all if None), inner ones first.

    Beyond four levels only those that go from the inside out.
    """
    if asked is not None:
        found = tuple(dict.fromkeys(problem.scope(names) for names in asked))
        if not found or any(not scope for scope in found):
            raise SettingError(f"a scope names at least one level of {', '.join(problem.names)}")
        return found
    chosen = problem.scope(levels)
    inner_first = tuple(name for name in reversed(problem.names) if name in chosen)
    if len(inner_first) > MOST_LEVELS:
        return tuple(Scope(inner_first[: count + 1]) for count in range(len(inner_first)))
    sizes = range(1, len(inner_first) + 1)
    return tuple(Scope(names) for size in sizes for names in itertools.combinations(inner_first, size))


def margin_of(problem: Problem, scope: Scope) -> float:
    """Return the gain that makes a switch worth it, in reward units: the levels' margins together."""
    return sum(problem.level(name).margin for name in scope)
