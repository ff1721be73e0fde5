"""Series: what each method makes of an episode, and the pass over the certified units that collects them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from aegis.certificate.comparator import LOGGER, Comparator
from aegis.certificate.measures import Measure
from aegis.certificate.plain import both_sides, legacy_values, plain_gains, plain_values
from aegis.certificate.units import Clusters
from aegis.certificate.view import Models, View
from aegis.comparison.direct import switched
from aegis.comparison.models import Predictions
from aegis.problem import AnyArray, Array, Batch, Policy, Problem, Scope

CELLS = 2**23  # particles x rows x actions held in memory at once
Series = Mapping[str, Callable[[View], Array]]
Peaks = Mapping[str, Callable[[View], float]]


@dataclass(frozen=True, slots=True)
class Units:
    """Series by name, `[K]` or `[K, N]` by unit and particle, and the largest weight of a reward among them, by name."""

    series: Mapping[str, Array]
    peaks: Mapping[str, float]

    @property
    def count(self) -> int:
        """Return the number of units."""
        return len(next(iter(self.series.values())))

    def __getitem__(self, name: str) -> Array:
        return self.series[name]


@dataclass(frozen=True, slots=True)
class Particle:
    """One particle of a policy, as a policy: it acts in every episode."""

    policy: Policy
    index: int

    @property
    def weights(self) -> Array:
        """Return one weight, `[1]`."""
        return np.ones(1)

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        return self.policy.taken(level, batch)[self.index : self.index + 1]

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`."""
        return self.policy.full(level, batch)[self.index : self.index + 1]


def basic_series(scope: Scope, measure: Measure, clip: float) -> dict[str, Callable[[View], Array]]:
    """Return what needs the probability of the action taken only.

    A missing reward counts as what hurts the candidate: the worst in its value, in a gain the worst of both ends. 'lifted
    gain' is one of at least -1 for any comparator. 'compared best' is what the comparator earns, missing rewards
    counted as the best, for gains that are differences of two means.
    """
    return {
        "value": lambda view: plain_values(view, scope, measure),
        "gain": lambda view: paired_gains(view, scope, measure),
        "legacy": lambda view: legacy_values(view, measure),
        "lifted gain": lambda view: lifted_gains(view, scope, measure),
        "compared best": lambda view: compared_best(view, scope, measure),
        "weight": lambda view: view.unit_weights(scope),
        "clipped": lambda view: clipped_values(view, scope, measure, clip),
        "clipped gain": lambda view: clipped_gains(view, scope, measure, clip),
    }


def model_series(
    scope: Scope, measure: Measure, predictions: Predictions, threshold: float
) -> dict[str, Callable[[View], Array]]:
    """Return what needs reward models and the whole distribution of the candidate."""
    return {
        "direct": lambda view: switched(view, scope, measure, predictions, 0.0),
        "robust": lambda view: switched(view, scope, measure, predictions, np.inf),
        "switch": lambda view: switched(view, scope, measure, predictions, threshold),
    }


def paired_gains(view: View, scope: Scope, measure: Measure) -> Array:
    """Return paired gains `[E]`; both sides where the log may not reach all that the incumbent does, where it earns 1."""
    return both_sides(view, scope, measure) - 1.0 if _unreached(view, scope) else plain_gains(view, scope, measure)


def _unreached(view: View, scope: Scope) -> bool:
    """Say whether an incumbent may act where the log never does: no largest ratio of the two is known."""
    return view.comparator.stated(scope) and view.comparator.ratio(scope) is None


def lifted_gains(view: View, scope: Scope, measure: Measure) -> Array:
    """Return gains `[E]` of at least -1: over the logger the paired ones, over an incumbent both sides."""
    if view.against(view.compared(scope)[1]) is None:
        return plain_gains(view, scope, measure)
    return both_sides(view, scope, measure) - 1.0


def compared_best(view: View, scope: Scope, measure: Measure) -> Array:
    """Return what the comparator earns `[E]`, missing rewards counted as the best: `u r` of an incumbent.

    Where it may act and the log never does, `1 - u (1 - r)`: it earns the most there.
    """
    found = view.against(scope)
    if found is None:
        return view.series(("legacy best", measure), lambda: view.observed(measure).high, view.level)
    level, apart = found.carrier(scope), _unreached(view, scope)

    def nodes() -> Array:
        u, reward = found.carrier_weights(scope), found.below(measure, level).high
        return 1.0 - u * (1.0 - reward) if apart else u * reward

    return found.series(("best", scope, measure), nodes, level)


