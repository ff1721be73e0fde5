"""Reward models: for each level one regression of the mean reward below a decision, given its context and action.

Fitted on a log, a model predicts what an action earns if the behaviour policy continues below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from aegis.errors import ModelError, PolicyError, SettingError, did_you_mean
from aegis.mechanisms.belief import ModelSettings, build_belief
from aegis.mechanisms.encoding import Scaling
from aegis.mechanisms.fourier import Fourier
from aegis.mechanisms.regression import NIG, Regression
from aegis.mechanisms.serialisation import MECHANISM_CLASSES, Packed, pack_value, unpack_value
from aegis.problem import Array, Batch, Problem, Reward, State, augmented_context, subtree_means

BLOCK = 2**22  # features held in memory at once


@dataclass(frozen=True, slots=True)
class LevelRewards:
    """Posteriors of one Normal-Inverse-Gamma regression per level, by level name; predictions are in logged units.

    The inputs of a level are its augmented context and its own action. Updating returns a new object.

    Parameters
    ----------
    problem
        The problem whose rewards are predicted.
    regressions, states
        Regression and posterior of each level. `LevelRewards.prior` makes both.
    """

    kind: ClassVar[str] = "level_rewards"
    problem: Problem
    regressions: Mapping[str, Regression]
    states: Mapping[str, NIG]

    @classmethod
    def prior(
        cls,
        problem: Problem,
        settings: ModelSettings | None = None,
        scalings: Mapping[str, Scaling] | None = None,
        levels: Iterable[str] | None = None,
    ) -> LevelRewards:
        """Return the models before any data, for `levels` (all if None).

        Of the settings, feature map and prior count; a reward model is always one joint regression. The default is a polynomial
        with products. scalings: as in `build_belief`, fitted on prior data.
        """
        chosen = replace(settings or ModelSettings(features="polynomial"), structure="joint")
        chosen.check_names(problem)
        regressions = {
            name: _regression(problem, name, chosen, scalings or {}) for name in problem.names if name in problem.scope(levels)
        }
        return cls(problem, regressions, {name: regression.prior() for name, regression in regressions.items()})

    @classmethod
    def likeliest(
        cls, candidates: Sequence[LevelRewards], charges: Sequence[Mapping[str, float]] | None = None
    ) -> tuple[LevelRewards, dict[str, int]]:
        """Return for each level the candidate's model with the largest evidence, and which candidate that was.

        The candidates are of one problem and have seen the same data. charges: as in `select_models`, by level.
        """
        if not candidates:
            raise SettingError("there are no reward models to choose from; give at least one")
        pairs = list(zip(candidates, charges or [{}] * len(candidates), strict=True))
        chosen = {
            name: int(np.argmax([model.evidence(name) - owed.get(name, 0.0) for model, owed in pairs]))
            for name in candidates[0].regressions
        }
        regressions = {name: candidates[index].regressions[name] for name, index in chosen.items()}
        states = {name: candidates[index].states[name] for name, index in chosen.items()}
        return cls(candidates[0].problem, regressions, states), chosen

    def update(self, batch: Batch) -> LevelRewards:
        """Return the models after a batch of episodes; decisions without an observed reward below them are left out."""
        targets = subtree_means(batch)
        states = {}
        for name, regression in self.regressions.items():
            rows = augmented_context(self.problem, batch, name, with_action=True)
            states[name] = regression.update(self.states[name], rows, targets[name])
        return replace(self, states=states)

    def evidence(self, level: str) -> float:
        """Return the log marginal likelihood of what the model of a level has seen, in nats."""
        return self.states[level].log_evidence(self._regression(level).prior())

    def predict(self, level: str, batch: Batch) -> Array:
        """Return the predicted mean reward below each decision for every action, `[n, A]`, in logged units."""
        regression, actions = self._regression(level), self.problem.level(level).actions
        if isinstance(regression.features, Fourier):  # what a row is predicted must not depend on the rows beside it
            regression = replace(regression, features=regression.features.exact)
        function = regression.point(self.states[level])
        values = actions.as_rows(np.arange(actions.count, dtype=np.int32))
        rows = {name: predictions[None] for name, predictions in augmented_context(self.problem, batch, level).items()}
        count = len(batch.levels[level])
        step = max(1, BLOCK // (actions.count * regression.features.size))
        predictions = np.empty((count, actions.count))
        for start in range(0, count, step):
            stop = min(start + step, count)
            part = {name: column[:, start:stop] for name, column in rows.items()}
            predictions[start:stop] = function.mean_each(part, stop - start, actions.column, values)[0, :, :, 0]
        return predictions

    def state(self) -> State:
        """Return regressions and posteriors."""
        packed = pack_value({"regressions": self.regressions, "states": self.states}, MECHANISM_CLASSES)
        return State(self.kind, {"models": packed.tree}, packed.arrays)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> LevelRewards:
        """Build the models from their state."""
        parts = unpack_value(Packed(state.setting("models"), dict(state.arrays)), MECHANISM_CLASSES, problem)
        regressions, states = parts.get("regressions", {}), parts.get("states", {})
        if not regressions or set(regressions) != set(states) or not set(regressions) <= set(problem.names):
            raise PolicyError(
                f"stored reward models do not fit the levels {', '.join(problem.names)}; found {sorted(regressions)}"
            )
        return cls(problem, regressions, states)

    def _regression(self, level: str) -> Regression:
        if level not in self.regressions:
            known = ", ".join(self.regressions) or "none"
            raise SettingError(
                f"there is no reward model of level '{level}'{did_you_mean(level, self.regressions)}; levels: {known}"
            )
        return self.regressions[level]


def _regression(problem: Problem, level: str, settings: ModelSettings, scalings: Mapping[str, Scaling]) -> Regression:
    """Return the regression of a level: the joint model of the problem that ends at that level."""
    levels = tuple(
        replace(spec, available=(), propensity=None, incumbent=None) for spec in (*problem.above(level), problem.level(level))
    )
    cut = Problem(levels, Reward(problem.reward.column))
    known = {name: scaling for name, scaling in scalings.items() if name in cut.variables}
    mechanism = build_belief(cut, settings.about(cut.variables), None, known).mechanisms[problem.reward.column]
    if not isinstance(mechanism, Regression):
        raise ModelError(f"level '{level}': a reward model is a regression, found a {type(mechanism).__name__}")
    return mechanism
