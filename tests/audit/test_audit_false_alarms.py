"""Logs that are in order are refused with probability alpha at most: replications on the five worlds."""

from __future__ import annotations

import numpy as np
import pytest
from audit_cases import audited, logged, taken_only, with_propensities
from scipy import stats

from aegis.policies import Mixture
from aegis.worlds import WORLDS, make_world

ALPHA = 0.05
RUNS = 12
TESTS = (
    "miscalibrated-propensities",
    "actions-held",
    "carry-over",
    "siblings-interfere",
    "episodes-interfere",
    "neighbours-interfere",
    "cluster-interferes",
    "size-follows-action",
    "size-follows-reward",
    "reward-repeated",
    "reward-at-end",
    "duplicated-episodes",
)


@pytest.mark.parametrize("world", WORLDS)
def test_each_test_keeps_its_level(world: str) -> None:
    found = dict.fromkeys(TESTS, 0)
    for run in range(RUNS):
        legacy = "natural" if run % 2 else "uniform"
        problem, batch = logged(world, legacy, 60, 5000 + run)
        for form in ((problem, batch), taken_only(problem, batch)):
            refused = set(audited(*form, alpha=ALPHA).codes("refused"))
            assert refused <= set(TESTS)
            for code in refused:
                found[code] += 1
    # The two forms share their data: counted as one run for the limit.
    for code, number in found.items():
        assert stats.binomtest(min(number, RUNS), RUNS, ALPHA, alternative="greater").pvalue > 0.001, code


@pytest.mark.parametrize("form", ["path", "sequential"])
def test_a_mixture_that_logs_exact_probabilities_is_not_refused(form: str) -> None:
    plant = make_world("additive")
    mixture = Mixture([plant.legacy("natural"), plant.legacy("uniform")])
    refused, dependent, runs = 0, 0, 24 if form == "path" else 6
    for run in range(runs):
        audit = audited(plant.problem, plant.episodes(0, 120, mixture, 800 + run, form), alpha=ALPHA)  # type: ignore[arg-type]
        refused += audit.verdict == "refused"
        dependent += "propensities-not-sequential" in audit.codes()
    assert stats.binomtest(refused, runs, ALPHA, alternative="greater").pvalue > 0.001
    assert dependent + refused == runs if form == "path" else dependent == 0


def test_the_calibration_refuses_exactly_from_its_threshold() -> None:
    problem, batch = logged("additive", "uniform", 600, 3)
    full = batch.levels["inner"].mu_full
    assert full is not None
    wrong = with_propensities(batch, "inner", full * np.where(np.arange(11) == 4, 1.2, 1.0))
    evidence = 10.0 ** float(audited(problem, wrong).figures["log10_calibration_evidence"])
    assert evidence > 1e4
    assert audited(problem, wrong, alpha=1.99 / evidence).codes() == ("doubtful-propensities",)
    assert audited(problem, wrong, alpha=2.01 / evidence).codes() == ("miscalibrated-propensities",)


def test_decisions_that_hang_together_refute_neither_propensities_nor_carry_over() -> None:
    plant = make_world("additive")
    poles = [plant.legacy(f"constant:value={value},epsilon=0.4") for value in (-2, 2)]
    refused = 0
    for run in range(6):
        audit = audited(plant.problem, plant.episodes(0, 300, Mixture(poles), 90 + run, "path"), alpha=ALPHA)
        refused += audit.verdict == "refused"
        assert "behaviour-reacts" in audit.codes("note") or audit.verdict == "refused"
    assert stats.binomtest(refused, 6, ALPHA, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("world", ["plant", "clinic"])
def test_propensities_that_follow_the_context_are_sequential(world: str) -> None:
    problem, batch = logged(world, "natural", 800, 12)
    for form in ((problem, batch), taken_only(problem, batch)):
        assert "propensities-not-sequential" not in audited(*form).codes()
