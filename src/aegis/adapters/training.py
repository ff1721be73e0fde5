"""Rows to fit an estimator on, from the side of a log that is not certified, and the record that keeps the sides apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aegis.adapters.inputs import Frame, Inputs
from aegis.errors import LogError, SettingError
from aegis.logs import Source, Split, learning_record
from aegis.problem import AnyArray, Array, Policy, RewardModel, augmented, concat, subtree_means


@dataclass(frozen=True, slots=True)
class TrainingRows:
    """The decisions of a level on the prior side of a split, those with an observed reward below them.

    inputs: a matrix `[n, d]`, or a frame. with_action: the same and the action, for a regressor. actions `[n]`: values as in
    the log. rewards `[n]`: means below, in logged units. propensities `[n]`: of the actions taken. left_out: decisions without
    a reward.
    """

    inputs: Any
    with_action: Any
    actions: AnyArray
    rewards: Array
    propensities: Array
    left_out: int


@dataclass(frozen=True, slots=True)
class Fitted:
    """A policy from another library and the record of what it was fitted on: `certify` uses the other side of the split alone."""

    policy: Policy
    record: Mapping[str, Any] = field(default_factory=dict)
    rewards: RewardModel | None = None


def training_rows(
    source: Source, split: Split, level: str | None = None, features: Sequence[str] | None = None, frame: Frame | None = None
) -> TrainingRows:
    """Return rows of the prior side of a split to fit an estimator on, at a level (the innermost if None).

    features: columns, in their order; all that are known when the level decides if None. frame: `pandas.DataFrame` or the like,
    for estimators that want named columns; None: matrices. Decisions without any observed reward below them are left out.
    """
    problem = source.problem
    spec = problem.innermost if level is None else problem.level(level)
    batch = concat(list(source.batches(side="prior", split=source.placed(split))))
    rewards = subtree_means(batch)[spec.name]
    kept = np.flatnonzero(np.isfinite(rewards))
    if not kept.size:
        raise LogError(f"no reward was observed on the prior side of the split (column '{problem.reward.column}')")
    table = batch.levels[spec.name]
    rows = {name: values[kept] for name, values in augmented(problem, batch, spec.name, with_action=True).items()}
    values = np.empty(spec.actions.count, dtype=np.float64 if spec.actions.numeric else object)
    values[:] = spec.actions.values
    actions = values[table.action[kept]]
    return TrainingRows(
        Inputs.of(problem, spec.name, features, frame).values(rows, kept.size),
        Inputs.of(problem, spec.name, features, frame, with_action=True).values(rows, kept.size),
        actions if spec.actions.numeric else actions.astype(np.str_),
        rewards[kept],
        table.mu_taken[kept],
        int(rewards.size - kept.size),
    )


def fitted(source: Source, split: Split, policy: Policy, rewards: RewardModel | None = None) -> Fitted:
    """Return a policy that was fitted on the prior side of a split of this log, with the record that says so.

    The record holds split, units, digests and fingerprints, as that of `learn` does. It is a declaration: whoever fits on more
    rows than `training_rows` gives, and says this, has a certificate of nothing.
    """
    levels = getattr(policy, "levels", None)
    scope = [name for name in source.problem.names if levels is None or name in levels]
    if not scope:
        raise SettingError(f"the policy acts at none of the levels {', '.join(source.problem.names)}")
    record = {"kind": str(getattr(policy, "kind", type(policy).__name__)), "scope": scope}
    return Fitted(policy, {**record, **learning_record(source, split)}, rewards)
