"""Propensities that are wrong are refused with the slice; tests keep their level on logs in order."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from audit_cases import (
    INNER,
    audited,
    logged,
    refused_codes,
    taken_only,
    with_propensities,
    with_taken,
)
from hostile_logs import always_high, one_level, rows_of
from scipy import stats

from aegis.audit import Audit, audit_log
from aegis.audit.checks.propensities import DOUBT
from aegis.certificate import Certificate, certify
from aegis.logs import Source
from aegis.policies import Mixture
from aegis.problem import parse_problem
from aegis.rng import stream
from aegis.worlds import WORLDS, make_world

PROBLEM = """
episode: case
reward: {{column: gain, range: [0, 1]}}
levels:
  - name: arm
    action: {{column: arm, values: [old, new]}}
    propensity: {{shares: [{}]}}
"""


def audited_shares(shares: str) -> list[tuple[str, str]]:
    rng = np.random.default_rng(3)
    arm = np.where(rng.random(400) < 0.8, "old", "new")
    table = pa.table({"case": np.arange(400), "arm": arm, "gain": rng.random(400)})
    found = audit_log(Source(table, parse_problem(PROBLEM.format(shares))))
    return [(item.code, item.fix) for item in found.findings if item.severity == "refused"]


def test_swapped_shares_are_refused_with_their_order() -> None:
    assert audited_shares("0.8, 0.2") == []
    ((code, fix),) = audited_shares("0.2, 0.8")
    assert code == "miscalibrated-propensities"
    assert "order of the action's values (declared: old 0.2, new 0.8)" in fix and "coin" in fix


ALPHA = 0.05


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


@pytest.mark.parametrize("runs", [4, pytest.param(24, marks=pytest.mark.ci)])
@pytest.mark.parametrize("world", WORLDS)
def test_each_test_keeps_its_level(world: str, runs: int) -> None:
    found = dict.fromkeys(TESTS, 0)
    for run in range(runs):
        legacy = "natural" if run % 2 else "uniform"
        problem, batch = logged(world, legacy, 60, 5000 + run)
        for form in ((problem, batch), taken_only(problem, batch)):
            refused = set(audited(*form, alpha=ALPHA).codes("refused"))
            assert refused <= set(TESTS)
            for code in refused:
                found[code] += 1
    # The two forms share their data: counted as one run for the limit.
    for code, number in found.items():
        assert stats.binomtest(min(number, runs), runs, ALPHA, alternative="greater").pvalue > 0.001, code


@pytest.mark.parametrize(("form", "runs"), [("path", 5), ("sequential", 4), pytest.param("path", 12, marks=pytest.mark.ci)])
def test_a_mixture_that_logs_exact_probabilities_is_not_refused(form: str, runs: int) -> None:
    plant = make_world("additive")
    mixture = Mixture([plant.legacy("natural"), plant.legacy("uniform")])
    refused, dependent = 0, 0
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


@pytest.mark.parametrize("runs", [3, pytest.param(6, marks=pytest.mark.ci)])
def test_decisions_that_hang_together_refute_neither_propensities_nor_carry_over(runs: int) -> None:
    plant = make_world("additive")
    poles = [plant.legacy(f"constant:value={value},epsilon=0.4") for value in (-2, 2)]
    refused = 0
    for run in range(runs):
        audit = audited(plant.problem, plant.episodes(0, 300, Mixture(poles), 90 + run, "path"), alpha=ALPHA)
        refused += audit.verdict == "refused"
        assert "behaviour-reacts" in audit.codes("note") or audit.verdict == "refused"
    assert stats.binomtest(refused, runs, ALPHA, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("episodes", [250, pytest.param(800, marks=pytest.mark.ci)])
@pytest.mark.parametrize("world", ["plant", "clinic"])
def test_propensities_that_follow_the_context_are_sequential(world: str, episodes: int) -> None:
    problem, batch = logged(world, "natural", episodes, 12)
    for form in ((problem, batch), taken_only(problem, batch)):
        assert "propensities-not-sequential" not in audited(*form).codes()


LOGS = [("additive", "uniform"), ("clinic", "natural"), ("plant", "natural")]


@pytest.mark.parametrize(("world", "legacy"), LOGS)
def test_propensities_that_are_too_low_are_refused(world: str, legacy: str) -> None:
    problem, batch = taken_only(*logged(world, legacy, 300, 1))
    level = INNER[world]
    shifted = with_taken(batch, level, batch.levels[level].mu_taken / 1.3)
    audit = audited(problem, shifted)
    assert audit.codes("refused") == ("miscalibrated-propensities",)
    found = audit.refused[0]
    assert found.level == level and found.figures["mean_weight"] == pytest.approx(1.3, rel=0.35)
    assert "carry-over" not in audit.codes()  # a consequence, not a finding of its own


def test_propensities_that_are_too_high_are_refused_where_support_is_declared_and_a_warning_elsewhere() -> None:
    problem, batch = taken_only(*logged("additive", "uniform", 400, 1))
    shifted = with_taken(batch, "inner", batch.levels["inner"].mu_taken * 1.3)
    audit = audited(problem, shifted)
    assert audit.verdict == "fit with warnings"
    assert audit.codes() == ("weights-below-one",)
    declared, _ = taken_only(problem, batch, least=0.09)
    assert refused_codes(declared, shifted) == {"miscalibrated-propensities"}
    assert not refused_codes(declared, batch)


@pytest.mark.parametrize(("world", "legacy"), [("clinic", "natural"), ("plant", "natural")])
def test_swapped_propensities_are_refused(world: str, legacy: str) -> None:
    problem, batch = logged(world, legacy, 200, 2)
    level = INNER[world]
    full = batch.levels[level].mu_full
    assert full is not None
    swapped = with_propensities(batch, level, np.maximum(full[:, ::-1], 1e-6))
    assert refused_codes(problem, swapped) == {"miscalibrated-propensities"}
    assert refused_codes(problem, batch) == set()


def test_one_action_that_is_off_by_a_third_is_named() -> None:
    problem, batch = logged("additive", "uniform", 700, 3)
    full = batch.levels["inner"].mu_full
    assert full is not None
    wrong = full.copy()
    wrong[:, 4] *= 1.3
    found = audited(problem, with_propensities(batch, "inner", wrong)).refused
    assert [item.code for item in found] == ["miscalibrated-propensities"]
    assert str(found[0].figures["slice"]).startswith(f"A = {problem.level('inner').actions.values[4]}")


def test_propensities_that_ignore_a_context_are_refused_with_the_slice() -> None:
    problem, batch = logged("clinic", "natural", 800, 4)
    full = batch.levels["dose"].mu_full
    mask = batch.levels["dose"].available
    assert full is not None and mask is not None
    average = np.where(mask, full.mean(axis=0), 0.0)
    found = audited(problem, with_propensities(batch, "dose", average)).refused
    assert [item.code for item in found] == ["miscalibrated-propensities"]
    assert "where" in str(found[0].figures["slice"])


def left_out(run: int, count: int) -> pa.Table:
    """Return a log in which the failures of the second action are missing, so that it looks good."""
    rng = stream(run, "left out")
    action, reward = rng.integers(0, 2, count), (rng.random(count) < 0.5).astype(np.float64)
    kept = np.flatnonzero((reward > 0) | (action == 0))
    return rows_of(action, reward, x=rng.normal(size=count)).take(pa.array(kept))


def certified(table: pa.Table) -> Certificate:
    problem = one_level()
    return certify(Source(table, problem), always_high(problem), what=("gain",), ledger=False)


def test_rows_that_were_left_out_do_not_pass_in_silence() -> None:
    noticed, warned = 0, 0
    for run in range(12):
        found = certified(left_out(run, 300))
        codes = {item["code"] for item in found.findings}
        checked = next(item.checked for item in found.assumptions if item.code == "propensities")
        if "doubtful-propensities" in codes:
            warned += 1
            assert "some evidence against, too little" in checked and found.verdict.verdict != "refused"
            message = next(item["message"] for item in found.findings if item["code"] == "doubtful-propensities")
            assert " to 1, that actions were not taken" in message
        noticed += bool(codes & {"doubtful-propensities", "miscalibrated-propensities"})
    assert noticed >= 10 and warned >= 2


def test_doubt_begins_at_twenty_and_ends_where_a_log_is_refused() -> None:
    for run in range(8):
        table = left_out(run, 260)
        problem = one_level()
        batch = next(iter(Source(table, problem).batches()))
        evidence = 10.0 ** float(audited(problem, batch).figures["log10_calibration_evidence"])
        if evidence < math.exp(DOUBT):
            continue
        refused = audited(problem, batch, alpha=min(2.01 / evidence, 0.99))
        doubtful = audited(problem, batch, alpha=1.99 / evidence)
        assert _about_propensities(refused) == ["refused miscalibrated-propensities"]
        assert _about_propensities(doubtful) == ["warning doubtful-propensities"]


def _about_propensities(audit: Audit) -> list[str]:
    """Return what was found about propensities; at the large alpha of this test others may find something by chance."""
    return [f"{found.severity} {found.code}" for found in audit.findings if found.code.endswith("-propensities")]


@pytest.mark.parametrize("runs", [8, pytest.param(100, marks=pytest.mark.ci)])
def test_logs_in_order_hardly_ever_have_a_warning(runs: int) -> None:
    warned, refused = 0, 0
    for run in range(runs):
        problem, batch = logged(("additive", "clinic")[run % 2], "uniform", 30, 700 + run)
        for form in ((problem, batch), taken_only(problem, batch)):
            codes = audited(*form).codes()
            warned += "doubtful-propensities" in codes
            refused += "miscalibrated-propensities" in codes
    # Two forms of one log, two means of evidence, each at least 20 with a probability of 1/20 at most.
    assert refused == 0 and stats.binomtest(warned, 2 * runs, 0.1, alternative="greater").pvalue > 0.001
