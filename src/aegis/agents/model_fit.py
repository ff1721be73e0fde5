"""Fitting beliefs and reward models to the prior side of a log in two streaming passes: scalings first, then the models.

The certification side is never read: a model that has seen it could not be certified on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from aegis.errors import LogError
from aegis.logs import Source, Split
from aegis.mechanisms import (
    MODELS,
    MOST_INPUTS,
    TUNABLE,
    TUNED,
    Belief,
    LevelRewards,
    ModelSettings,
    Scaling,
    Tuned,
    build_belief,
    fit_scalings,
    select_models,
    tune,
    tune_rewards,
)
from aegis.problem import Array, Batch, Problem, Scope, concat, group_means, nested_means, subtree_means

MOST_EPISODES = 3000

MOST_ROWS = 2**17  # of innermost decisions


@dataclass(slots=True)
class EpisodeSample:
    """Every 2^k-th episode of a stream, k as small as the bounds allow: blocks of the stream do not change which they are."""

    stride: int = 1
    count: int = 0
    parts: list[tuple[npt.NDArray[np.int64], Batch]] = field(default_factory=list)

    def watch(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Pass the batches on, and keep some of their episodes."""
        for batch in batches:
            self.add(batch)
            yield batch

    def add(self, batch: Batch) -> None:
        """Take what the stride says of a batch; double the stride while there is too much."""
        places = np.arange(self.count, self.count + len(batch))
        self.count += len(batch)
        self._keep(places, batch)
        while self._too_many():
            self.stride *= 2
            parts, self.parts = self.parts, []
            for numbers, part in parts:
                self._keep(numbers, part)

    def batch(self) -> Batch:
        """Return the sample as one batch."""
        if not self.parts:
            raise LogError("there are no episodes to take a sample of")
        return concat([part for _, part in self.parts])

    def _keep(self, places: npt.NDArray[np.int64], batch: Batch) -> None:
        chosen = places % self.stride == 0
        if chosen.any():
            self.parts.append((places[chosen], batch if chosen.all() else batch.take_episodes(chosen)))

    def _too_many(self) -> bool:
        episodes = sum(len(part) for _, part in self.parts)
        rows = sum(len(part.levels[list(part.levels)[-1]]) for _, part in self.parts)
        return episodes > MOST_EPISODES or (rows > MOST_ROWS and episodes > 1)


FitProgress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class FittedModels:
    """What the prior side taught.

    belief: of the mechanisms that the scope needs. rewards: one model per level. models, reward_models: which model was the
    likeliest, by mechanism and by level. episodes, decisions, rewards_missing: how much there was. legacy_value: mean over
    episodes of the nested-mean reward, in logged units.
    """

    scalings: Mapping[str, Scaling]
    belief: Belief
    rewards: LevelRewards
    models: Mapping[str, str]
    reward_models: Mapping[str, str]
    episodes: int
    decisions: int
    rewards_missing: int
    legacy_value: float


def fit_mechanisms(
    source: Source,
    split: Split,
    scope: Scope,
    models: Mapping[str, ModelSettings] | None = None,
    report: FitProgress | None = None,
) -> FittedModels:
    """Fit the models to the prior side of a log and keep, for each mechanism and level, the likeliest one.

    models: candidates by name; by default MODELS and, under the name TUNED, a model whose length-scales are tuned on a sample of
    the prior side. Polynomials are left out where a regression would have more than MOST_INPUTS inputs. report: called with the
    pass and the episodes so far. A split that learns nothing gives the hyper-prior. Raises LogError if the prior side is empty,
    if it has no rewards, or if a mechanism never saw a complete row.
    """
    problem, placed = source.problem, source.with_cut(split)
    if placed.unlearned:
        return hyper_prior(problem, scope, models)
    sample = EpisodeSample()
    scalings = fit_scalings(problem, sample.watch(_prior_batches(source, placed, "scaling", report)))
    if problem.reward.column not in scalings:
        raise LogError(
            f"no reward was observed in the {sample.count} episodes of the prior side (column '{problem.reward.column}'); "
            "nothing can be learned without rewards"
        )
    compared = [
        _ModelCandidate(name, build_belief(problem, settings, scope, scalings), LevelRewards.prior(problem, settings, scalings))
        for name, settings in _affordable(problem, scope, models or MODELS).items()
    ]
    if models is None:
        compared.append(_tuned_candidate(problem, scope, scalings, sample.batch()))
    decisions, missing, total, rewarded = 0, 0, 0.0, 0
    for batch in _prior_batches(source, placed, "fitting", report):
        compared = [model.update(batch) for model in compared]
        below = subtree_means(batch)
        innermost = below[problem.innermost.name]
        means = observed_episode_means(batch, problem.names[0], below[problem.names[0]])
        decisions, missing = decisions + innermost.size, missing + int(np.isnan(innermost).sum())
        total, rewarded = total + float(means[np.isfinite(means)].sum()), rewarded + int(np.isfinite(means).sum())
    _check_seen(compared[0].belief)
    belief, chosen = select_models([model.belief for model in compared], [model.owed for model in compared])
    rewards, chosen_rewards = LevelRewards.likeliest(
        [model.rewards for model in compared], [model.owed_rewards for model in compared]
    )
    return FittedModels(
        scalings,
        belief,
        rewards,
        {name: compared[index].name for name, index in chosen.items() if name in problem.mechanisms(scope)},
        {name: compared[index].name for name, index in chosen_rewards.items()},
        sample.count,
        decisions,
        missing,
        total / max(rewarded, 1),
    )


