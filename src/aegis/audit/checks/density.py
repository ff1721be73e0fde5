"""Density: are exact actions as finely spread as a density says? A density gives no single number a positive probability.

Numbers that come again, one or many of them, are atoms that were not declared. Numbers that all lie on a coarse lattice
were rounded, or never continuous. Either way windows hold more or less of the log than their length says.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.special import pdtrc  # scipy.stats would take long to import

from aegis.audit.batch_view import BatchView
from aegis.audit.check import AuditSetting, Check, Finding, Known, make_finding
from aegis.problem import Array, Level, is_atom

MOST = 20_000  # exact actions that are read, the first ones
FEWEST = 10
FEW, SHARE = 3, 0.002  # decisions that share their number with others, and their share: atoms
OFTEN = 10  # an atom holds more than one in ten of the numbers around it
AROUND = 100  # steps to either side
RARE = 1e-3  # the chance of as many equal numbers, where numbers are rounded
SAME = 1e-8  # of a window: numbers this near are equal
DIGITS, NEAR = 10, 1e-4  # decimals that are tried, and how near to them numbers lie
COARSE_LATTICE = 0.005  # of a window, between neighbouring numbers: rounding that matters


class DensityActions(Check):
    """The first exact actions of every interval; atoms are left out."""

    needs = (AuditSetting.has_intervals,)

    def __init__(self, setting: AuditSetting) -> None:
        super().__init__(setting)
        self.levels = [level for level in setting.problem.levels if level.actions.continuous]
        self.actions = {level.name: np.zeros(0) for level in self.levels}

    def add(self, view: BatchView) -> None:
        """Add the decisions of a batch."""
        for level in self.levels:
            value = view.logged.levels[level.name].value
            if value is not None:
                self._keep(level.name, value[~is_atom(level.actions, value)])

    def merge(self, other: DensityActions) -> None:
        """Add later decisions."""
        for name, values in other.actions.items():
            self._keep(name, values)

    def findings(self, known: Known) -> list[Finding]:
        """Return the findings."""
        return [finding for level in self.levels for finding in self._level(level)]

    def _keep(self, name: str, values: Array) -> None:
        self.actions[name] = np.concatenate([self.actions[name], values[: MOST - self.actions[name].size]])

    def _level(self, level: Level) -> list[Finding]:
        values = np.sort(self.actions[level.name])
        if values.size < FEWEST:
            return []
        grave, _ = self.severities(level.name)
        column, window = level.actions.column, 2.0 * float(level.actions.bandwidth or 0.0)
        step = _lattice(values)
        if step is not None and step >= COARSE_LATTICE * window:
            distinct = int(np.count_nonzero(np.diff(values) > SAME * window)) + 1
            message = (
                f"level '{level.name}': {values.size} exact actions are {distinct} different multiples of {step:.3g}, in windows "
                f"of {window:.3g}: they were rounded, or are no continuum"
            )
            return [make_finding("rounded-actions", grave, message, level.name, column, step=step, distinct=float(distinct))]
        again = _again(values, step, window)
        if np.count_nonzero(again) < max(FEW, SHARE * values.size):
            return []
        top = int(np.argmax(again))
        message = (
            f"level '{level.name}': {np.count_nonzero(again)} of {values.size} decisions took a number that others took as well, "
            f"{values[top]:.9g} {again[top] + 1} times; a density gives no single number a chance"
        )
        figures: dict[str, float | str] = {"value": float(values[top]), "count": float(again[top] + 1)}
        return [make_finding("undeclared-atom", grave, message, level.name, column, figures=figures)]


def _lattice(values: Array) -> float | None:
    """Return the decimal step of which all numbers are multiples, as text files round; None if there is none."""
    for digits in range(DIGITS):
        scaled = values * 10.0**digits
        if np.abs(scaled - np.round(scaled)).max() <= NEAR:
            return float(10.0**-digits)
    return None


def _again(values: Array, step: float | None, window: float) -> npt.NDArray[np.int64]:
    """Return for each of the sorted numbers how many others equal it, 0 where that is no more than chance.

    Chance is read off the numbers around it: a density makes as many equal to it as around any number nearby.
    """
    width, rounded = step or SAME * window, step is not None
    if not rounded and (values == values.astype(np.float32)).all():  # kept with seven digits
        width, rounded = max(width, 2.0**-22 * float(np.abs(values).max())), True
    equal, around = (
        np.searchsorted(values, values + reach, side="right") - np.searchsorted(values, values - reach, side="left") - 1
        for reach in (0.5 * width, (AROUND + 0.5) * width)
    )
    by_chance = 3.0 * (around + 1) / (2 * AROUND + 1)
    often = pdtrc(np.maximum(equal - 1, 0), by_chance) < RARE if rounded else equal * OFTEN > around
    return np.where(often & (equal > 0), equal, 0)
