"""A level without propensities: the refusal says so, and which scopes are left; they can be certified."""

from __future__ import annotations

from small_logs import better_policy, make_table, problem_text, source_of

from aegis.certificate import CERTIFIED, REFUSED, certify
from aegis.problem import parse_problem

DOSE = "    propensity: {columns: [p_1, p_2, p_3]}\n"
RECIPE = "    propensity: {columns: [p_a, p_b]}\n"


def without(*lines: str) -> str:
    text = problem_text()
    for line in lines:
        assert line in text
        text = text.replace(line, "")
    return text


def test_the_refusal_names_the_level_and_what_is_left() -> None:
    problem = parse_problem(without(DOSE))
    found = certify(source_of(make_table(200), problem), better_policy(problem), ledger=False)
    assert found.verdict.verdict == REFUSED
    assert found.verdict.sentence.startswith("Refused: there is no propensity of 'dose': how likely was each action")
    assert "a scope of 'recipe' alone (--scope)" in found.verdict.sentence
    assert "nan" not in found.verdict.sentence and all(level.verdict == REFUSED for level in found.levels)
    assert "no-propensity" in [finding["code"] for finding in found.findings]


def test_what_is_left_can_be_certified() -> None:
    problem = parse_problem(without(DOSE))
    found = certify(source_of(make_table(600), problem), better_policy(problem), scopes=[["recipe"]], ledger=False)
    assert found.verdict.verdict == CERTIFIED


def test_nothing_is_left_where_no_level_has_any() -> None:
    problem = parse_problem(without(DOSE, RECIPE))
    found = certify(source_of(make_table(50), problem), better_policy(problem), ledger=False)
    assert found.verdict.sentence == (
        "Refused: there is no propensity of 'recipe' and 'dose': how likely was each action that was taken? Nothing can be "
        "certified without"
    )
