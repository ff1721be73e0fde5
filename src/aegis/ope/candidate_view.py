"""A batch seen through a candidate: every probability and prediction is computed once, however many claims need it.

`with_least_weights` gives the same view with the smallest weights that a declared error of the propensities allows: nu was
logged and nu' is true, `nu / Gamma <= nu' <= min(1, Gamma nu)` at the levels concerned (theory section 7). With
`w = product of pi / min(1, Gamma nu)`, which is at most the true weight, the nested mean of (w - 1) r has a mean of at most
the true gain and is at least -1, like any plain gain. It needs only the propensities of the actions taken, and holds unit by
unit: it does not matter on which data the propensities were fitted.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.errors import SettingError
from aegis.ope.comparator import LOGGER_COMPARATOR, Comparator
from aegis.ope.measure import Measure, Observed, RewardModels, observe, round_predictions
from aegis.ope.weights import broadcast_down, last_in_scope, reward_level, reward_rows, reward_weights, scope_path_weights
from aegis.policies import path_full, path_taken, without_atoms
from aegis.problem import Array, Batch, Policy, Problem, Scope, SiblingGroups

MOST_CELLS = 2**23  # particles x rows x actions held in memory at once


@dataclass(slots=True)
class CandidateView:
    """Whole episodes, a candidate and models. It is itself a policy on its batch: the candidate, remembered.

    Candidate and models see what is known when a decision is taken (`Batch.before`). The outcome is hidden from them.
    """

    problem: Problem
    batch: Batch
    policy: Policy
    models: RewardModels
    comparator: Comparator = LOGGER_COMPARATOR
    _taken: dict[str, Array] = field(default_factory=dict)
    _full: dict[str, Array] = field(default_factory=dict)
    _weights: dict[Scope, Array] = field(default_factory=dict)
    _observed: dict[str, Observed] = field(default_factory=dict)
    _predicted: dict[tuple[str, str], Array] = field(default_factory=dict)
    _siblings: dict[str, SiblingGroups] = field(default_factory=dict)
    _series: dict[Hashable, Array] = field(default_factory=dict)
    _below: dict[tuple[str, str | None], Observed] = field(default_factory=dict)
    _doubted: dict[Hashable, CandidateView] = field(default_factory=dict)
    _known: dict[tuple[str, bool], Batch] = field(default_factory=dict)
    _against: dict[str, CandidateView] = field(default_factory=dict)

    @property
    def weights(self) -> Array:
        """Return the particle weights `[S]`."""
        return self.policy.weights

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`, from the full distribution if that has been asked for."""
        if level not in self._taken:
            full = self._full.get(level)
            if full is None or self.problem.level(level).actions.continuous:
                self._taken[level] = without_atoms(
                    self.problem.level(level), batch.levels[level], self.policy.taken(level, self._before(level, True))
                )
            else:
                action = batch.levels[level].action[None, :, None].astype(np.int64)
                self._taken[level] = np.take_along_axis(full, action, axis=2)[:, :, 0]
        return self._taken[level]

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`."""
        if level not in self._full:
            self._full[level] = self.policy.full(level, self._before(level, False))
        return self._full[level]

    def _before(self, level: str, taken: bool) -> Batch:
        """Return what is known when the decisions of a level are taken; `taken`: and which actions they were."""
        if (level, taken) not in self._known:
            self._known[level, taken] = self.batch.before(level, taken)
        return self._known[level, taken]

    def against(self, scope: Scope) -> CandidateView | None:
        """Return the same episodes seen through the incumbent, mu; None where the comparator of a scope is the logger.

        Raises RefusedError, naming the row, where the logged actions cannot have the logged probabilities under the incumbent.
        """
        if self.comparator.policy is None or not self.comparator.stated(scope):
            return None
        if "incumbent" not in self._against:
            self._against["incumbent"] = self._through(self.comparator.policy)
        incumbent = self._against["incumbent"]
        for level in self.comparator.levels & scope:
            if level not in incumbent._taken:
                known = self.batch.levels[level].mu_full is not None
                full = path_full(incumbent, level, incumbent.batch) if known else None
                self.comparator.check(level, self.batch, path_taken(incumbent, level, incumbent.batch), full)
        return incumbent

    def over_log(self) -> CandidateView:
        """Return the same candidate on the same episodes with the logger as its comparator."""
        if self.comparator.policy is None:
            return self
        if "log" not in self._against:
            self._against["log"] = replace(self, comparator=LOGGER_COMPARATOR, _series={}, _doubted={}, _against={})
        return self._against["log"]

    def compared(self, scope: Scope) -> tuple[CandidateView, Scope]:
        """Return what is deployed and the levels whose ratios count: levels outside the scope join if they are corrected."""
        wide = self.comparator.compared(scope)
        if wide == scope or self.comparator.policy is None:
            return self, scope
        key = "+".join(sorted(scope))
        if key not in self._against:
            self._against[key] = self._through(_InsertedCandidate(self, scope, self.comparator.policy))
        return self._against[key], wide

    def _through(self, policy: Policy) -> CandidateView:
        """Return the same episodes seen through another policy; rewards, predictions and siblings are shared."""
        return replace(self, policy=policy, _taken={}, _full={}, _weights={}, _series={}, _doubted={}, _against={})

    def comparing(self, level: str) -> Array:
        """Return mu `[n, A]`, the comparator's whole distribution at a level."""
        incumbent = self.against(Scope(level))
        return self.logging(level) if incumbent is None else path_full(incumbent, level, incumbent.batch)

    def logging(self, level: str) -> Array:
        """Return nu `[n, A]`, the whole logging distribution of a level; SettingError if the log does not have it."""
        nu = self.batch.levels[level].mu_full
        if nu is None:
            raise SettingError(f"level '{level}': the log holds the probability of the action taken only")
        return nu

    @property
    def level(self) -> str | None:
        """Return the level whose decisions carry the reward; None if the episode does."""
        return reward_level(self.problem)

    def carrier(self, scope: Scope) -> str | None:
        """Return the level of the nodes that have weights of their own; None stands for the episodes.

        The weight of a reward is that of its last in-scope decision where nothing carries over and every row has a reward;
        otherwise every node that carries a reward has its own.
        """
        if self.problem.carry_over == "none" and self.level == self.problem.innermost.name:
            return last_in_scope(self.batch, scope)
        return self.level

    def carrier_weights(self, scope: Scope) -> Array:
        """Return the weight `[n]` of every node of the carrier of a scope."""
        if scope not in self._weights:
            level = self.carrier(scope)
            if level == self.level:
                self._weights[scope] = reward_weights(self.problem, self, self.batch, scope, level)
            else:
                self._weights[scope] = scope_path_weights(self, self.batch, scope)
        return self._weights[scope]

    def node_weights(self, scope: Scope) -> Array:
        """Return the weight `[m]` of every node that carries a reward."""
        weights, start, stop = self.carrier_weights(scope), self.carrier(scope), self.level
        return weights if start is None or stop is None else broadcast_down(self.batch, weights, start, stop)

    def unit_weights(self, scope: Scope) -> Array:
        """Return the nested mean `[E]` of the weights of each episode."""
        return self.series(("weights", scope), lambda: self.carrier_weights(scope), self.carrier(scope))

    def series(self, name: Hashable, nodes: Callable[[], Array], level: str | None) -> Array:
        """Return the nested mean `[E]` of what `nodes` gives `[n]` at the nodes of a level; computed once per name."""
        if name not in self._series:
            self._series[name] = self._means(nodes(), level, None)
        return self._series[name]

    def below(self, measure: Measure, level: str | None) -> Observed:
        """Return the nested mean of the measure below each node of a level at or above the rewards; computed once."""
        key = (measure.column, level)
        if key not in self._below:
            values = self.observed(measure)
            self._below[key] = values if level == self.level else self.raised(values, self.level, level)
        return self._below[key]

    def observed(self, measure: Measure) -> Observed:
        """Return the measure at the nodes that carry a reward, `[m]`; a guard, which every row has, as its mean below them."""
        if measure.column not in self._observed:
            rows = reward_rows(self.problem, self.batch, self.level)
            if measure.guard and rows is not None:
                values = self.raised(observe(measure, self.batch), self.problem.innermost.name, self.level)
            else:
                values = observe(measure, self.batch, rows)
            self._observed[measure.column] = values
        return self._observed[measure.column]

    def subtree(self, measure: Measure, level: str) -> Observed:
        """Return the nested mean of the measure below each decision of `level`, with its worst and best cases, `[n]`."""
        return self.raised(self.observed(measure), self.level or next(iter(self.batch.levels)), level)

    def raised(self, values: Observed, start: str | None, stop: str | None) -> Observed:
        """Return nested means of a measure at the decisions of `start` for those of `stop`, or for episodes if it is None."""
        low = self._means(values.low, start, stop)
        return Observed(low, low if values.high is values.low else self._means(values.high, start, stop))

    def _means(self, values: Array, start: str | None, stop: str | None) -> Array:
        """Return nested means of values at the decisions of `start` for those of `stop`; None stands for the episodes."""
        names = list(self.batch.levels)
        first = -1 if start is None else names.index(start)
        for position in range(first, -1 if stop is None else names.index(stop), -1):
            name = names[position]
            if name not in self._siblings:
                size = len(self.batch) if position == 0 else len(self.batch.levels[names[position - 1]])
                self._siblings[name] = SiblingGroups.of(self.batch.levels[name].parent, size)
            values = self._siblings[name].means(values)
        return values

    def predicted(self, measure: Measure, level: str) -> Array:
        """Return r^ `[n, A]`: the scaled prediction of the mean below each action of `level`, in [0, 1]."""
        key = (measure.column, level)
        if key not in self._predicted:
            model = self.models.rewards.get(measure.column)
            if model is None:
                shape = (len(self.batch.levels[level]), self.problem.level(level).actions.count)
                self._predicted[key] = np.full(shape, self.models.guess.get(measure.column, 0.5))
            else:
                self._predicted[key] = round_predictions(measure.scaled(model.predict(level, self._before(level, False))))
        return self._predicted[key]

    def predicted_below(self, measure: Measure, level: str, scope: Scope) -> Array:
        """Return the scaled prediction `[n, A]` below each action of `level`, the candidate acting further in as `scope` says."""
        model = self.models.below.get((measure.column, scope))
        if model is None:
            return self.predicted(measure, level)
        return round_predictions(model.predict(level, self._before(level, False)))


@dataclass(frozen=True, slots=True)
class _InsertedCandidate:
    """The candidate of a view, as it acts on the log as it is, at the levels of a scope; the incumbent at all others."""

    view: CandidateView
    scope: Scope
    incumbent: Policy

    @property
    def weights(self) -> Array:
        """Return the particle weights `[S]`."""
        return self.view.weights

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[S, n]`."""
        if level in self.scope:
            return self.view.taken(level, self.view.batch)
        return np.broadcast_to(path_taken(self.incumbent, level, batch), (self.weights.size, len(batch.levels[level])))

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[S, n, A]`."""
        if level in self.scope:
            return self.view.full(level, self.view.batch)
        chances = path_full(self.incumbent, level, batch)
        return np.broadcast_to(chances, (self.weights.size, *chances.shape))


