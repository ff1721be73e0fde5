"""The numbers of each method for every unit, from one pass over the log that splits it as `certify` does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aegis.certificate import (
    Candidate,
    DataDigest,
    EarliestUnits,
    UnitSplit,
    add_placing_split,
    first_open_unit,
    gap_columns,
    learned_splits,
    placing_in_time,
    prior_units,
    read_head,
)
from aegis.comparison.comparison import ComparisonSettings
from aegis.comparison.direct_method import ActionPredictions, switch_values
from aegis.errors import RefusedError, SettingError
from aegis.logs import Source, Split
from aegis.ope import (
    CandidateView,
    ClusterUnits,
    Comparator,
    Measure,
    ParticlePolicy,
    both_sides,
    legacy_values,
    plain_gains,
    plain_values,
)
from aegis.problem import AnyArray, Array, Batch, Problem, Scope


@dataclass(frozen=True, slots=True)
class CertifiedLog:
    """A log whose sides are known. prior: some units that no bound speaks of; sample: a few episodes, to ask policies."""

    source: Source
    columns: tuple[str, ...]
    sides: UnitSplit
    prior: Batch | None
    sample: Batch

    @classmethod
    def of(cls, source: Source, candidates: Sequence[Candidate], fresh: bool, moving: int | None = None) -> CertifiedLog:
        """Return the log with the sides that the candidates leave; reads the head of the log.

        moving: how many units the log has, if its propensities move or follow rewards: the earliest ones then place bets.
        """
        if any(candidate.frozen is not None for candidate in candidates):
            raise SettingError("the tests of a challenge were fixed when it was frozen: certify it, there is nothing to compare")
        columns = (*dict.fromkeys(column for candidate in candidates for column in candidate.columns), *gap_columns(source))
        splits: tuple[Split | EarliestUnits, ...] = learned_splits(source, candidates, fresh, DataDigest.of(source))
        if not splits and moving is not None:
            splits = (placing_in_time(source, moving),)
        sides = UnitSplit(splits, first_open_unit(source))
        head, rest, whole = read_head(source.batches(columns))
        close = getattr(rest, "close", None)
        if close is not None:
            close()
        if not head:
            raise RefusedError("the log has no episodes: there is nothing to compare on")
        sides = add_placing_split(sides, head, whole)
        sample = head[0].take_episodes(np.arange(min(2, len(head[0]))))
        problem = source.problem
        return cls(source=source, columns=columns, sides=sides, prior=prior_units(problem, sides, head), sample=sample)

    @classmethod
    def of_split(cls, source: Source, split: Split) -> CertifiedLog:
        """Return the log with the sides of a split, for bounds that no candidate brings a side for."""
        first = next(source.batches())
        sides = UnitSplit((source.with_cut(split),), first_open_unit(source))
        sample = first.take_episodes(np.arange(min(2, len(first))))
        return cls(source=source, columns=gap_columns(source), sides=sides, prior=None, sample=sample)

    @property
    def problem(self) -> Problem:
        """Return the problem."""
        return self.source.problem

    @property
    def split(self) -> Split | EarliestUnits:
        """Return the split whose prior side may be learned from."""
        return next(split for split in self.sides.splits if isinstance(split, Split | EarliestUnits))

    def batches(self) -> Iterator[Batch]:
        """Yield the certified episodes, in the order of the log."""
        for batch in self.source.batches(self.columns):
            certified = self.sides.certified(self.problem, batch)
            if certified.all():
                yield batch
            elif certified.any():
                yield batch.take_episodes(certified)


@dataclass(frozen=True, slots=True)
class ComparedCandidate:
    """A candidate at a scope, the log it is compared on, and how.

    moving: how many units the log has if its propensities move, else None. fresh: as in `certify`.
    """

    candidate: Candidate
    scope: Scope
    log: CertifiedLog
    measure: Measure
    comparator: Comparator
    settings: ComparisonSettings
    fresh: bool
    moving: int | None

    @property
    def problem(self) -> Problem:
        """Return the problem."""
        return self.log.problem


SeriesFunctions = Mapping[str, Callable[[CandidateView], Array]]

PeakFunctions = Mapping[str, Callable[[CandidateView], float]]


@dataclass(frozen=True, slots=True)
class UnitSeries:
    """Series by name, `[K]` or `[K, N]` by unit and particle, and the largest weight of a reward among them, by name."""

    series: Mapping[str, Array]
    peaks: Mapping[str, float]

    @property
    def count(self) -> int:
        """Return the number of units."""
        return len(next(iter(self.series.values())))

    def __getitem__(self, name: str) -> Array:
        return self.series[name]


def basic_series(scope: Scope, measure: Measure, clip: float) -> dict[str, Callable[[CandidateView], Array]]:
    """Return what needs the probability of the action taken only.

    A missing reward counts as what hurts the candidate: the worst in its value, in a gain the worst of both ends. 'lifted
    gain' is one of at least -1 for any comparator. 'compared best' is what the comparator earns, missing rewards
    counted as the best, for gains that are differences of two means.
    """
    return {
        "value": lambda view: plain_values(view, scope, measure),
        "gain": lambda view: paired_gains(view, scope, measure),
        "legacy": lambda view: legacy_values(view, measure),
        "lifted gain": lambda view: lifted_episode_gains(view, scope, measure),
        "compared best": lambda view: best_comparator_values(view, scope, measure),
        "weight": lambda view: view.unit_weights(scope),
        "clipped": lambda view: clipped_values(view, scope, measure, clip),
        "clipped gain": lambda view: clipped_gains(view, scope, measure, clip),
    }


def model_series(
    scope: Scope, measure: Measure, predictions: ActionPredictions, threshold: float
) -> dict[str, Callable[[CandidateView], Array]]:
    """Return what needs reward models and the whole distribution of the candidate."""
    return {
        "direct": lambda view: switch_values(view, scope, measure, predictions, 0.0),
        "robust": lambda view: switch_values(view, scope, measure, predictions, np.inf),
        "switch": lambda view: switch_values(view, scope, measure, predictions, threshold),
    }


def paired_gains(view: CandidateView, scope: Scope, measure: Measure) -> Array:
    """Return paired gains `[E]`; both sides where the log may not reach all that the incumbent does, where it earns 1."""
    return both_sides(view, scope, measure) - 1.0 if _unreached(view, scope) else plain_gains(view, scope, measure)


def _unreached(view: CandidateView, scope: Scope) -> bool:
    """Say whether an incumbent may act where the log never does: no largest ratio of the two is known."""
    return view.comparator.stated(scope) and view.comparator.ratio(scope) is None


def lifted_episode_gains(view: CandidateView, scope: Scope, measure: Measure) -> Array:
    """Return gains `[E]` of at least -1: over the logger the paired ones, over an incumbent both sides."""
    if view.against(view.compared(scope)[1]) is None:
        return plain_gains(view, scope, measure)
    return both_sides(view, scope, measure) - 1.0


def best_comparator_values(view: CandidateView, scope: Scope, measure: Measure) -> Array:
    """Return what the comparator earns `[E]`, missing rewards counted as the best: `u r` of an incumbent.

    Where it may act and the log never does, `1 - u (1 - r)`: it earns the most there.
    """
    incumbent = view.against(scope)
    if incumbent is None:
        return view.series(("legacy best", measure), lambda: view.observed(measure).high, view.level)
    level, apart = incumbent.carrier(scope), _unreached(view, scope)

    def nodes() -> Array:
        u, reward = incumbent.carrier_weights(scope), incumbent.below(measure, level).high
        return 1.0 - u * (1.0 - reward) if apart else u * reward

    return incumbent.series(("best", scope, measure), nodes, level)


def clipped_values(view: CandidateView, scope: Scope, measure: Measure, clip: float) -> Array:
    """Return the nested mean `[E]` of `min(w, clip) r`; a missing reward counts as 0."""
    level = view.carrier(scope)
    return view.series(
        ("clipped", clip, scope, measure),
        lambda: np.minimum(view.carrier_weights(scope), clip) * view.below(measure, level).low,
        level,
    )


def clipped_gains(view: CandidateView, scope: Scope, measure: Measure, clip: float) -> Array:
    """Return the nested mean `[E]` of `(min(w, clip) - u) r`; a missing reward counts as what hurts.

    Where the incumbent may act and the log never does, both sides: `min(w, clip) r + u (1 - r) - 1`.
    """
    level, incumbent, apart = view.carrier(scope), view.against(scope), _unreached(view, scope)

    def nodes() -> Array:
        own = np.ones(1) if incumbent is None else incumbent.carrier_weights(scope)
        surplus = np.minimum(view.carrier_weights(scope), clip) - own
        gain = surplus * view.below(measure, level).worst(surplus)
        return gain + own - 1.0 if apart else gain

    return view.series(("clipped gain", clip, scope, measure), nodes, level)


def particle_series(scope: Scope, measure: Measure) -> dict[str, Callable[[CandidateView], Array]]:
    """Return value and gain of each particle of the candidate on its own, `[E, N]`."""
    return {
        "particles": lambda view: np.column_stack([plain_values(one, scope, measure) for one in _particle_views(view)]),
        "particle gains": lambda view: np.column_stack(
            [lifted_episode_gains(one, scope, measure) for one in _particle_views(view)]
        ),
    }


def largest_weight(view: CandidateView, scope: Scope) -> float:
    """Return the largest weight of a reward, of the mixture and of every particle on its own."""
    views = [view] if view.weights.size == 1 else [view, *_particle_views(view)]
    return max(float(one.carrier_weights(scope).max(initial=0.0)) for one in views)


def _particle_views(view: CandidateView) -> Iterator[CandidateView]:
    for index in range(view.weights.size):
        yield CandidateView(view.problem, view.batch, ParticlePolicy(view, index), view.models, view.comparator)


def gather_series(problem: Problem, views: Iterable[CandidateView], series: SeriesFunctions, peaks: PeakFunctions) -> UnitSeries:
    """Return the series of all units: episodes in the order they come, or clusters put together."""
    parts: dict[str, list[Array]] = {name: [] for name in series}
    highest = dict.fromkeys(peaks, 0.0)
    clusters: list[AnyArray] = []
    for view in views:
        for name, compute in series.items():
            parts[name].append(compute(view))
        for name, peak in peaks.items():
            highest[name] = max(highest[name], peak(view))
        if view.batch.cluster is not None:
            clusters.append(view.batch.cluster)
    whole = {name: np.concatenate(values) if values else np.zeros(0) for name, values in parts.items()}
    if problem.cluster is not None and clusters:
        ids = np.concatenate(clusters)
        whole = {name: _by_cluster(problem, ids, values) for name, values in whole.items()}
    return UnitSeries(whole, highest)


def _by_cluster(problem: Problem, ids: AnyArray, values: Array) -> Array:
    columns = values[:, None] if values.ndim == 1 else values
    clusters = ClusterUnits(np.zeros(columns.shape[1]), problem.cluster_most, problem.cluster_name)
    clusters.add(ids, columns)
    return clusters.units().reshape(-1, *values.shape[1:])
