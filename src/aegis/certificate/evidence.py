"""Evidence for the claims: grids and models placed on prior units, sketches of the certified ones, and the bound on the way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from aegis.certificate.candidate import Candidate
from aegis.certificate.claims import Claim, EvidencePart
from aegis.evidence import (
    Blend,
    Grid,
    Sketch,
    Tally,
    factor_centre,
    gain_bets,
    place_gain_grid,
    value_bets,
    value_centre,
    value_grid,
)
from aegis.ope import (
    CandidateView,
    ClusterUnits,
    Measure,
    RewardModels,
    constant_prediction,
    fit_reward_models,
    observe,
    with_measure_as_reward,
)
from aegis.policies import path_full
from aegis.problem import AnyArray, Array, Batch, Problem, RewardModel, Scope, exact_sum

PLACING_WIDTH = 1.3  # residuals of a model on units it has seen are too small
STATION_STEP = 1.3  # stations of the path grow by this factor
FIRST_STATION = 10
MOMENT_BITS = 40  # of the sums behind estimates


def place_grid(part: EvidencePart, claim: Claim, prior: CandidateView | None, units: int) -> Grid:
    """Return the grid of a part, placed on prior units; units: about how many will be certified."""
    if part.kind == "gain":
        bets = gain_bets(part.largest)
        factors = np.zeros((0, bets.size)) if prior is None else part.compute(prior, bets, PLACING_WIDTH)
        return place_gain_grid(part.largest, factors, max(claim.margin, -part.largest * (1 - 1e-9)))
    if prior is None or not len(prior.batch):
        return value_grid(0)
    if part.kind == "value":
        return value_grid(factor_centre(part.compute(prior, value_bets(), PLACING_WIDTH), max(units, 1), claim.delta))
    return value_grid(value_centre(part.compute(prior, np.zeros(0), 1.0), max(units, 1), claim.delta))


@dataclass(slots=True)
class PartEvidence:
    """The evidence of one part so far.

    tally: of values, which takes a moment per unit; the sums follow when they are needed. Factors differ from bet to bet: None,
    and their logarithms are added as they come.
    """

    grid: Grid
    tally: Tally | None
    sums: Sketch = field(init=False)

    def __post_init__(self) -> None:
        self.sums = Sketch.empty(self.grid)

    @property
    def count(self) -> int:
        """Return the number of units."""
        return self.sums.count if self.tally is None else self.tally.count

    def add(self, units: Array) -> None:
        """Add units, `[k]` values or `[k, J]` factors."""
        if self.tally is None:
            self.sums = self.sums.add_factors(units)
        else:
            self.tally.add(units)

    def merge(self, other: PartEvidence) -> None:
        """Add the units of another of the same part; exact, in any order."""
        if self.tally is None or other.tally is None:
            self.sums = self.sums.merge(other.sums)
        else:
            self.tally = self.tally.merge(other.tally)

    def sketch(self) -> Sketch:
        """Return the sketch of the units so far."""
        return self.sums if self.tally is None else self.tally.sketch(self.grid)


@dataclass(slots=True)
class ClaimEvidence:
    """The evidence for one claim so far: one sketch per part, and, of gains, the sketches at a few stations on the way.

    recorded: there are stations; those of a later piece of a log would only be thrown away.
    """

    claim: Claim
    grids: tuple[Grid, ...]
    clusters: tuple[ClusterUnits, ...] = ()
    running: list[PartEvidence] = field(init=False)
    stations: list[tuple[Sketch, ...]] = field(default_factory=list)
    recorded: bool = True

    def __post_init__(self) -> None:
        self.running = [
            PartEvidence(grid, Tally() if part.kind == "values" else None)
            for part, grid in zip(self.claim.parts, self.grids, strict=True)
        ]

    @property
    def sketches(self) -> tuple[Sketch, ...]:
        """Return the sketch of each part as it is now."""
        return tuple(item.sketch() for item in self.running)

    @classmethod
    def start(cls, claim: Claim, grids: tuple[Grid, ...], problem: Problem) -> ClaimEvidence:
        """Return no evidence yet."""
        both = zip(claim.parts, grids, strict=True)
        bases = [np.full(1 if part.kind == "values" else grid.bets.size, part.base) for part, grid in both]
        clusters = [ClusterUnits.start(problem, base) for base in bases]
        return cls(claim, grids, tuple(item for item in clusters if item is not None))

    def compute(self, view: CandidateView) -> list[Array]:
        """Return what each part makes of the episodes of a view: `[E]` or `[E, J]`."""
        return [part.compute(view, grid.bets, 1.0) for part, grid in zip(self.claim.parts, self.grids, strict=True)]

    def add(self, units: list[Array], cluster: AnyArray | None, members: AnyArray | None = None) -> None:
        """Add episodes, all of them certified ones, as `compute` gave them; members: those that count, all if None."""
        if members is not None:
            units = [values[members] for values in units]
        if not self.clusters:
            self._add_units(units)
        elif cluster is not None:
            for clusters, values in zip(self.clusters, units, strict=True):
                shaped = values[:, None] if values.ndim == 1 else values  # also where no episode of a batch counts
                clusters.add(cluster if members is None else cluster[members], shaped)

    def add_worst(self, count: int) -> None:
        """Add units that count at their worst."""
        both = zip(self.claim.parts, self.grids, strict=True)
        self._add_units([np.repeat(part.worst(grid.bets), count, axis=0) for part, grid in both])

    def merge(self, other: ClaimEvidence) -> None:
        """Add the evidence for the same claim of units that come later, before either is closed.

        Where the number of units passes a station on the way, the path is recorded after them all; the path of the first units
        is kept as it is.
        """
        before = self.running[0].count if self.running else 0
        for clusters, more in zip(self.clusters, other.clusters, strict=True):
            clusters.merge(more)
        for item, further in zip(self.running, other.running, strict=True):
            item.merge(further)
        if not before and not self.clusters:
            self.stations = [*self.stations, *other.stations]
        elif self._followed and not self.clusters and self.running and self.running[0].count >= next_station(before):
            self.stations.append(self.sketches)

    @property
    def _followed(self) -> bool:
        """Say whether the path of the bound is recorded."""
        return self.recorded and self.claim.what == "gain" and self.claim.group is None

    def close(self) -> None:
        """Turn clusters, which are whole only now, into units."""
        if self.clusters:
            shaped = [clusters.units() for clusters in self.clusters]
            parts = self.claim.parts
            self._add_units([units[:, 0] if part.kind == "values" else units for part, units in zip(parts, shaped, strict=True)])

    @property
    def blend(self) -> Blend | None:
        """Return the evidence of all parts together; None if there is nothing to test."""
        return self._blend(self.sketches)

    def path(self) -> list[Blend]:
        """Return the evidence at the stations."""
        return [blend for station in self.stations if (blend := self._blend(station)) is not None]

    def _blend(self, sketches: tuple[Sketch, ...]) -> Blend | None:
        return None if not sketches else Blend(sketches, tuple(part.offset for part in self.claim.parts))

    def _add_units(self, units: list[Array]) -> None:
        if not units:
            return
        start, total = 0, len(units[0])
        while start < total:
            before = self.running[0].count
            station = next_station(before)
            stop = min(total, start + station - before) if self._followed else total
            for item, values in zip(self.running, units, strict=True):
                item.add(values[start:stop])
            if self._followed and self.running[0].count == station:
                self.stations.append(self.sketches)
            start = stop


def next_station(count: int) -> int:
    """Return the first number of units above `count` at which the path is recorded: 10, 13, 17, 22, ..."""
    step = 0 if count < FIRST_STATION else math.floor(math.log((count + 0.5) / FIRST_STATION) / math.log(STATION_STEP))
    while True:
        station = round(FIRST_STATION * STATION_STEP**step)
        if station > count:
            return station
        step += 1


@dataclass(slots=True)
class UnitMoments:
    """Sums over units of several series, for estimates with their standard errors; these are not certificates.

    Sums are whole numbers, in units of 2^-BITS, so that they do not depend on the order of the units; None once they are lost
    to a value that is not finite.
    """

    names: tuple[str, ...]
    clusters: ClusterUnits | None
    count: int = 0
    sums: list[int | None] = field(init=False)  # of each series, and then of the square of each

    def __post_init__(self) -> None:
        self.sums = [0] * (2 * len(self.names))

    def add(self, episodes: Array, cluster: AnyArray | None, members: AnyArray | None = None) -> None:
        """Add episodes `[E, series]`; members: those that count, all if None."""
        if members is not None:
            episodes, cluster = episodes[members], None if cluster is None else cluster[members]
        if self.clusters is None:
            self._sum(episodes)
        elif cluster is not None:
            self.clusters.add(cluster, episodes)

    def close(self) -> None:
        """Turn clusters into units."""
        if self.clusters is not None:
            self._sum(self.clusters.units())

    def merge(self, other: UnitMoments) -> None:
        """Add the units of another of the same series, before either is closed."""
        self._add_sums(other.count, other.sums)
        if self.clusters is not None and other.clusters is not None:
            self.clusters.merge(other.clusters)

    def mean(self, name: str) -> float:
        """Return the mean of a series; nan without units."""
        total = self.sums[self.names.index(name)]
        return math.nan if total is None or not self.count else float(Fraction(total, self.count << MOMENT_BITS))

    def error(self, name: str) -> float:
        """Return the standard error of the mean; nan with fewer than two units."""
        place = self.names.index(name)
        total, square = self.sums[place], self.sums[place + len(self.names)]
        if self.count < 2 or total is None or square is None:
            return math.nan
        variance = (Fraction(square, 1 << MOMENT_BITS) - Fraction(total, 1 << MOMENT_BITS) ** 2 / self.count) / (self.count - 1)
        return math.sqrt(max(float(variance / self.count), 0.0))

    def _sum(self, units: Array) -> None:
        series = [*units.T, *(units * units).T]
        self._add_sums(len(units), [exact_sum(values, MOMENT_BITS) for values in series])

    def _add_sums(self, count: int, sums: Sequence[int | None]) -> None:
        self.count += count
        both = zip(self.sums, sums, strict=True)
        self.sums = [None if total is None or more is None else total + more for total, more in both]


def fit_models(problem: Problem, candidate: Candidate, claims: Sequence[Claim], prior: Batch | None) -> RewardModels:
    """Return the predictions for the claims of one candidate; what cannot be fitted is predicted by a constant.

    A prediction can be as wrong as it likes: the certificate stays valid, it only takes longer.
    """
    models = RewardModels()
    needed = [claim for claim in claims if any(part.modelled for part in claim.parts)]
    for measure in dict.fromkeys(claim.measure for claim in needed):
        if prior is not None:
            observe(measure, prior)  # refuses what lies outside the range before a model meets it
        models.guess[measure.column] = constant_prediction(measure, prior)
        if candidate.rewards is not None and not measure.guard:
            models.rewards[measure.column] = candidate.rewards
        elif prior is not None:
            fitted = fit_reward_models(problem, with_measure_as_reward(prior, measure))
            if fitted is not None:
                models.rewards[measure.column] = fitted
    if prior is not None:
        for claim in needed:
            if len(claim.scope) == 2 and claim.what != "value":
                below = _fit_below(problem, candidate, claim.measure, claim.scope, models, prior)
                if below is not None:
                    models.below[claim.measure.column, claim.scope] = below
    return models


def _fit_below(
    problem: Problem, candidate: Candidate, measure: Measure, scope: Scope, models: RewardModels, prior: Batch
) -> RewardModel | None:
    """Return a model of the scaled mean reward below outer actions with the candidate acting at the inner level of a scope.

    The inner predictions, averaged over the candidate's inner choice, are regressed on what is known at the outer level.
    """
    outer, inner = (name for name in prior.levels if name in scope)
    view = CandidateView(problem, prior, candidate.policy, models)
    expected = (path_full(view, inner, prior, scope) * view.predicted(measure, inner)).sum(axis=1)
    rows = prior.ancestors(problem.innermost.name)[inner]
    pretend: Array = expected[rows]
    return fit_reward_models(problem, replace(prior, reward=pretend, observed=None), (outer,))
