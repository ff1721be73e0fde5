"""The largest weight: promises of the problem file and caps of the candidate, never what was seen."""

from __future__ import annotations

import math

import pytest
from comparison_cases import Tiny, TinyPolicy

from aegis.certificate import Candidate
from aegis.comparison import ComparisonSettings
from aegis.comparison.bounds import WeightLimit, declared_weight_limit
from aegis.errors import SettingError
from aegis.mechanisms import LevelRewards
from aegis.policies import Capped, Hybrid, Legacy, Uniform
from aegis.problem import Problem, Scope, parse_problem


def problem_of(outer: str, inner: str, more: str = "", reward: str = "") -> Problem:
    return parse_problem(
        f"""
episode: id
{more}
reward: {{column: r, range: [0, 1]{reward}}}
levels:
  - name: slow
    context: [x]
    action: {{column: a, values: [1, 2, 3, 4]}}
    propensity: {outer}
  - name: fast
    decision: n
    context: [y]
    action: {{column: b, values: [1, 2]}}
    propensity: {inner}
"""
    )


UNIFORM, COLUMN, BASE, LEAST = "{policy: uniform}", "{column: p}", "{base: meant, epsilon: 0.2}", "{column: q, least: 0.1}"


def uniform(problem: Problem) -> Legacy:
    return Legacy(problem, {name: Uniform() for name in problem.names})


def capped(problem: Problem, limit: float, levels: tuple[str, ...]) -> Capped:
    return Capped(problem, LevelRewards.prior(problem), uniform(problem), limit, levels)


@pytest.mark.parametrize(
    ("outer", "inner", "scope", "expected"),
    [
        (UNIFORM, COLUMN, ("slow",), 4.0),
        (UNIFORM, LEAST, ("slow", "fast"), 40.0),
        (UNIFORM, LEAST, ("fast",), 10.0),
        (BASE, COLUMN, ("slow",), 20.0),
        ("{shares: [0.5, 0.2, 0.2, 0.1]}", COLUMN, ("slow",), 10.0),
        (BASE, COLUMN, ("slow", "fast"), math.inf),
        (COLUMN, LEAST, ("slow",), math.inf),
    ],
)
def test_promised_propensities_multiply(outer, inner, scope, expected):
    problem = problem_of(outer, inner)
    limit = declared_weight_limit(problem, Candidate(uniform(problem)), Scope(scope))
    assert limit.weight == pytest.approx(expected)
    assert limit.known == math.isfinite(expected)
    assert all(f"'{name}'" in limit.words for name in scope if math.isfinite(expected))


def test_a_cap_counts_where_it_is_smaller():
    problem = problem_of(UNIFORM, COLUMN)
    both = declared_weight_limit(problem, Candidate(capped(problem, 2.0, ("slow", "fast"))), Scope(problem.names))
    assert both.weight == 4.0 and "capped at 2" in both.words
    wide = declared_weight_limit(problem, Candidate(capped(problem, 9.0, ("slow",))), Scope("slow"))
    assert wide.weight == 4.0 and "uniform" in wide.words
    hybrid = Hybrid(problem, ("fast",), capped(problem, 3.0, ("fast",)), uniform(problem))
    assert declared_weight_limit(problem, Candidate(hybrid), Scope("fast")).weight == 3.0


@pytest.mark.parametrize(("more", "reward"), [("carry_over: within", ""), ("", ", per: episode"), ("", ", per: slow")])
def test_products_without_an_end_have_no_limit(more, reward):
    problem = problem_of(UNIFORM, UNIFORM, more, reward)
    candidate = Candidate(uniform(problem))
    assert not declared_weight_limit(problem, candidate, Scope("fast")).known
    assert declared_weight_limit(problem, candidate, Scope("fast"), 7.0).weight == 7.0
    assert declared_weight_limit(problem, candidate, Scope("slow")).known == (reward == ", per: slow")


def test_a_declaration_below_the_caps_of_the_candidate_is_broken():
    problem = problem_of(UNIFORM, COLUMN)
    both = Candidate(capped(problem, 2.0, ("slow", "fast")))
    low, just, high = (declared_weight_limit(problem, both, Scope(problem.names), asked) for asked in (3.9, 4.0, 9.0))
    assert low.weight == 3.9 and "let its weights reach 4" in low.broken[0]
    assert not just.broken and not high.broken
    wide = Candidate(capped(problem, 9.0, ("slow",)))
    assert not declared_weight_limit(problem, wide, Scope("slow"), 4.0).broken  # four uniform actions: no weight is above 4
    assert declared_weight_limit(problem, wide, Scope("slow"), 3.0).broken
    assert not declared_weight_limit(
        problem, Candidate(uniform(problem)), Scope("slow"), 1.5
    ).broken  # no caps, nothing to contradict


def test_a_limit_is_held_against_what_was_observed():
    limit = WeightLimit(2.0, "declared by the user")
    assert limit.against(2.0 + 1e-12) == limit  # weights are quotients
    broken = limit.against(2.5)
    assert broken.weight == 2.0 and broken.broken == ("a weight of 2.5 was observed, above the largest that was declared, 2",)
    assert len(broken.against(3.0).broken) == 2


def test_policies_without_a_cap_have_none():
    tiny = Tiny(1)
    assert not declared_weight_limit(tiny.problem, Candidate(TinyPolicy(tiny)), Scope("fast")).known


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"clip": -1.0}, "'clip' is a weight from 0"),
        ({"switch": math.nan}, "'switch' is a weight from 0"),
        ({"largest_weight": 0.5}, "finite number from 1"),
        ({"largest_weight": math.inf}, "finite number from 1"),
        ({"particles": 0}, "once or more"),
    ],
)
def test_settings_that_make_no_sense(wrong, words):
    with pytest.raises(SettingError, match=words):
        ComparisonSettings(**wrong)
    ComparisonSettings(clip=math.inf, switch=math.inf)
