"""A batch seen through a candidate: every probability and prediction is asked for once, however many claims need it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

import numpy as np

from aegis.certificate.comparator import LOGGER, Comparator
from aegis.certificate.measures import Measure, Observed, observe
from aegis.certificate.units import Siblings
from aegis.certificate.weights import last_in_scope, lowered, path_weights, reward_level, reward_rows, weights
from aegis.errors import SettingError
from aegis.policies import path_full, path_taken
from aegis.policies.smoothed import without_atoms
from aegis.problem import Array, Batch, Policy, Problem, RewardModel, Scope


@dataclass(slots=True)
class Models:
    """Predictions fixed before the certified units were looked at.

    rewards: by measured column, one model per level, in the column's units; a column without one is predicted by `guess`.
    guess: by column, a scaled constant. below: by scope, the modelled scaled mean reward below an outer action with the
    candidate acting at the inner levels of that scope (joint scopes only).
    """

    rewards: dict[str, RewardModel] = field(default_factory=dict)
    guess: dict[str, float] = field(default_factory=dict)
    below: dict[tuple[str, Scope], RewardModel] = field(default_factory=dict)


@dataclass(slots=True)
class View:
    """Whole episodes, a candidate and models. It is itself a policy on its batch: the candidate, remembered.

    Candidate and models are asked on what is known when a decision is taken (`Batch.before`): what came of it is none of theirs.
    """

    problem: Problem
    batch: Batch
    policy: Policy
    models: Models
    comparator: Comparator = LOGGER
    _taken: dict[str, Array] = field(default_factory=dict)
    _full: dict[str, Array] = field(default_factory=dict)
    _weights: dict[Scope, Array] = field(default_factory=dict)
    _observed: dict[str, Observed] = field(default_factory=dict)
    _predicted: dict[tuple[str, str], Array] = field(default_factory=dict)
    _siblings: dict[str, Siblings] = field(default_factory=dict)
    _series: dict[Hashable, Array] = field(default_factory=dict)
    _below: dict[tuple[str, str | None], Observed] = field(default_factory=dict)
    _doubted: dict[Hashable, View] = field(default_factory=dict)
    _known: dict[tuple[str, bool], Batch] = field(default_factory=dict)
    _against: dict[str, View] = field(default_factory=dict)

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

    def against(self, scope: Scope) -> View | None:
        """Return the same episodes seen through the incumbent, mu; None where the comparator of a scope is the logger.

        Raises RefusedError, naming the row, where the logged actions cannot have the logged probabilities under the incumbent.
        """
        if self.comparator.policy is None or not self.comparator.stated(scope):
            return None
        if "incumbent" not in self._against:
            self._against["incumbent"] = self._through(self.comparator.policy)
        found = self._against["incumbent"]
        for level in self.comparator.levels & scope:
            if level not in found._taken:
                known = self.batch.levels[level].mu_full is not None
                full = path_full(found, level, found.batch) if known else None
                self.comparator.check(level, self.batch, path_taken(found, level, found.batch), full)
        return found

    def over_log(self) -> View:
        """Return the same candidate on the same episodes with the logger as its comparator."""
        if self.comparator.policy is None:
            return self
        if "log" not in self._against:
            self._against["log"] = replace(self, comparator=LOGGER, _series={}, _doubted={}, _against={})
        return self._against["log"]

    def compared(self, scope: Scope) -> tuple[View, Scope]:
        """Return what is deployed and the levels whose ratios count: levels outside the scope join if they are corrected."""
        wide = self.comparator.compared(scope)
        if wide == scope or self.comparator.policy is None:
            return self, scope
        key = "+".join(sorted(scope))
        if key not in self._against:
            self._against[key] = self._through(_Inserted(self, scope, self.comparator.policy))
        return self._against[key], wide

    def _through(self, policy: Policy) -> View:
        """Return the same episodes seen through another policy; rewards, predictions and siblings are shared."""
        return replace(self, policy=policy, _taken={}, _full={}, _weights={}, _series={}, _doubted={}, _against={})

    def comparing(self, level: str) -> Array:
        """Return mu `[n, A]`, the comparator's whole distribution at a level."""
        found = self.against(Scope(level))
        return self.logging(level) if found is None else path_full(found, level, found.batch)

    def logging(self, level: str) -> Array:
        """Return nu `[n, A]`, the whole logging distribution of a level; SettingError if the log does not have it."""
        found = self.batch.levels[level].mu_full
        if found is None:
            raise SettingError(f"level '{level}': the log holds the probability of the action taken only")
        return found

    @property
    def level(self) -> str | None:
        """Return the level whose decisions carry the reward; None if the episode does."""
        return reward_level(self.problem)

    def carrier(self, scope: Scope) -> str | None:
        """Return the level of the nodes whose weights are told apart; None stands for the episodes.

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
            own = level == self.level
            found = weights(self.problem, self, self.batch, scope, level) if own else path_weights(self, self.batch, scope)
            self._weights[scope] = found
        return self._weights[scope]

    def node_weights(self, scope: Scope) -> Array:
        """Return the weight `[m]` of every node that carries a reward."""
        found, start, stop = self.carrier_weights(scope), self.carrier(scope), self.level
        return found if start is None or stop is None else lowered(self.batch, found, start, stop)

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
            found = self.observed(measure)
            self._below[key] = found if level == self.level else self.raised(found, self.level, level)
        return self._below[key]

    def observed(self, measure: Measure) -> Observed:
        """Return the measure at the nodes that carry a reward, `[m]`; a guard, which every row has, as its mean below them."""
        if measure.column not in self._observed:
            rows = reward_rows(self.problem, self.batch, self.level)
            if measure.guard and rows is not None:
                found = self.raised(observe(measure, self.batch), self.problem.innermost.name, self.level)
            else:
                found = observe(measure, self.batch, rows)
            self._observed[measure.column] = found
        return self._observed[measure.column]

    def subtree(self, measure: Measure, level: str) -> Observed:
        """Return the nested mean of the measure below each decision of `level`, with its worst and best cases, `[n]`."""
        return self.raised(self.observed(measure), self.level or next(iter(self.batch.levels)), level)

    def raised(self, found: Observed, start: str | None, stop: str | None) -> Observed:
        """Return nested means of a measure at the decisions of `start` for those of `stop`, or for episodes if it is None."""
        low = self._means(found.low, start, stop)
        return Observed(low, low if found.high is found.low else self._means(found.high, start, stop))

    def _means(self, values: Array, start: str | None, stop: str | None) -> Array:
        """Return nested means of values at the decisions of `start` for those of `stop`; None stands for the episodes."""
        names = list(self.batch.levels)
        first = -1 if start is None else names.index(start)
        for position in range(first, -1 if stop is None else names.index(stop), -1):
            name = names[position]
            if name not in self._siblings:
                size = len(self.batch) if position == 0 else len(self.batch.levels[names[position - 1]])
                self._siblings[name] = Siblings.of(self.batch.levels[name].parent, size)
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
                self._predicted[key] = _settled(measure.scaled(model.predict(level, self._before(level, False))))
        return self._predicted[key]

    def predicted_below(self, measure: Measure, level: str, scope: Scope) -> Array:
        """Return the scaled prediction `[n, A]` below each action of `level`, the candidate acting further in as `scope` says."""
        model = self.models.below.get((measure.column, scope))
        if model is None:
            return self.predicted(measure, level)
        return _settled(model.predict(level, self._before(level, False)))


@dataclass(frozen=True, slots=True)
class _Inserted:
    """A candidate at the levels of a scope, the incumbent at all others."""

    view: View
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
        found = path_full(self.incumbent, level, batch)
        return np.broadcast_to(found, (self.weights.size, *found.shape))


def _settled(found: Array) -> Array:
    """Return predictions as multiples of 2^-20 in [0, 1].

    The last digits of a matrix product depend on how many rows there are; evidence must not depend on the blocks a log comes in.
    """
    return np.round(np.clip(np.nan_to_num(found, nan=0.5), 0.0, 1.0) * 2.0**20) / 2.0**20
