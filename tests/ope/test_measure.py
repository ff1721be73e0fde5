"""A declared range of the mean reward below a decision: the same claims sooner, exact in expectation, void where it is broken."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from small_logs import better_policy, make_table, problem_text, replaced, source_of
from test_doubly_robust import BETS, CASES, Setting

from aegis.certificate import Candidate, Certificate, Reach, certify, gain_parts, stated_problem, verify
from aegis.errors import ProblemError, RefusedError
from aegis.evidence import gain_grid
from aegis.ope import CandidateView, MeanRange, RewardModels, filled_gains, mean_range_of, reward_measure
from aegis.ope.measure import Observed
from aegis.policies import Function
from aegis.problem import Actions, Array, Level, Problem, Reward, Rows, Scope, dump_problem, parse_problem

DELTA = 0.05


def problem_with(recipe: str = "", dose: str = "", reward: str = "[0, 1]") -> Problem:
    text = problem_text(dose=f"mean_range: {dose}" if dose else "").replace("range: [0, 1]", f"range: {reward}", 1)
    return parse_problem(text.replace("  - name: recipe\n", f"  - name: recipe\n    mean_range: {recipe}\n") if recipe else text)


@functools.cache
def certificate(recipe: str = "", dose: str = "", reward: str = "[0, 1]") -> Certificate:
    problem = problem_with(recipe, dose, reward)
    return certify(source_of(make_table(300), problem), Candidate(better_policy(problem), "mine"), ledger=False)


@pytest.mark.parametrize("name", list(CASES))
def test_evidence_is_exact_in_expectation(name: str) -> None:
    """On average a factor is one plus the bet times the gain, in units of single rewards; bets keep something back."""
    setting = Setting.of(*CASES[name])
    view, measure, exact = setting.view, setting.measure, not setting.tiny.holes and not setting.missing
    for scope in setting.singles():
        (level,) = scope
        seen = view.subtree(measure, level)
        within = MeanRange(level, measure, max(0.0, float(seen.low.min()) - 0.01), min(1.0, float(seen.high.max()) + 0.02))
        bets = BETS / within.width
        factors = filled_gains(view, scope, measure, bets, within=within)
        assert factors.min() > 0.0
        average, expected = setting.chance @ factors, 1 + bets * setting.gain(scope)
        assert (average <= expected + 1e-9).all()
        if exact:
            np.testing.assert_allclose(average, expected, atol=1e-9)


def test_where_a_decision_has_one_reward_a_range_of_means_is_one_of_rewards() -> None:
    by_means = certificate(dose="[0.05, 0.95]").level("dose")
    by_rewards = certificate(reward="[0.05, 0.95]").level("dose")
    assert by_means.gain_lower == pytest.approx(by_rewards.gain_lower, abs=2e-4)
    assert by_means.gain_lower != pytest.approx(certificate().level("dose").gain_lower, abs=2e-4)


def test_a_narrow_range_certifies_more() -> None:
    usual, narrow = certificate(), certificate(recipe="[0.1, 0.9]")
    assert narrow.level("recipe").gain_lower > usual.level("recipe").gain_lower + 0.002
    assert narrow.level("dose") == usual.level("dose")
    assert narrow.level("recipe").value_lower == usual.level("recipe").value_lower
    assert narrow.level("recipe", "dose").gain_lower == usual.level("recipe", "dose").gain_lower
    told = [item.statement for item in narrow.assumptions if item.code == "mean-range"]
    assert told == ["The mean of 'margin' below a decision of level 'recipe' lies in [0.1, 0.9] EUR, under every policy."]
    assert not [item for item in usual.assumptions if item.code == "mean-range"]


def test_a_certificate_with_it_is_found_again() -> None:
    problem = problem_with(recipe="[0.1, 0.9]")
    assert dump_problem(problem)["levels"][0]["mean_range"] == [0.1, 0.9]
    assert parse_problem(str(dump_problem(problem))) == problem
    source, candidate = source_of(make_table(300), problem), Candidate(better_policy(problem), "mine")
    content = certificate(recipe="[0.1, 0.9]").to_json()
    assert stated_problem(content) == problem
    assert verify(content, source, [candidate]).holds


def test_a_mean_outside_voids_it_by_name() -> None:
    found = certificate(recipe="[0.1, 0.6]").verdict
    assert found.verdict == "refused" and found.gain_lower is None
    assert re.search(r"row \d+, column 'margin': the mean below this decision of level 'recipe' is 0\.[6-9]", found.sentence)
    assert "outside the declared 'mean_range' [0.1, 0.6]" in found.sentence


def test_single_rewards_outside_are_no_matter() -> None:
    table = make_table(300)
    rewards = table["margin"].to_numpy().copy()
    rewards[0] = 0.0
    problem = problem_with(recipe="[0.1, 0.9]")
    certify(source_of(replaced(table, "margin", rewards), problem), Candidate(better_policy(problem), "mine"), ledger=False)


def test_missing_rewards_take_the_worst_case_within_the_limits() -> None:
    within = MeanRange("recipe", reward_measure(problem_with()), 0.2, 0.7)
    table: Any = None
    found = within.observed(Observed(np.array([0.3, 0.0, 0.45]), np.array([0.3, 1.0, 0.9])), table)
    np.testing.assert_allclose(found.low, [0.2, 0.0, 0.5])
    np.testing.assert_allclose(found.high, [0.2, 1.0, 1.0])


@pytest.mark.parametrize("goal", ["maximise", "minimise"])
def test_rewards_of_any_declared_range_are_mapped_to_0_and_1(goal: str) -> None:
    problem = Problem((Level("l", Actions.of("a", (0.0, 1.0))),), Reward("r", (-4.0, 12.0), goal=goal))
    measure = reward_measure(problem)
    raw = np.array([-4.0, 0.0, 4.0, 12.0])
    wanted = (raw + 4.0) / 16.0
    np.testing.assert_allclose(measure.scaled(raw), wanted if goal == "maximise" else 1.0 - wanted)
    np.testing.assert_allclose([measure.value(share) for share in measure.scaled(raw)], raw)
    assert measure.gain(0.25) == 4.0
    with pytest.raises(RefusedError, match="no range is declared"):
        reward_measure(Problem((Level("l", Actions.of("a", (0.0, 1.0))),), Reward("r")))


def test_small_is_good() -> None:
    problem = parse_problem(
        problem_text(reward=", goal: minimise").replace("name: recipe", "name: recipe\n    mean_range: [0.1, 0.7]")
    )
    within = mean_range_of(problem, Scope({"recipe"}), reward_measure(problem))
    assert within is not None
    assert (within.low, within.high) == (pytest.approx(0.3), pytest.approx(0.9))


@pytest.mark.parametrize("limits", ["[-0.1, 0.5]", "[0.5, 1.5]", "[0.7, 0.2]", "[0.1]", "[.nan, 1]"])
def test_limits_that_cannot_be(limits: str) -> None:
    with pytest.raises(ProblemError, match="mean_range"):
        problem_with(recipe=limits)


def only_a(level: Level, rows: Rows) -> Array:
    count = len(rows["task"])
    return np.tile([1.0, 0.0], (count, 1)) if level.name == "recipe" else np.full((count, 3), 1 / 3)


def test_at_a_null_at_most_delta_of_the_runs_certify() -> None:
    """The recipe does not matter, rewards jump between the ends of their range, and the model is sure of the wrong thing."""
    runs, units = 150, 150
    problem = problem_with(recipe="[0.0, 0.75]")
    batch = source_of(make_table(runs * units, seed=5, steps=4), problem).read()
    rng = np.random.default_rng(1)
    jumps = rng.random(len(batch.levels["recipe"])) < 0.5
    rewards = np.where(jumps[:, None], [1.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0]).ravel()
    for lean in (0.0, 1.0):
        view = CandidateView(
            problem, replace(batch, reward=rewards), Function(problem, only_a), RewardModels(guess={"margin": lean})
        )
        measure, scope = reward_measure(problem), Scope({"recipe"})
        (part,) = gain_parts(problem, scope, measure, Reach.capped(math.inf), "auto")
        assert part.largest == 0.75
        grid = gain_grid(part.largest)
        path = np.log(part.compute(view, grid.bets, 1.0)).reshape(runs, units, -1).cumsum(axis=1)
        wealth = np.logaddexp.reduce(path + grid.log_weights, axis=2)
        certified = int((wealth.max(axis=1) >= math.log(1 / DELTA)).sum())
        assert certified <= binom.isf(1e-3, runs, DELTA)
