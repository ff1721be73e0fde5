"""Slices of the context: cut points, the joint cells of several cuts, and signs at a cut.

Bets must be fixed before the data they are placed on, and a median over all rows would look ahead. So cut points come from
the first episodes, which then do not take part in what they cut. A slice is a set of cells: one sum over rows serves all
slices.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from aegis.problem import AnyArray, Array, Batch, Problem, Rows, Value, augmented_context, group_means, means_below

MOST_EPISODES = 256  # that place the cuts; a tenth of the first batch if that is less
MOST_CUTS = 8  # variables (or coordinates) of a level that are cut
MOST_CATEGORIES = 8


@dataclass(frozen=True, slots=True)
class Cut:
    """One number cut at `edge` (bin 0: at or below), or one category with a bin for each of the first few values.

    quarters: where the two halves of a number are cut again, None if they are not. Its parts are quarters, else bins.
    """

    name: str
    variable: str
    coordinate: int = 0
    edge: float = 0.0
    values: tuple[Value, ...] = ()
    quarters: tuple[float, float] | None = None

    @property
    def bins(self) -> int:
        """How many bins there are."""
        return min(len(self.values), MOST_CATEGORIES) if self.values else 2

    @property
    def labels(self) -> tuple[str, ...]:
        """The bins in words."""
        if not self.values:
            return self._ranges(self.edge)
        labels = [f"{self.name} = {value}" for value in self.values[: self.bins]]
        if len(self.values) > MOST_CATEGORIES:  # the last bin holds the rest
            labels[-1] = f"{self.name} not {' or '.join(map(str, self.values[: self.bins - 1]))}"
        return tuple(labels)

    @property
    def parts(self) -> int:
        """How many parts there are; each lies in one bin."""
        return self.bins if self.quarters is None else 4

    @property
    def part_labels(self) -> tuple[str, ...]:
        """The quarters in words; none if the parts are the bins."""
        return () if self.quarters is None else self._ranges(self.quarters[0], self.edge, self.quarters[1])

    def _ranges(self, *edges: float) -> tuple[str, ...]:
        above = [f" above {edge:.4g}" for edge in edges]
        up_to = [f" up to {edge:.4g}" for edge in edges]
        return tuple(f"{self.name}{low}{high}" for low, high in zip(["", *above], [*up_to, ""], strict=True))

    def codes(self, rows: Rows) -> AnyArray:
        """Return the bin `[n]` of each row."""
        if self.values:
            return np.clip(rows[self.variable], 0, self.bins - 1)
        return self._above(rows, self.edge)

    def part_codes(self, rows: Rows) -> AnyArray:
        """Return the part `[n]` of each row: twice its bin, and one more in the upper half of that, if there are quarters."""
        if self.quarters is None:
            return self.codes(rows)
        return sum((self._above(rows, edge) for edge in self.quarters), self._above(rows, self.edge))

    def _above(self, rows: Rows, edge: float) -> AnyArray:
        values = rows[self.variable]
        return ((values if values.ndim == 1 else values[:, self.coordinate]) > edge).astype(np.int64)


EPISODES = ""  # key of the mean rewards of whole episodes


@dataclass(frozen=True, slots=True)
class Cuts:
    """All cuts: of what each level looks at, by level, and of the mean reward below its decisions.

    used: how many episodes of the first batch placed them. centre and spread: of those mean rewards, and of the mean rewards of
    whole `EPISODES`, their mean and standard deviation. shares: how often each action of a level was taken.
    """

    used: int
    context: Mapping[str, tuple[Cut, ...]]
    reward: Mapping[str, float] = field(default_factory=dict)
    centre: Mapping[str, float] = field(default_factory=dict)
    spread: Mapping[str, float] = field(default_factory=dict)
    shares: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: Problem, batch: Batch, reward: Array, used: int | None = None) -> Cuts:
        """Place the cuts by the first episodes of a batch, `used` of them; reward `[n]`, nan where it is not known."""
        used = min(MOST_EPISODES, max(1, len(batch) // 10)) if used is None else used
        first = batch.take_episodes(np.arange(used))
        rows = reward[: len(first.levels[problem.innermost.name])]
        context = {name: _cuts(problem, first, name) for name in problem.names}
        means = {name: means_below(first, name, rows) for name in problem.names}
        every = {**means, EPISODES: group_means(first.episode_of(problem.innermost.name), rows, len(first))}
        return cls(
            used=used,
            context=context,
            reward={name: _median(values) for name, values in means.items()},
            centre={name: _mean(values) for name, values in every.items()},
            spread={name: _spread(values) for name, values in every.items()},
            shares={name: _shares(first.levels[name].action, problem.level(name).actions.count) for name in problem.names},
        )


def _cuts(problem: Problem, batch: Batch, level: str) -> tuple[Cut, ...]:
    rows = augmented_context(problem, batch, level)
    known = problem.visible(level)
    own = [variable.name for variable in problem.level(level).context]
    cuts: list[Cut] = []
    for name in (*own, *[other for other in reversed(known) if other not in own]):  # the nearest first
        variable = known[name]
        if variable.kind == "categorical":
            cuts.append(Cut(name, name, values=variable.values))
            continue
        columns = zip(variable.columns, rows[name].reshape(len(rows[name]), -1).T, strict=True)
        cuts += [_number_cut(column, name, coordinate, values) for coordinate, (column, values) in enumerate(columns)]
    return tuple(cuts[:MOST_CUTS])


def _number_cut(name: str, variable: str, coordinate: int, values: Array) -> Cut:
    edge = _median(values)
    known = values[np.isfinite(values)]
    below, above = known[known <= edge], known[known > edge]
    quarters = None
    if below.size and above.size:
        low, high = _median(below), _median(above)
        # A half of one value is not cut again.
        quarters = (low, high) if low < edge and high < above.max() else None
    return Cut(name, variable, coordinate, edge=edge, quarters=quarters)


def _median(values: Array) -> float:
    """Return a median with values on both sides: where half are equal to the largest, the next below."""
    known = values[np.isfinite(values)]
    if not known.size:
        return 0.0
    middle = float(np.quantile(known, 0.5, method="lower") / 2.0 + np.quantile(known, 0.5, method="higher") / 2.0)
    below = known[known < middle]
    return float(below.max()) if middle == known.max() and below.size else middle


def _mean(values: Array) -> float:
    """Return the mean of the known values, 0 if there are none."""
    known = values[np.isfinite(values)]
    return float((known / max(known.size, 1)).sum())


def _spread(values: Array) -> float:
    """Return the standard deviation of the known values; 1 where there are too few or all are equal."""
    known = values[np.isfinite(values)]
    half = known / 2.0  # so that the squares of the largest numbers do not overflow
    scale = float(np.abs(half).max(initial=0.0))
    spread = float((half / scale).std()) * scale * 2.0 if scale > 0 else 0.0
    return spread if known.size > 1 and math.isfinite(spread) and spread > 0 else 1.0


def _shares(action: AnyArray, count: int) -> tuple[float, ...]:
    """Return how often each action was taken, plus one, so that every share is above 0."""
    taken = np.bincount(action, minlength=count) + 1.0
    return tuple((taken / taken.sum()).tolist())


Mask = npt.NDArray[np.bool_]

MOST_CELLS = 256  # of one group of cuts
MANY_ACTIONS = 64  # from which a group has a quarter of the cells
MOST_PAIRS = 128  # slices of two cuts at a time, in one group
MOST_SUMS = 4096  # slices of two cuts times actions


@dataclass(frozen=True, slots=True)
class SliceCells:
    """The cells of some cuts; cell 0 holds the rows that placed the cuts, on which no bet by them is valid.

    whole: there is a slice with all rows. most: the largest number of slices of two cuts. fine: only quarters are slices.
    """

    cuts: tuple[Cut, ...]
    whole: bool
    most: int = MOST_PAIRS
    fine: bool = False

    @property
    def count(self) -> int:
        """How many cells there are, cell 0 included."""
        return 1 + math.prod(cut.parts for cut in self.cuts)

    def codes(self, rows: Rows, fresh: Mask) -> AnyArray:
        """Return the cell `[n]` of each row."""
        code = np.zeros(fresh.size, dtype=np.int64)
        for cut in self.cuts:
            code = code * cut.parts + cut.part_codes(rows)
        return np.where(fresh, code + 1, 0)

    def slices(self) -> list[tuple[str, Mask]]:
        """Return the slices as words and cells `bool[count]`: each bin and quarter of a cut, bins of two cuts at a time.

        The whole, with all rows, only if this group has it.
        """
        slices: list[tuple[str, Mask]] = [("", np.ones(self.count, dtype=np.bool_))] if self.whole else []
        parts = self._parts()
        bins = [part if cut.quarters is None else part // 2 for cut, part in zip(self.cuts, parts, strict=True)]
        fresh = np.arange(self.count) > 0
        for cut, part, place in zip(self.cuts, parts, bins, strict=True):
            slices += [(label, fresh & (place == number)) for number, label in enumerate(() if self.fine else cut.labels)]
            slices += [(label, fresh & (part == number)) for number, label in enumerate(cut.part_labels)]
        taken = 0
        pairs = [(one, other) for other in range(1, len(self.cuts)) for one in range(other)]  # the first cuts first
        for one, other in pairs:
            taken += self.cuts[one].bins * self.cuts[other].bins
            if taken > self.most:
                break
            for (first, label), (second, more) in product(enumerate(self.cuts[one].labels), enumerate(self.cuts[other].labels)):
                slices.append((f"{label} and {more}", fresh & (bins[one] == first) & (bins[other] == second)))
        return slices

    def _parts(self) -> list[AnyArray]:
        """Return the part `[count]` of each cut that a cell lies in; anything for cell 0."""
        code, step = np.maximum(np.arange(self.count) - 1, 0), self.count - 1
        parts = []
        for cut in self.cuts:
            step //= cut.parts
            parts.append((code // step) % cut.parts)
        return parts


def group_cuts(cuts: tuple[Cut, ...], actions: int = 2) -> tuple[SliceCells, ...]:
    """Return the cuts in groups whose joint cells are not too many; at least one group, the first one with the whole.

    If the quarters of all cuts do not fit into one group, their bins come first, so that most pairs of cuts are in one group.
    """
    most = MOST_CELLS if actions < MANY_ACTIONS else MOST_CELLS // 4
    pairs = min(MOST_PAIRS, MOST_SUMS // actions)
    groups = _fitting(cuts, most)
    if len(groups) < 2:
        return (SliceCells(groups[0] if groups else (), True, pairs),)
    coarse = _fitting(tuple(replace(cut, quarters=None) for cut in cuts), most)
    fine = _fitting(tuple(cut for cut in cuts if cut.quarters is not None), most)
    return (
        *[SliceCells(group, place == 0, pairs) for place, group in enumerate(coarse)],
        *[SliceCells(group, False, 0, True) for group in fine],
    )


def _fitting(cuts: tuple[Cut, ...], most: int) -> list[tuple[Cut, ...]]:
    """Return the cuts in groups with at most `most` joint cells each."""
    groups: list[tuple[Cut, ...]] = []
    for cut in cuts:
        if groups and math.prod(other.parts for other in groups[-1]) * cut.parts <= most:
            groups[-1] = (*groups[-1], cut)
        else:
            groups.append((cut,))
    return groups


def sum_rows(values: Array, codes: AnyArray, count: int) -> Array:
    """Return the sums `[count, A]` of values `[n, A]` over the rows of each code."""
    columns = values.shape[1]
    cells = codes.astype(np.int64)[:, None] * columns + np.arange(columns)
    sums = np.bincount(cells.ravel(), weights=values.ravel(), minlength=count * columns)
    return sums.reshape(count, columns).astype(np.float64, copy=False)


def count_actions(action: AnyArray, codes: AnyArray, actions: int, count: int, weights: Array | None = None) -> Array:
    """Return the sums `[A, count]` of weights (one each if None) over the rows of each action and code."""
    sums = np.bincount(action * np.int64(count) + codes, weights=weights, minlength=actions * count)
    return sums.reshape(actions, count).astype(np.float64)


def own_context_signs(cuts: Cuts, batch: Batch, level: str, rows: AnyArray) -> dict[str, Array]:
    """Return the signs `[p]` of a level's own contexts at some decisions, by words: one for a number, one for each category."""
    context = batch.levels[level].context
    signs: dict[str, Array] = {}
    for cut in cuts.context[level]:
        if cut.variable not in context:
            continue
        codes = cut.codes({cut.variable: context[cut.variable][rows]})
        if cut.values:
            labels = {f"'{cut.name}' ({label})": place for place, label in enumerate(cut.labels)}
        else:
            labels = {f"'{cut.name}'": 1}
        signs |= {label: np.where(codes == place, 1.0, -1.0) for label, place in labels.items()}
    return signs


def sign_at(values: Array, edge: float) -> Array:
    """Return 1 above the edge, -1 at or below it, 0 where the value is not known."""
    return np.where(np.isfinite(values), np.where(values > edge, 1.0, -1.0), 0.0)
