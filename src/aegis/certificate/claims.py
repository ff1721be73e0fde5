"""The claims of a certificate, its scopes and its subgroups: everything is declared before the certified units are opened.

A subgroup is defined by a context of the outermost level, which is known before any decision of the episode is taken. Looking
only at the units of a subgroup is then as valid as looking at all of them; each subgroup is a claim with its own part of the
risk.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.certificate.methods import EvidencePart, Reach, gain_parts, value_parts
from aegis.errors import SettingError, check_choice
from aegis.ope import LOGGER_COMPARATOR, Closeness, Comparator, Measure, guard_measures, reward_measure
from aegis.problem import Batch, Problem, Scope, Variable

SUBGROUP_SHARE = 0.1  # of the risk, for all subgroups together

MOST_SUBGROUPS = 12


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """The episodes whose outermost decisions all have a variable in [low, high), or equal to a code."""

    variable: str
    label: str
    level: str
    code: int | None = None
    low: float = -np.inf
    high: float = np.inf

    def members(self, batch: Batch) -> npt.NDArray[np.bool_]:
        """Return which episodes belong to the group, `bool[E]`."""
        table = batch.levels[self.level]
        values = table.context[self.variable]
        inside = values == self.code if self.code is not None else (values >= self.low) & (values < self.high)
        outside = np.bincount(table.parent, weights=~inside, minlength=len(batch))
        mask: npt.NDArray[np.bool_] = outside == 0
        return mask


def check_group_variables(problem: Problem, names: Sequence[str]) -> tuple[Variable, ...]:
    """Return the variables to group by; SettingError unless they are contexts of the outermost level, one number or category."""
    outermost = problem.levels[0]
    if names and problem.carry_over == "within" and outermost.decision is not None:
        raise SettingError(
            f"with 'carry_over: within' the contexts of later '{outermost.name}' decisions follow from what was decided before, "
            "and units must not be chosen by that; leave the groups out"
        )
    known = {variable.name: variable for variable in outermost.context}
    variables = []
    for name in dict.fromkeys(names):
        check_choice(name, known, f"variable to group by (a context of the outermost level '{outermost.name}')")
        variable = known[name]
        if variable.kind == "vector":
            raise SettingError(f"'{name}' is a vector; group by a single number or category")
        if variable.kind == "categorical" and len(variable.values) > MOST_SUBGROUPS:
            raise SettingError(f"'{name}' has {len(variable.values)} values; group by a variable with at most {MOST_SUBGROUPS}")
        variables.append(variable)
    return tuple(variables)


def subgroups_of(problem: Problem, names: Sequence[str], prior: Batch | None) -> tuple[UnitGroup, ...]:
    """Return the groups: one per category; below and above the prior median for numbers. Their number is known beforehand."""
    level = problem.names[0]
    groups: list[UnitGroup] = []
    for variable in check_group_variables(problem, names):
        if variable.kind == "categorical":
            groups += [UnitGroup(variable.name, str(value), level, code) for code, value in enumerate(variable.values)]
            continue
        values = np.zeros(1) if prior is None else prior.levels[level].context[variable.name]
        cut = float(f"{np.median(values):.3g}")
        groups += [
            UnitGroup(variable.name, f"below {cut:g}", level, high=cut),
            UnitGroup(variable.name, f"from {cut:g}", level, low=cut),
        ]
    return tuple(groups)


# What a claim bounds: the gain over the incumbent, or the value.
CLAIMED_QUANTITIES = ("gain", "value")

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
    parts: tuple[EvidencePart, ...]
    group: UnitGroup | None = None

    @property
    def bracket(self) -> tuple[float, float]:
        """Return the smallest and the largest scaled value or gain that is possible."""
        if self.what == "value":
            return 0.0, 1.0
        largest = min(1.0, max(part.largest for part in self.parts)) if self.parts else 1.0  # no gain exceeds the range
        return -largest, largest


def scopes_of(
    problem: Problem, named: Iterable[Iterable[str]] | None = None, levels: Iterable[str] | None = None
) -> tuple[Scope, ...]:
    """Return the scopes to certify: those asked for, else all of `levels` (all if None), inner ones first.

    Beyond four levels only those that go from the inside out.
    """
    if named is not None:
        scopes = tuple(dict.fromkeys(problem.scope(names) for names in named))
        if not scopes or any(not scope for scope in scopes):
            raise SettingError(f"a scope names at least one level of {', '.join(problem.names)}")
        return scopes
    chosen = problem.scope(levels)
    inner_first = tuple(name for name in reversed(problem.names) if name in chosen)
    if len(inner_first) > MOST_LEVELS:
        return tuple(Scope(inner_first[: count + 1]) for count in range(len(inner_first)))
    sizes = range(1, len(inner_first) + 1)
    return tuple(Scope(names) for size in sizes for names in itertools.combinations(inner_first, size))


def margin_of(problem: Problem, scope: Scope) -> float:
    """Return the gain that makes a switch worth it, in reward units: the levels' margins together."""
    return sum(problem.level(name).margin for name in scope)


@dataclass(frozen=True, slots=True)
class ChallengeTerms:
    """What the claims about a challenger are made by.

    variation: the largest total variation between its choice and that of its comparator. allowed: the share of a negative margin
    that this flip may use, and of what guards allow, which `levels` levels share. comparator: who it is compared with, the
    incumbent, or for an upgrade the policy in control, which writes the log.
    """

    variation: float
    allowed: float = 1.0
    levels: int = 1
    comparator: Comparator = LOGGER_COMPARATOR


def claims_at(
    problem: Problem,
    scope: Scope,
    reach: Reach,
    methods: Mapping[str, str],
    *,
    margin: float,
    delta: float,
    candidate: int = 0,
    allowed: float = 1.0,
) -> list[Claim]:
    """Return what is claimed of a candidate at a scope: a gain, a value, and that no guard gets worse than is allowed.

    methods: by claimed quantity the method that tests it; guards are tested as gains are. margin: of the gain, scaled. allowed:
    the share of what guards allow.
    """
    reward = reward_measure(problem)
    parts = gain_parts(problem, scope, reward, reach, methods["gain"])
    claims = [Claim(candidate, scope, "gain", reward, margin, delta, parts)]
    if "value" in methods:
        parts = value_parts(problem, scope, reward, reach, methods["value"])
        claims.append(Claim(candidate, scope, "value", reward, 0.0, delta, parts))
    for guard in guard_measures(problem):
        parts = gain_parts(problem, scope, guard, reach, methods["gain"])
        claims.append(Claim(candidate, scope, "guard", guard, -(allowed * guard.allowed / guard.width), delta, parts))
    return claims


def challenge_claims(problem: Problem, level: str, terms: ChallengeTerms) -> list[Claim]:
    """Return what is claimed of a challenger at a level."""
    scope = Scope(level)
    cap = 1.0 / (1.0 - terms.variation) if terms.variation < 1.0 else math.inf
    reach = Reach(True, (Closeness(cap=cap, variation=terms.variation),), terms.comparator)
    margin = margin_of(problem, scope) / reward_measure(problem).width
    margin = margin if margin > 0 else terms.allowed * margin
    # The value is only watched, and a plain bound of it is many times quicker than a water-filled one.
    methods = {"gain": "auto", "value": "plain"}
    return claims_at(problem, scope, reach, methods, margin=margin, delta=0.5, allowed=terms.allowed / terms.levels)
