"""A level without propensities: the refusal says so, and which scopes are left; they can be certified."""

from __future__ import annotations

import json

import pytest
from small_logs import better_policy, make_table, problem_text, source_of

from aegis.certificate import CERTIFIED, REFUSED, Candidate, certify, verify
from aegis.problem import parse_problem

DOSE = "    propensity: {columns: [p_1, p_2, p_3]}\n"
RECIPE = "    propensity: {columns: [p_a, p_b]}\n"


def without(*lines: str) -> str:
    text = problem_text()
    for line in lines:
        assert line in text
        text = text.replace(line, "")
    return text


def test_scopes_without_the_level_are_certified_and_the_others_are_named() -> None:
    """The legacy stays in charge at the level without propensities: the numbers are those of the scope asked for by name."""
    problem = parse_problem(without(DOSE))
    source = source_of(make_table(600), problem)
    found = certify(source, better_policy(problem), ledger=False)
    assert found.verdict.verdict == CERTIFIED and found.verdict.scope == ("recipe",)
    assert found.verdict.sentence.endswith("2 of 3 scopes are refused: see the findings.")
    assert {level.scope: level.verdict for level in found.levels} == {
        ("recipe",): CERTIFIED, ("dose",): REFUSED, ("recipe", "dose"): REFUSED
    }  # fmt: skip
    refused = [level for level in found.levels if level.verdict == REFUSED]
    assert all(level.reason == "there is no propensity of 'dose' [no-propensity]" for level in refused)
    assert all(level.gain_lower is level.estimate is level.value_lower is None for level in refused)
    (said,) = [item for item in found.findings if item["code"] == "no-propensity"]
    assert said["severity"] == "warning" and "Not certified: dose and recipe + dose. The other scopes" in said["message"]
    asked = certify(source, better_policy(problem), scopes=[["recipe"]], ledger=False)
    assert asked.levels[0] == found.levels[0]
    assert verify(json.loads(json.dumps(found.to_json())), source, [Candidate.of(better_policy(problem))]).holds


@pytest.mark.parametrize("line", [DOSE, RECIPE])
def test_what_is_certified_does_not_depend_on_the_propensities_of_the_other_level(line: str) -> None:
    """The same log with the propensities declared and certified by name at the same scope gives the same numbers."""
    bare, full = parse_problem(without(line)), parse_problem(problem_text())
    name = "recipe" if line == DOSE else "dose"
    table = make_table(300)
    found = certify(source_of(table, bare), better_policy(bare), ledger=False)
    known = certify(source_of(table, full), better_policy(full), scopes=[[name]], ledger=False)
    (level,) = [item for item in found.levels if item.verdict != REFUSED]
    assert level.scope == (name,) and level.gain_lower == known.levels[0].gain_lower is not None


def test_the_refusal_of_a_scope_that_was_named_says_what_is_left() -> None:
    problem = parse_problem(without(DOSE))
    scopes = [["recipe", "dose"]]
    found = certify(source_of(make_table(200), problem), better_policy(problem), scopes=scopes, ledger=False)
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