def hyper_prior(problem: Problem, scope: Scope, models: Mapping[str, ModelSettings] | None = None) -> FittedModels:
    """Return what is believed before any data (the paper's alpha = 0): the prior of the first model, in raw units.

    By default linear regressions with the paper's Normal-Inverse-Gamma prior: mean 0, precision 0.1, shape 2, rate 1.
    """
    name, settings = next(iter((models or MODELS).items()))
    belief, rewards = build_belief(problem, settings, scope), LevelRewards.prior(problem, settings)
    wanted = problem.mechanisms(scope)
    return FittedModels(
        scalings={},
        belief=belief,
        rewards=rewards,
        models={mechanism: name for mechanism in belief.mechanisms if mechanism in wanted},
        reward_models=dict.fromkeys(rewards.regressions, name),
        episodes=0,
        decisions=0,
        rewards_missing=0,
        legacy_value=math.nan,
    )


@dataclass(frozen=True, slots=True)
class _ModelCandidate:
    """One of the models that are compared: of the mechanisms, and of the reward below each level.

    owed, owed_rewards: nats that its evidence owes to the search for its hyper-parameters, by mechanism and by level.
    """

    name: str
    belief: Belief
    rewards: LevelRewards
    owed: Mapping[str, float] = field(default_factory=dict)
    owed_rewards: Mapping[str, float] = field(default_factory=dict)

    def update(self, batch: Batch) -> _ModelCandidate:
        return replace(self, belief=self.belief.update(batch), rewards=self.rewards.update(batch))


def _tuned_candidate(problem: Problem, scope: Scope, scalings: Mapping[str, Scaling], sample: Batch) -> _ModelCandidate:
    """Return the model whose length-scales suit a sample of the prior side best."""
    settings = tune(problem, sample, TUNABLE, scope, scalings)
    rewards, tuned = tune_rewards(problem, sample, TUNABLE, scalings)
    belief = build_belief(problem, settings, scope, scalings)
    return _ModelCandidate(TUNED, belief, rewards, _search_charges(settings.tuned), _search_charges(tuned))


def _search_charges(tuned: Mapping[str, Tuned]) -> dict[str, float]:
    """Return what each owes; one without waves is never taken: it is a linear regression that is slow to plan with."""
    return {name: math.inf if model.linear else model.charge for name, model in tuned.items()}


def _prior_batches(source: Source, split: Split, stage: str, report: FitProgress | None) -> Iterator[Batch]:
    episodes = 0
    for batch in source.batches(side="prior", split=split):
        yield batch
        episodes += len(batch)
        if report is not None:
            report(stage, episodes)


def observed_episode_means(batch: Batch, level: str, values: Array) -> Array:
    """Return nested means `[E]` of values `[n]` at any level, over the decisions that have one (not nan)."""
    return nested_means(batch, level, values, group_means)


def _affordable(problem: Problem, scope: Scope, models: Mapping[str, ModelSettings]) -> dict[str, ModelSettings]:
    """Return the models without polynomials of too many inputs; if nothing were left, all of them."""
    variables = problem.variables
    mechanisms = problem.mechanisms(scope)
    widths = [sum(variables[parent].width for parent in problem.graph.parents[name]) for name in mechanisms]
    widths.append(sum(v.width for level in problem.levels for v in (*level.context, level.actions.variable)))
    if max(widths) <= MOST_INPUTS:
        return dict(models)
    affordable = {name: settings for name, settings in models.items() if settings.features != "polynomial"}
    return affordable or dict(models)


def _check_seen(belief: Belief) -> None:
    """Raise LogError if a mechanism saw no row in which its target and all its parents are known."""
    for name, state in belief.states.items():
        if np.array_equal(state.shape, belief.prior[name].shape):
            parents = ", ".join(belief.mechanisms[name].parents) or "nothing"
            raise LogError(
                f"'{name}' cannot be learned from {parents}: no row of the prior side has all of them; fill them in, or take the "
                "variable that is missing (such as an outcome that was not measured) out of the problem file"
            )
