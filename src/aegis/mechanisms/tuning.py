"""Hyper-parameters by marginal likelihood on prior data: length-scales and prior precision of regressions on fourier features.

Give prior data only: hyper-parameters chosen on rows that are certified later would let them choose the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from aegis.errors import SettingError
from aegis.mechanisms.belief import build_belief
from aegis.mechanisms.encoding import Encoder, Scaling, mechanism_rows
from aegis.mechanisms.fourier import Fourier
from aegis.mechanisms.length_scales import best_length_scales
from aegis.mechanisms.regression import Regression
from aegis.mechanisms.rewards import LevelRewards
from aegis.mechanisms.settings import ModelSettings, Scale, Tuned
from aegis.problem import AnyArray, Array, Batch, Problem, Rows, augmented, concat, subtree_means

MOST_ROWS = 1000  # evidence is compared on so many rows, evenly spread; more would not change the choice
MOST_GROUPS = 20  # with more inputs than this they share one length-scale: each of its own would be noise, and slow


def tune(
    problem: Problem,
    batches: Iterable[Batch],
    settings: ModelSettings,
    scope: Iterable[str] | None = None,
    scalings: Mapping[str, Scaling] | None = None,
    seed: int = 0,
) -> ModelSettings:
    """Return settings whose `tuned` maximises the evidence of prior data; only mechanisms with fourier features are tuned.

    Tempering plays no part in the choice: evidence is that of the untempered likelihood. Raises SettingError without data.
    """
    if settings.features != "fourier":
        return settings
    plain = replace(settings, lengthscale=1.0, tuned={})
    belief = build_belief(problem, plain, scope, scalings, seed)
    batch = _joined(batches)
    found: dict[str, Tuned] = {}
    for name, mechanism in belief.mechanisms.items():
        if name in problem.mechanisms(scope) and isinstance(mechanism, Regression):
            hyper = _tuned(mechanism, *mechanism_rows(problem, batch, name))
            if hyper is not None:
                found[name] = hyper
    return replace(settings, tuned=found)


def tune_rewards(
    problem: Problem,
    batches: Iterable[Batch],
    settings: ModelSettings,
    scalings: Mapping[str, Scaling] | None = None,
    levels: Iterable[str] | None = None,
) -> tuple[LevelRewards, dict[str, Tuned]]:
    """Return reward models before any data, each level's with the hyper-parameters that maximise its evidence of prior data.

    The second part says by level what was found; a level that has nothing to tune is not in it.
    """
    plain = replace(settings, lengthscale=1.0, tuned={})
    start = LevelRewards.prior(problem, plain, scalings, levels)
    if settings.features != "fourier":
        return start, {}
    batch = _joined(batches)
    targets = subtree_means(batch)
    regressions: dict[str, Regression] = {}
    found: dict[str, Tuned] = {}
    for name, regression in start.regressions.items():
        hyper = _tuned(regression, augmented(problem, batch, name, with_action=True), targets[name])
        if hyper is not None:
            found[name] = hyper
        own = plain if hyper is None else replace(plain, tuned={problem.reward.column: hyper})
        regressions[name] = LevelRewards.prior(problem, own, scalings, [name]).regressions[name]
    return LevelRewards(problem, regressions, {name: regression.prior() for name, regression in regressions.items()}), found


def _joined(batches: Iterable[Batch]) -> Batch:
    parts = list(batches)
    if not parts:
        raise SettingError("there is no prior data to tune on; give at least one batch of it")
    return concat(parts)


def _tuned(regression: Regression, rows: Rows, values: AnyArray) -> Tuned | None:
    """Return the best hyper-parameters of a regression whose features are at length-scale 1; None if it has nothing to tune."""
    features = regression.features
    if not isinstance(features, Fourier) or not regression.parents:
        return None
    inputs, targets = _known(regression, rows, values)
    if not len(targets):
        return None
    spread = slice(None, None, -(-len(targets) // MOST_ROWS))
    groups = _groups(regression.encoder)
    shared = len(groups) > MOST_GROUPS
    searched = [slice(0, inputs.shape[1])] if shared else groups
    best = best_length_scales(features, searched, inputs[spread], targets[spread], regression.shape, regression.rate)
    scales = best.scales * len(groups) if shared else best.scales
    return Tuned(_by_name(regression.encoder, scales), best.precision, best.charge, best.linear)


def _known(regression: Regression, rows: Rows, values: AnyArray) -> tuple[Array, Array]:
    """Return inputs `[n, d]` and targets `[n, q]`, standardised, of the rows in which nothing is missing."""
    target = regression.target
    if target.kind == "categorical":
        targets = regression.encoder.encode(target, values)
    else:
        numbers = values if target.kind == "vector" else values[:, None]
        targets = regression.scaling.forward(np.asarray(numbers, dtype=np.float64))
    inputs = regression.encoder(rows, (len(targets),))
    known = np.isfinite(targets).all(axis=1) & np.isfinite(inputs).all(axis=1)
    return inputs[known], targets[known]


def _groups(encoder: Encoder) -> list[slice]:
    """Return the columns with a length-scale of their own: a number, a coordinate of a vector, all indicators of a category."""
    found: list[slice] = []
    for parent in encoder.parents:
        block = encoder.block(parent.name)
        steps = [block] if parent.kind == "categorical" else [slice(place, place + 1) for place in range(block.start, block.stop)]
        found += steps
    return found


def _by_name(encoder: Encoder, scales: tuple[float, ...]) -> dict[str, Scale]:
    """Return the length-scales of the groups by input name, one number for each coordinate of a vector."""
    found: dict[str, Scale] = {}
    start = 0
    for parent in encoder.parents:
        size = parent.width if parent.kind == "vector" else 1
        own = scales[start : start + size]
        found[parent.name] = own if parent.kind == "vector" else own[0]
        start += size
    return found