def clipped_values(view: View, scope: Scope, measure: Measure, clip: float) -> Array:
    """Return the nested mean `[E]` of `min(w, clip) r`; a missing reward counts as 0."""
    level = view.carrier(scope)
    return view.series(
        ("clipped", clip, scope, measure),
        lambda: np.minimum(view.carrier_weights(scope), clip) * view.below(measure, level).low,
        level,
    )


def clipped_gains(view: View, scope: Scope, measure: Measure, clip: float) -> Array:
    """Return the nested mean `[E]` of `(min(w, clip) - u) r`; a missing reward counts as what hurts.

    Where the incumbent may act and the log never does, both sides: `min(w, clip) r + u (1 - r) - 1`.
    """
    level, found, apart = view.carrier(scope), view.against(scope), _unreached(view, scope)

    def nodes() -> Array:
        own = np.ones(1) if found is None else found.carrier_weights(scope)
        surplus = np.minimum(view.carrier_weights(scope), clip) - own
        gain = surplus * view.below(measure, level).worst(surplus)
        return gain + own - 1.0 if apart else gain

    return view.series(("clipped gain", clip, scope, measure), nodes, level)


def particle_series(scope: Scope, measure: Measure) -> dict[str, Callable[[View], Array]]:
    """Return value and gain of each particle of the candidate on its own, `[E, N]`."""
    return {
        "particles": lambda view: np.column_stack([plain_values(one, scope, measure) for one in _one_by_one(view)]),
        "particle gains": lambda view: np.column_stack([lifted_gains(one, scope, measure) for one in _one_by_one(view)]),
    }


def largest_weight(view: View, scope: Scope) -> float:
    """Return the largest weight of a reward, of the mixture and of every particle on its own."""
    views = [view] if view.weights.size == 1 else [view, *_one_by_one(view)]
    return max(float(one.carrier_weights(scope).max(initial=0.0)) for one in views)


def _one_by_one(view: View) -> Iterator[View]:
    for index in range(view.weights.size):
        yield View(view.problem, view.batch, Particle(view, index), view.models, view.comparator)


def gather(problem: Problem, views: Iterable[View], series: Series, peaks: Peaks) -> Units:
    """Return the series of all units: episodes in the order they come, or clusters put together."""
    parts: dict[str, list[Array]] = {name: [] for name in series}
    by_particle: set[str] = set()  # series that come by particle
    highest = dict.fromkeys(peaks, 0.0)
    clusters: list[AnyArray] = []
    for view in views:
        for name, compute in series.items():
            found = compute(view)
            by_particle |= {name} if found.ndim == 2 else set()
            parts[name].append(found[:, None] if found.ndim == 1 else found)
        for name, peak in peaks.items():
            highest[name] = max(highest[name], peak(view))
        if view.batch.cluster is not None:
            clusters.append(view.batch.cluster)
    whole = {name: np.concatenate(found) if found else np.zeros((0, 1)) for name, found in parts.items()}
    if problem.cluster is not None and clusters:
        ids = np.concatenate(clusters)
        whole = {name: _by_cluster(problem, problem.cluster_name, ids, found) for name, found in whole.items()}
    return Units({name: found if name in by_particle else found[:, 0] for name, found in whole.items()}, highest)


def views_of(
    problem: Problem, policy: Policy, models: Models, batches: Iterable[Batch], comparator: Comparator = LOGGER
) -> Iterator[View]:
    """Yield views of batches, in pieces whose full distributions fit into memory."""
    widest = max(level.actions.count for level in problem.levels) * policy.weights.size
    for batch in batches:
        rows = max(len(table) for table in batch.levels.values())
        pieces = min(max(1, -(-rows * widest // CELLS)), len(batch))
        for part in _parts(batch, pieces):
            yield View(problem, part, policy, models, comparator)


def _parts(batch: Batch, pieces: int) -> Sequence[Batch]:
    if pieces <= 1:
        return [batch]
    return [batch.take_episodes(part) for part in np.array_split(np.arange(len(batch)), pieces)]


def _by_cluster(problem: Problem, column: str, ids: AnyArray, values: Array) -> Array:
    clusters = Clusters(np.zeros(values.shape[1]), problem.cluster_most, column)
    clusters.add(ids, values)
    return clusters.units()
