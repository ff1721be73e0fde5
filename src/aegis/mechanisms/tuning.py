"""Hyper-parameters by marginal likelihood on prior data: length-scales per input and prior precision, mechanism by mechanism.

The evidence of a Normal-Inverse-Gamma regression has a closed form, so that a search over a small grid is enough: first one
length-scale for all inputs, then each input on its own, then the precision.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from aegis.errors import SettingError
from aegis.mechanisms.belief import ModelSettings, Tuned, build_belief
from aegis.mechanisms.encoding import Scaling, mechanism_rows
from aegis.mechanisms.regression import Regression
from aegis.problem import AnyArray, Batch, Problem, Rows

LENGTHSCALES = (0.3, 0.5, 0.7, 1.0, 1.4, 2.0, 3.0, 5.0, 8.0)
FACTORS = (0.5, 2.0, 4.0)
PRECISIONS = (0.001, 0.01, 0.1, 1.0, 10.0)
MOST_ROWS = 1500  # evidence is compared on the first rows of prior data; more would not change the choice


def tune(
    problem: Problem,
    batches: Iterable[Batch],
    settings: ModelSettings,
    scope: Iterable[str] | None = None,
    scalings: dict[str, Scaling] | None = None,
    seed: int = 0,
) -> ModelSettings:
    """Return settings whose `tuned` maximises the evidence of prior data; only mechanisms with fourier features are tuned.

    Give prior data only: hyper-parameters chosen on rows that are certified later would let them choose the model.
    """
    if settings.features != "fourier":
        return settings
    rows = _collect(problem, batches, settings, scope, scalings, seed)
    found: dict[str, Tuned] = {}
    for name, (parents, values) in rows.items():
        found[name] = _search(problem, name, parents, values, settings, scope, scalings, seed)
    return replace(settings, tuned=found)


def _collect(
    problem: Problem,
    batches: Iterable[Batch],
    settings: ModelSettings,
    scope: Iterable[str] | None,
    scalings: dict[str, Scaling] | None,
    seed: int,
) -> dict[str, tuple[Rows, AnyArray]]:
    """Return the first rows of each mechanism."""
    belief = build_belief(problem, settings, scope, scalings, seed)
    names = [name for name in problem.mechanisms(scope) if isinstance(belief.mechanisms.get(name), Regression)]
    parts: dict[str, list[tuple[Rows, AnyArray]]] = {name: [] for name in names}
    for batch in batches:
        for name in names:
            if sum(len(values) for _, values in parts[name]) < MOST_ROWS:
                parts[name].append(mechanism_rows(problem, batch, name))
        if all(sum(len(values) for _, values in parts[name]) >= MOST_ROWS for name in names):
            break
    if not any(parts.values()):
        raise SettingError("there is no prior data to tune on")
    joined: dict[str, tuple[Rows, AnyArray]] = {}
    for name, pieces in parts.items():
        keys = pieces[0][0]
        rows = {key: np.concatenate([piece[0][key] for piece in pieces])[:MOST_ROWS] for key in keys}
        joined[name] = rows, np.concatenate([piece[1] for piece in pieces])[:MOST_ROWS]
    return joined


def _search(
    problem: Problem,
    name: str,
    rows: Rows,
    values: AnyArray,
    settings: ModelSettings,
    scope: Iterable[str] | None,
    scalings: dict[str, Scaling] | None,
    seed: int,
) -> Tuned:
    inputs = build_belief(problem, settings, scope, scalings, seed).mechanisms[name].parents

    def evidence(candidate: Tuned) -> float:
        trial = replace(settings, tuned={name: candidate}, temper=1.0)
        mechanism = build_belief(problem, trial, scope, scalings, seed).mechanisms[name]
        if not isinstance(mechanism, Regression):
            raise SettingError(f"mechanism '{name}' has no hyper-parameters to tune")
        prior = mechanism.prior()
        return mechanism.update(prior, rows, values).log_evidence(prior)

    def better(best: Tuned, candidates: Iterable[Tuned]) -> Tuned:
        scored = [(evidence(candidate), -place, candidate) for place, candidate in enumerate([best, *candidates])]
        return max(scored, key=lambda item: item[:2])[2]

    start = Tuned(dict.fromkeys(inputs, 1.0), settings.precision)
    best = better(start, (Tuned(dict.fromkeys(inputs, scale), settings.precision) for scale in LENGTHSCALES))
    if len(inputs) > 1:
        for key in inputs:
            wider = [Tuned({**best.lengthscale, key: best.lengthscale[key] * factor}, best.precision) for factor in FACTORS]
            best = better(best, wider)
    return better(best, (Tuned(best.lengthscale, precision) for precision in PRECISIONS))
