"""Statements of the paper under several readings."""

from __future__ import annotations

import pytest

from aegis.paper import list_benches, load_bench
from aegis.paper.bench_claims import FAILS, HOLDS, UNTESTED, JudgedClaim
from aegis.paper.paper_statements import PARTLY, judge_statements


def claim(verdict: str, reading: str = "", statement: str = "a gains over b", of: str = "paper") -> JudgedClaim:
    return JudgedClaim(says="so", verdict=verdict, why="", paper="", of=of, statement=statement, reading=reading)


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        (HOLDS, HOLDS, HOLDS),
        (HOLDS, FAILS, PARTLY),
        (FAILS, FAILS, FAILS),
        (HOLDS, UNTESTED, HOLDS),
        (FAILS, UNTESTED, FAILS),
        (UNTESTED, UNTESTED, UNTESTED),
    ],
)
def test_a_statement_is_judged_over_all_readings_that_can_be_tested(first: str, second: str, verdict: str) -> None:
    for claims in ([claim(first, "raw"), claim(second, "standardised")], [claim(second, "raw"), claim(first, "standardised")]):
        (statement,) = judge_statements(claims).values()
        assert statement.verdict == verdict


@pytest.mark.parametrize(
    ("verdicts", "verdict"),
    [([HOLDS, HOLDS], HOLDS), ([HOLDS, FAILS], FAILS), ([UNTESTED, FAILS], FAILS), ([HOLDS, UNTESTED], UNTESTED)],
)
def test_a_reading_holds_if_all_of_its_claims_do(verdicts: list[str], verdict: str) -> None:
    (statement,) = judge_statements([claim(own, "raw") for own in verdicts]).values()
    assert statement.readings == {"raw": verdict} and statement.verdict == verdict
    assert statement.holds_under() == (["raw"] if verdict == HOLDS else [])


def test_statements_are_told_apart_by_their_words_and_ours_do_not_count() -> None:
    statements = judge_statements([claim(HOLDS), claim(FAILS, statement="b gains over c"), claim(FAILS, of="ours")])
    assert {words: own.verdict for words, own in statements.items()} == {"a gains over b": HOLDS, "b gains over c": FAILS}


def test_every_reading_has_a_name_where_a_statement_has_several() -> None:
    claims = [own for name in list_benches() for own in load_bench(name).claims if own.whose == "paper"]
    by_words: dict[str, set[str]] = {}
    for own in claims:
        by_words.setdefault(own.statement or own.says, set()).add(own.reading)
    wrong = [words for words, readings in by_words.items() if len(readings) > 1 and "" in readings]
    assert not wrong, f"statements with a reading that has no name: {wrong}"


def test_only_claims_of_the_paper_have_statements_and_readings() -> None:
    for name in list_benches():
        for own in load_bench(name).claims:
            assert own.whose == "paper" or not (own.statement or own.reading), f"{name}: {own.says}"
