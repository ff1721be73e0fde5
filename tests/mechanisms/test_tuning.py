"""Marginal likelihood: the evidence against the product of predictive densities, and what tuning chooses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from aegis.errors import SettingError
from aegis.mechanisms import NIG, ModelSettings, build_belief, tune
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Variable
from aegis.rng import stream


def test_evidence_is_the_product_of_the_predictive_densities() -> None:
    rng = stream(1, "evidence")
    features, targets = rng.standard_normal((9, 3)), rng.standard_normal((9, 2))
    prior = NIG.prior(3, 2, 0.3, 2.0, 0.7)
    state, total = prior, 0.0
    for x, y in zip(features, targets, strict=True):
        mean, _, _ = state.predict(x[None])
        at = state.moments()
        leverage = float(np.sum(np.linalg.solve(at.factor, x) ** 2))
        scale = np.sqrt(at.rate / at.shape * (1 + leverage))
        total += stats.t.logpdf(y, 2 * at.shape, mean[0], scale).sum()
        state = state.update(x[None], y[None])
    assert state.log_evidence(prior) == pytest.approx(total)


def wiggly_batch(seed: int, rows: int = 400) -> tuple[Problem, Batch]:
    """A reward that wiggles fast in c, slowly in d, and does not depend on the action."""
    problem = Problem((Level("l", Actions.of("a", (0.0, 1.0)), (Variable("c"), Variable("d"))),), Reward("r"))
    rng = stream(seed, "wiggly")
    context = {"c": rng.standard_normal(rows), "d": rng.standard_normal(rows)}
    table = LevelTable.undecided(np.arange(rows), context).decided(rng.integers(0, 2, rows), np.full(rows, 0.5))
    reward = np.sin(4 * context["c"]) + 0.5 * context["d"] + 0.1 * rng.standard_normal(rows)
    return problem, Batch(np.arange(rows), {"l": table}, reward, np.ones(rows, dtype=bool))


def test_tuning_finds_the_input_that_matters_most_and_improves_the_evidence() -> None:
    problem, batch = wiggly_batch(1)
    settings = ModelSettings(features="fourier")
    tuned = tune(problem, [batch], settings)
    scales = tuned.tuned["r"].lengthscale
    assert scales["c"] < scales["d"]
    assert scales["c"] < scales["a"]
    _, fresh = wiggly_batch(2)
    evidence = []
    for chosen in (settings, tuned):
        belief = build_belief(problem, chosen).update(fresh)
        evidence.append(belief.states["r"].log_evidence(belief.prior["r"]))
    assert evidence[1] > evidence[0] + 50


def test_tuning_does_nothing_to_other_features_and_needs_data() -> None:
    problem, _ = wiggly_batch(3)
    settings = ModelSettings(features="linear")
    assert tune(problem, [], settings) is settings
    with pytest.raises(SettingError, match="no prior data"):
        tune(problem, [], ModelSettings(features="fourier"))
