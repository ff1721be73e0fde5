"""Estimated propensities with a declared error: what is certified holds within it, at a null wrong in the worst direction too."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.stats import binom
from small_logs import better_policy, make_table, problem_text, source_of
from wrong_propensities import CASES, Wrong, listed, scopes

from aegis.certificate import Candidate, Reach, certify, gain_parts, stated_problem, verify
from aegis.certificate.claims import value_parts
from aegis.evidence import gain_grid, least_weights, sensitivity_factors, value_grid
from aegis.logs import Source
from aegis.ope import CandidateView, Closeness, RewardModels, largest_gain_within_error, reward_measure
from aegis.policies import Function
from aegis.problem import Array, Level, Problem, Propensity, Rows, Scope, parse_problem
from aegis.rng import stream

DELTA = 0.05


def null_problem(wrong_by: str) -> Problem:
    return parse_problem(f"""
episode: run
reward: {{column: r, range: [0, 1]}}
levels:
  - name: valve
    context: [{{column: load, values: [low, high]}}]
    action: {{column: a, values: [1, 2, 3]}}
    propensity: {{policy: uniform, estimated: true{wrong_by}}}
""")


def null_table(units: int, seed: int, bonus: float = 0.0) -> pa.Table:
    """Return a log recorded as uniform whose controller took the first action half of the time, the others a quarter each.

    To take the first action always gains `bonus`: it is as much better under a low load as it is worse under a high one. Its
    recorded propensity is too small by a factor of 1.5, so that its weights look too large: the worst direction.
    """
    rng = stream(seed, "wrong by")
    load, action = rng.integers(0, 2, units), rng.choice(3, units, p=[0.5, 0.25, 0.25])
    good = np.where(action == 0, load == 0, load == 1)
    reward = rng.random(units) < np.where(good, 0.8, 0.2) * (1 - bonus) + bonus * np.where(action == 0, 1.0, 0.0)
    names = np.array(["low", "high"])[load]
    return pa.table({"run": np.arange(units), "load": names, "a": action + 1, "r": reward.astype(float)})


def first(level: Level, rows: Rows) -> Array:
    return np.tile([1.0, 0.0, 0.0], (len(rows["load"]), 1))


def certified_runs(wrong_by: str, full: bool, runs: int, units: int, bonus: float = 0.0) -> int:
    """Return in how many runs a gain is certified, on one long log cut into runs."""
    problem = null_problem(wrong_by)
    batch = Source(null_table(runs * units, 3, bonus), problem).read()
    scope, measure = Scope({"valve"}), reward_measure(problem)
    view = CandidateView(problem, batch, Function(problem, first), RewardModels(guess={"r": 0.5}))
    logs = []
    for part in gain_parts(problem, scope, measure, Reach(full, (Closeness(),)), "auto"):
        grid = gain_grid(part.largest) if part.kind == "gain" else value_grid(0)
        found = part.compute(view, grid.bets, 1.0)
        units_logs = np.log(found) if found.ndim > 1 else np.log1p(np.multiply.outer(found, grid.bets))
        at_null = 0.0 if found.ndim > 1 else np.log1p(grid.bets * part.offset)
        path = (units_logs - at_null).reshape(runs, units, -1).cumsum(axis=1)  # looked at after every unit
        logs.append(np.logaddexp.reduce(path + grid.log_weights, axis=2))
    wealth = np.logaddexp.reduce(np.stack(logs), axis=0) - math.log(len(logs))
    return int((wealth.max(axis=1) >= math.log(1 / DELTA)).sum())


@pytest.mark.parametrize("full", [True, False])
def test_a_null_in_the_worst_direction_is_certified_in_at_most_delta_of_the_runs(full: bool) -> None:
    runs = 200
    assert certified_runs(", wrong_by: 1.5", full, runs, 300) <= binom.isf(1e-3, runs, DELTA)
    assert certified_runs(", wrong_by: 1.0", full, runs, 300) > 0.7 * runs  # the error is one that matters
    assert certified_runs(", wrong_by: 1.5", full, 50, 300, bonus=0.6) > 25  # and the bound is not vacuous


def test_through_the_whole_pipeline() -> None:
    verdicts: dict[str, list[str]] = {"": [], ", wrong_by: 1": [], ", wrong_by: 1.5": []}
    for wrong_by, found in verdicts.items():
        problem = null_problem(wrong_by)
        for seed in range(4):
            log = Source(null_table(150, 10 + seed), problem)
            certificate = certify(log, Candidate(Function(problem, first), "first"), ledger=False)
            found.append(certificate.verdict.verdict)
            codes = {item["code"]: item["severity"] for item in certificate.findings}
            assert codes["estimated-propensities"] == ("warning" if wrong_by else "refused")
            assert codes.get("miscalibrated-propensities", "warning") == "warning" or not wrong_by
    assert verdicts[""] == ["refused"] * 4
    assert "certified" in verdicts[", wrong_by: 1"]
    assert "certified" not in verdicts[", wrong_by: 1.5"]


# ---- what a certificate says ----------------------------------------------------------------------------------------


def dose_problem(full: bool, propensity: str) -> Problem:
    given = "{columns: [p_1, p_2, p_3]}" if full else "{column: p_dose}"
    return parse_problem(problem_text(full).replace(given, given.replace("}", propensity + "}")))


@pytest.mark.parametrize("full", [True, False])
def test_a_certificate_names_the_factor_and_is_found_again(full: bool) -> None:
    problem = dose_problem(full, ", estimated: true, wrong_by: 1.1")
    source, candidate = source_of(make_table(200), problem), Candidate(better_policy(problem), "mine")
    certificate = certify(source, candidate, ledger=False)
    dose, recipe, both = certificate.level("dose"), certificate.level("recipe"), certificate.level("recipe", "dose")
    assert dose.verdict == "certified" and dose.sensitivity.gamma is not None and dose.sensitivity.gamma >= 1.1
    assert dose.method == ("plain, lowered + water-filled, lowered" if full else "plain, lowered")
    assert both.method == "plain, lowered" and "lowered" not in recipe.method
    assert 1.05 not in dose.sensitivity.tried and 1.05 in recipe.sensitivity.tried
    assert "Propensities may be wrong by a factor of up to 1.1 at 'dose', as declared." in certificate.verdict.sentence
    (said,) = [item for item in certificate.assumptions if item.code == "propensities-wrong-by"]
    assert "level 'dose' may be wrong by a factor of up to 1.1 in either direction" in said.statement
    assert "declared by the user, not checked" in said.checked
    exact = [item.statement for item in certificate.assumptions if item.code == "propensities"]
    assert len(exact) == 1 and "'recipe'" in exact[0] and "'dose'" not in exact[0]
    content = certificate.to_json()
    assert stated_problem(content).wrong_by() == {"dose": 1.1}
    assert verify(content, source, [candidate]).holds


def test_larger_factors_certify_less_and_what_is_not_declared_is_not_touched() -> None:
    table, found = make_table(200), []
    for wrong_by in (1.0, 1.1, 1.2, 1.5):
        problem = dose_problem(True, f", estimated: true, wrong_by: {wrong_by}")
        found.append(certify(source_of(table, problem), Candidate(better_policy(problem), "mine"), ledger=False))
    gains = [certificate.level("dose").gain_lower for certificate in found]
    values = [certificate.level("dose").value_lower for certificate in found]
    assert gains == sorted(gains, reverse=True) and values == sorted(values, reverse=True)  # type: ignore[type-var]
    assert found[-1].level("dose").verdict == "not yet"
    plain = parse_problem(problem_text(True))
    logged = certify(source_of(table, plain), Candidate(better_policy(plain), "mine"), ledger=False)
    assert all(item.level("recipe") == logged.level("recipe") for item in found)
    assert all(item.level("dose").estimate == logged.level("dose").estimate for item in found)


# ---- expectations over all episodes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES)
def test_every_part_promises_at_most_the_truth(case: str) -> None:
    believed = []
    for seed in (1, 2):
        truth, chance, view = listed(case, seed)
        problem = doubted_problem(view.problem, truth)
        view = replace(view, problem=problem)
        measure, legacy = reward_measure(problem), truth.value_of(Scope())
        for scope in scopes(truth):
            value = truth.value_of(scope)
            for part in gain_parts(problem, scope, measure, Reach(True, (Closeness(),) * len(scope)), "auto"):
                bets = gain_grid(1.0).bets[::4]
                found = chance @ part.compute(view, bets, 1.0)
                target = 1.0 + bets * (value - legacy) if part.kind == "gain" else value - legacy + part.offset
                assert np.all(found <= target + 1e-10), part.name
            for part in value_parts(problem, scope, measure, Reach(True, (Closeness(),) * len(scope)), "auto"):
                assert chance @ part.compute(view, np.zeros(0), 1.0) <= value + 1e-12
            for part in value_parts(truth.logged().problem, scope, measure, Reach(False, ()), "plain"):
                believed.append(chance @ part.compute(view, np.zeros(0), 1.0) - value)
    assert max(believed) > 1e-3  # who takes the log at its word may be told too much


def doubted_problem(problem: Problem, truth: Wrong) -> Problem:
    """Return the problem with the error of its log declared at every level."""

    def declared(given: Propensity | None) -> Propensity | None:
        return None if given is None else replace(given, estimated=True, wrong_by=truth.gamma)

    return replace(problem, levels=tuple(replace(level, propensity=declared(level.propensity)) for level in problem.levels))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), cap=st.floats(1.0, 6.0), factor=st.floats(1.0, 4.0), actions=st.integers(2, 5))
@example(seed=0, cap=1.0, factor=1.0000000000000002, actions=2)
def test_whoever_keeps_the_cap_can_afford_every_bet(seed: int, cap: float, factor: float, actions: int) -> None:
    rng = np.random.default_rng(seed)
    nu = rng.dirichlet(np.full(actions, 0.5), 40).clip(1e-6)
    nu /= nu.sum(axis=1, keepdims=True)
    room, order = cap * nu, rng.permuted(np.tile(np.arange(actions), (40, 1)), axis=1)
    filled = np.take_along_axis(room, order, axis=1)
    before = np.cumsum(filled, axis=1) - filled
    pi = np.zeros_like(nu)
    np.put_along_axis(pi, order, np.clip(1.0 - before, 0.0, filled), axis=1)  # as much as allowed of what comes first
    largest = largest_gain_within_error(cap, {"any": factor})
    if not largest > 0:
        return
    bets, least = gain_grid(largest).bets, least_weights(pi, nu, factor)
    action = rng.integers(0, actions, 40)
    found = sensitivity_factors(least, nu, np.full(nu.shape, 0.5), action, rng.random(40), bets, factor)
    assert np.isfinite(found).all() and 1.0 - 1.0 / (cap * factor) <= largest + 1e-12


def test_smaller_grids_could_not_be_afforded() -> None:
    nu, pi = np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])  # a cap of 2, kept
    zero = np.zeros(1, dtype=np.int64)
    for largest, dead in ((largest_gain_within_error(2.0, {"any": 1.5}), False), (1 - 1 / 2.0, True)):
        bets = gain_grid(largest).bets
        found = sensitivity_factors(least_weights(pi, nu, 1.5), nu, np.full((1, 2), 0.5), zero, np.ones(1), bets, 1.5)
        assert np.isnan(found).any() == dead
