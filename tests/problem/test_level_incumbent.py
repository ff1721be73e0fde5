"""Incumbents in problem files: their forms, what each promises, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from aegis.errors import ProblemError
from aegis.problem import Incumbent, Problem, dump_problem, load_problem, parse_problem, save_problem

TEXT = """
episode: visit
reward: {{column: score, range: [0, 1]}}
levels:
  - name: drug
    context: [age]
    action: {{column: drug, values: [none, a, b]}}
    propensity: {propensity}
    {more}
"""
COLUMN = "{column: p}"


def problem_of(incumbent: str = "", propensity: str = COLUMN, more: str = "") -> Problem:
    return parse_problem(TEXT.format(propensity=propensity, more=(f"incumbent: {incumbent}" if incumbent else "") + more))


@pytest.mark.parametrize(
    "given",
    [
        "{base: meant}",
        "{base: meant, epsilon: 0.1}",
        "{action: none}",
        "{action: a, max_ratio: 3}",
        "{policy: logged}",
        "{policy: uniform, max_product: 8}",
        "{policy: {kind: shares, shares: [[0.5, 0.25, 0.25]], variable: null}, epsilon: 0.2}",
        "{columns: [m_none, m_a, m_b]}",
    ],
)
def test_every_form_is_written_and_read_again(given: str, tmp_path: Path) -> None:
    problem = problem_of(given)
    save_problem(problem, tmp_path / "problem.yaml")
    again = load_problem(tmp_path / "problem.yaml")
    assert again.levels[0].incumbent is not None and again.levels[0].incumbent == problem.levels[0].incumbent
    assert dump_problem(again) == dump_problem(problem)
    assert hash(again.levels[0].incumbent) == hash(problem.levels[0].incumbent)


def test_an_old_file_has_none_and_a_base_with_exploration_is_known() -> None:
    old = problem_of().levels[0]
    assert (
        old.incumbent is None
        and old.comparator is None
        and old.ratio_bound == 1.0
        and "incumbent" not in str(dump_problem(problem_of()))
    )
    known = problem_of(propensity="{base: meant, epsilon: 0.3}").levels[0]
    assert known.incumbent is None and known.comparator == Incumbent(base="meant")
    assert known.ratio_bound == pytest.approx(1 / (0.7 + 0.1)) and known.exploration == 0.3


@pytest.mark.parametrize(
    ("given", "bound"),
    [
        ("{base: meant}", None),
        ("{base: meant, epsilon: 0.2}", 1.25),
        ("{action: a, max_ratio: 4}", 4.0),
        ("{policy: logged}", 1.0),
    ],
)
def test_the_ratio_is_bounded_by_what_is_declared(given: str, bound: float | None) -> None:
    assert problem_of(given).levels[0].ratio_bound == (None if bound is None else pytest.approx(bound))


def test_a_promised_least_propensity_bounds_the_ratio_too() -> None:
    assert problem_of("{action: a}", "{column: p, least: 0.05}").levels[0].ratio_bound == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{}", "exactly one of 'base'"),
        ("{base: meant, action: a}", "exactly one of 'base'"),
        ("{action: c}", "'c' is not one of none, a, b"),
        ("{policy: best}", "'logged', 'uniform' or a rule"),
        ("{policy: {variable: age}}", "needs a 'kind'"),
        ("{columns: [m_none, m_a]}", "expected 3, found 2"),
        ("{columns: [m, m, n]}", "listed twice"),
        ("{base: meant, epsilon: 1}", "from 0 and below 1"),
        ("{base: meant, epsilon: 0.1, max_ratio: 2}", "promise the same thing"),
        ("{base: meant, max_ratio: 0.5}", "a finite number from 1"),
        ("{policy: logged, epsilon: 0.1}", "has a ratio of 1"),
        ("{bse: meant}", "base"),
        ("{base: age}", None),  # a controller may look at what it means to do
        ("{base: score}", "both the incumbent's action of level 'drug' and the reward"),
        ("{columns: [score, m_a, m_b]}", "both a probability of the incumbent"),
    ],
)
def test_what_does_not_fit_is_named(given: str, message: str | None) -> None:
    if message is None:
        problem_of(given)
        return
    with pytest.raises(ProblemError, match=message):
        problem_of(given)


def test_masks_and_intervals() -> None:
    with pytest.raises(ProblemError, match="cannot always take 'a'"):
        problem_of("{action: a}", more="\n    available: [can_none, can_a, can_b]")
    interval = TEXT.replace("values: [none, a, b]", "interval: [0, 5], bandwidth: 0.5")
    with pytest.raises(ProblemError, match="state it as 'policy'"):
        parse_problem(interval.format(propensity="{column: p, density: true}", more="incumbent: {action: 1}"))
    parse_problem(interval.format(propensity="{column: p, density: true}", more="incumbent: {policy: uniform}"))