def with_least_weights(view: CandidateView, factors: Mapping[str, float]) -> CandidateView:
    """Return the view with `min(1, factor nu)` as the propensities of the actions taken: its weights are the least; made once.

    A density may exceed 1, so that it is multiplied by the factor alone.

    factors: by level; levels without one stay as they are, and so does the view if there are none.
    """
    if not factors:
        return view
    key = tuple(sorted(factors.items()))
    if key not in view._doubted:
        levels = dict(view.batch.levels)
        for name, factor in factors.items():
            largest = factor * levels[name].mu_taken
            largest = largest if view.problem.level(name).actions.continuous else np.minimum(1.0, largest)
            levels[name] = replace(levels[name], mu_taken=largest)
        # Rewards, predictions and who is whose sibling stay what they are; weights, and what was made of them, do not.
        lowered = view._through(_InsertedCandidate(view, Scope(view.batch.levels), view.policy))
        view._doubted[key] = replace(lowered, batch=replace(view.batch, levels=levels), _known={})
    return view._doubted[key]


@dataclass(frozen=True, slots=True)
class ParticlePolicy:
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


def views_in_pieces(
    problem: Problem, policy: Policy, models: RewardModels, batches: Iterable[Batch], comparator: Comparator = LOGGER_COMPARATOR
) -> Iterator[CandidateView]:
    """Yield views of batches, in pieces whose full distributions fit into memory, their episodes in order."""
    widest = max(level.actions.count for level in problem.levels) * policy.weights.size
    for batch in batches:
        rows = max(len(table) for table in batch.levels.values())
        count = min(-(-rows * widest // MOST_CELLS), len(batch))
        parts = np.array_split(np.arange(len(batch)), max(count, 1))
        for part in parts:
            yield CandidateView(problem, batch if count <= 1 else batch.take_episodes(part), policy, models, comparator)
