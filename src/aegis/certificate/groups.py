"""Subgroups of units: how much the gain is for some of them, each a claim of its own with its own part of the risk.

A group is told by a context of the outermost level, which is known before any decision of the episode is taken: to look at the
units of a group only is then as valid as to look at all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from aegis.errors import SettingError, choose
from aegis.problem import Batch, Problem, Variable

SHARE = 0.1  # of the risk, for all subgroups together
MOST_VALUES = 12


@dataclass(frozen=True, slots=True)
class Group:
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
        found: npt.NDArray[np.bool_] = outside == 0
        return found


def check_variables(problem: Problem, names: Sequence[str]) -> tuple[Variable, ...]:
    """Return the variables to group by; SettingError unless they are contexts of the outermost level, one number or category."""
    outermost = problem.levels[0]
    if names and problem.carry_over == "within" and outermost.decision is not None:
        raise SettingError(
            f"with 'carry_over: within' the contexts of later '{outermost.name}' decisions follow from what was decided before, "
            "and units must not be chosen by that; leave the groups out"
        )
    known = {variable.name: variable for variable in outermost.context}
    found = []
    for name in dict.fromkeys(names):
        choose(name, known, f"variable to group by (a context of the outermost level '{outermost.name}')")
        variable = known[name]
        if variable.kind == "vector":
            raise SettingError(f"'{name}' is a vector; group by a single number or category")
        if variable.kind == "categorical" and len(variable.values) > MOST_VALUES:
            raise SettingError(f"'{name}' has {len(variable.values)} values; group by a variable with at most {MOST_VALUES}")
        found.append(variable)
    return tuple(found)


def groups_of(problem: Problem, names: Sequence[str], prior: Batch | None) -> tuple[Group, ...]:
    """Return the groups: one per category; below and above the prior median for numbers. Their number is known beforehand."""
    level = problem.names[0]
    groups: list[Group] = []
    for variable in check_variables(problem, names):
        if variable.kind == "categorical":
            groups += [Group(variable.name, str(value), level, code) for code, value in enumerate(variable.values)]
            continue
        values = np.zeros(1) if prior is None else prior.levels[level].context[variable.name]
        cut = float(f"{np.median(values):.3g}")
        groups += [
            Group(variable.name, f"below {cut:g}", level, high=cut),
            Group(variable.name, f"from {cut:g}", level, low=cut),
        ]
    return tuple(groups)
