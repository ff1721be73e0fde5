"""The family of requests on some data: who shares the risk, who gets what is left, and who is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.certificate import COMPARE, Ledger, RiskShare
from aegis.certificate.ledger import CERTIFY, REGISTER, LookRecord, request_key
from aegis.certificate.risk import BarredRequest, risk_share_of

WHY = "minutes of 3 May"


def declared(name: str, delta: float = 0.05, digest: str | None = "") -> dict[str, Any]:
    return {"candidates": [{"name": name, "digest": name if digest == "" else digest}], "delta": delta}


@dataclass
class Book:
    """Plays commands on data that are sets of files, with a ledger each in one folder."""

    folder: Path
    number: int = 0

    def ledger(self, data: Sequence[str]) -> Ledger:
        name = "".join(sorted(data)).encode().hex()
        return Ledger.of(name.ljust(64, "0"), self.folder, [{"name": part, "digest": part} for part in data])

    def play(
        self,
        kind: str,
        request: dict[str, Any],
        data: Sequence[str] = "1",
        why: str = "",
        verdict: str | None = "not yet",
    ) -> RiskShare | BarredRequest | None:
        """Return the share that a command got, as `certify`, `register` and `compare` do."""
        self.number += 1
        when, book = f"day {self.number:05d}", self.ledger(data)
        found: list[RiskShare | BarredRequest] = []

        def choose(earlier: Sequence[LookRecord]) -> LookRecord | None:
            if kind == CERTIFY:
                found.append(risk_share_of(request, earlier, why))
                if isinstance(found[0], BarredRequest):
                    return None
                share = found[0]
                stored = {"risk": share.risk, **share.plain()}
                return LookRecord(request_key(request), when, request, share=stored, fixed_before=share.fixed_before)
            return LookRecord(request_key(request), when, request, kind=kind, fixed_before=why)

        book.add(choose)
        if kind != REGISTER and verdict is not None and not (found and isinstance(found[0], BarredRequest)):
            book.close(request, when, verdict)
        return found[0] if found else None

    def risk(self, *arguments: Any, **more: Any) -> float:
        share = self.play(CERTIFY, *arguments, **more)
        assert isinstance(share, RiskShare), share
        return share.risk

    def code(self, *arguments: Any, **more: Any) -> str:
        share = self.play(CERTIFY, *arguments, **more)
        assert isinstance(share, BarredRequest), share
        return share.code


@pytest.fixture
def book(tmp_path: Path) -> Book:
    return Book(tmp_path)


def test_the_first_request_has_all_of_the_risk_and_another_one_is_chosen_after_it(book: Book) -> None:
    assert book.risk(declared("a")) == 0.05
    found = book.play(CERTIFY, declared("b"))
    assert isinstance(found, BarredRequest) and found.code == "chosen-after-results"
    assert found.reason.startswith("not a certificate: chosen after results on these data")
    assert "the first result on them was a certificate for a, day 00001" in found.reason
    assert book.code(declared("b", 0.5)) == "chosen-after-results"  # no risk repairs it
    assert book.risk(declared("b"), data="2") == 0.05


@pytest.mark.parametrize("order", ["ab", "ba"])
def test_registered_requests_share_the_risk_equally_and_the_first_one_to_give_a_result_is_one_of_them(
    book: Book, order: str
) -> None:
    for name in "ab":
        book.play(REGISTER, declared(name))
    share = book.play(CERTIFY, declared("c"))
    assert isinstance(share, RiskShare) and share.risk == pytest.approx(0.05 / 3) and share.requests == 3
    assert share.total == pytest.approx(0.05) and share.asked == 0.05 and not share.looks
    assert share.words == "all statements of the 3 requests registered on these data"
    for name in order:
        assert book.risk(declared(name)) == pytest.approx(0.05 / 3)
    assert book.code(declared("d")) == "chosen-after-results"


def test_the_smallest_risk_asked_for_is_shared(book: Book) -> None:
    book.play(REGISTER, declared("a", 0.1))
    book.play(REGISTER, declared("b", 0.02))
    assert book.risk(declared("a", 0.1)) == 0.01
    assert book.risk(declared("b", 0.1)) == 0.01  # more would break what was said of a
    assert book.risk(declared("b", 0.02)) == pytest.approx(0.01)


def test_a_request_that_is_alone_may_ask_for_more_than_when_it_was_registered(book: Book) -> None:
    book.play(REGISTER, declared("a", 0.02))
    assert book.risk(declared("a", 0.05)) == 0.05


def test_a_risk_below_what_was_spent_is_refused(book: Book) -> None:
    for name in "ab":
        book.play(REGISTER, declared(name))
    assert book.risk(declared("a")) == 0.025
    assert book.code(declared("b", 0.02)) == "risk-spent"
    assert book.risk(declared("b")) == pytest.approx(0.025)


def test_a_registration_after_the_first_result_does_not_make_a_member(book: Book) -> None:
    book.risk(declared("a"))
    book.play(REGISTER, declared("b"))
    assert book.code(declared("b")) == "chosen-after-results"


def test_the_same_request_is_the_same_look_whatever_came_between(book: Book) -> None:
    assert book.risk(declared("a")) == 0.05
    assert book.risk(declared("x", 0.12), why=WHY) == pytest.approx(0.07)
    assert book.risk(declared("a")) == 0.05
    assert book.risk(declared("x", 0.12)) == pytest.approx(0.07)  # the declaration was made before
    found = book.play(CERTIFY, declared("x", 0.12))
    assert isinstance(found, RiskShare) and found.fixed_before == WHY


def test_at_another_risk_it_is_another_test_and_its_risk_adds(book: Book) -> None:
    """Bets are placed by the risk, so that the events of two risks need not be nested."""
    assert book.risk(declared("a", 0.05)) == 0.05
    assert book.code(declared("a", 0.02)) == "risk-spent"
    assert book.risk(declared("a", 0.08)) == pytest.approx(0.03)
    assert book.risk(declared("a", 0.05)) == 0.05  # the same look again
    assert book.risk(declared("x", 0.1), why=WHY) == pytest.approx(0.02)


def test_a_declaration_gets_what_is_left_and_is_refused_if_nothing_is(book: Book) -> None:
    book.risk(declared("a"))
    found = book.play(CERTIFY, declared("b"), why=WHY)
    assert isinstance(found, BarredRequest) and found.code == "risk-spent"
    assert (
        "earlier ones spent 0.05" in found.reason and "a --delta above 0.05" in str(found.fix) and "fresh data" in str(found.fix)
    )
    share = book.play(CERTIFY, declared("b", 0.08), why=WHY)
    assert isinstance(share, RiskShare) and share.risk == pytest.approx(0.03) and share.total == pytest.approx(0.08)
    assert share.looks and share.requests == 2 and share.fixed_before == WHY
    assert book.code(declared("c", 0.08), why=WHY) == "risk-spent"


def test_what_is_promised_to_registered_requests_is_not_given_away(book: Book) -> None:
    for name in "ab":
        book.play(REGISTER, declared(name))
    assert book.risk(declared("a")) == 0.025
    assert book.risk(declared("x", 0.06), why=WHY) == pytest.approx(0.01)
    assert book.risk(declared("b")) == pytest.approx(0.015)  # 0.05 is no longer the risk of all statements
    assert book.risk(declared("b", 0.06)) == pytest.approx(0.01)  # at another risk it is another test
    assert book.risk(declared("b")) == pytest.approx(0.015)


def test_a_log_that_grew_is_a_second_look(book: Book) -> None:
    assert book.risk(declared("a")) == 0.05
    found = book.play(CERTIFY, declared("a"), data="12")
    assert isinstance(found, BarredRequest) and found.code == "risk-spent" and "new episodes alone" in str(found.fix)
    assert book.risk(declared("a"), data="2") == 0.05  # the new episodes alone
    share = book.play(CERTIFY, declared("a", 0.2), data="12")
    assert isinstance(share, RiskShare) and share.risk == pytest.approx(0.1) and share.requests == 3 and share.looks
    assert share.words == "all statements of the 3 looks at these data"
    assert book.code(declared("b", 0.9), data="12") == "chosen-after-results"
    assert book.risk(declared("a")) == 0.05  # repeated on the first part


def test_a_request_registered_before_a_log_grew_is_a_member_of_the_larger_one(book: Book) -> None:
    for name in "ab":
        book.play(REGISTER, declared(name))
    assert book.risk(declared("a")) == 0.025
    assert book.risk(declared("b"), data="12") == pytest.approx(0.025)
    assert book.code(declared("b")) == "risk-spent"  # a second look, at a part


def test_a_registration_counts_only_before_the_first_result_on_any_part(book: Book) -> None:
    book.risk(declared("a"), data="1")
    book.play(REGISTER, declared("b"), data="2")
    assert book.code(declared("b"), data="12") == "chosen-after-results"
    assert book.risk(declared("b"), data="2") == 0.05


def test_a_comparison_is_a_result_and_spends_nothing(book: Book) -> None:
    book.play(REGISTER, declared("a"))
    book.play(COMPARE, declared("b"))
    book.play(COMPARE, declared("c"))
    assert book.code(declared("c")) == "chosen-after-results"
    assert book.risk(declared("a")) == 0.05
    assert book.risk(declared("b", 0.1)) == pytest.approx(0.025)  # it came before any result: half of the 0.05 of a, on top


def test_a_refusal_is_no_result_and_an_interrupted_run_is_one(book: Book) -> None:
    assert book.risk(declared("a"), verdict="refused") == 0.05
    assert book.risk(declared("b"), verdict=None) == 0.05
    assert book.code(declared("a")) == "chosen-after-results"
    assert book.risk(declared("b")) == 0.05


def test_a_candidate_without_a_digest_is_never_known_again(book: Book) -> None:
    code = declared("f", digest=None)
    assert book.risk(code) == 0.05
    assert book.code(code) == "chosen-after-results"
    assert book.risk(declared("f", 0.08, None), why=WHY) == pytest.approx(0.03)
    assert book.risk(declared("f", 0.1, None), why=WHY) == pytest.approx(0.02)  # and adds up


def test_looks_of_an_earlier_version_are_results_at_the_risk_they_asked_for(book: Book) -> None:
    looks = [LookRecord(request_key(declared(name)), "monday", declared(name), "not yet") for name in "ab"]
    assert isinstance(risk_share_of(declared("a"), looks), RiskShare)
    found = risk_share_of(declared("b"), looks)  # seen after a, with a warning at that time
    assert isinstance(found, BarredRequest) and found.code == "chosen-after-results"
    share = risk_share_of(declared("c", 0.12), looks, WHY)
    assert isinstance(share, RiskShare) and share.risk == pytest.approx(0.02)


def test_what_cannot_be_read_is_a_result_by_another_request(book: Book) -> None:
    registered = LookRecord(request_key(declared("a")), "monday", declared("a"), kind=REGISTER, at=1)
    place = replace(LookRecord("x.json, line 3", "monday", {}, "cannot be read"), damaged="x.json, line 3")
    found = risk_share_of(declared("a"), [registered, place])
    assert isinstance(found, BarredRequest) and "cannot be read at x.json, line 3" in found.reason
    share = risk_share_of(declared("a", 0.12), [registered, place], WHY)
    assert isinstance(share, RiskShare) and share.risk == pytest.approx(0.07)
    assert isinstance(risk_share_of(declared("a"), [registered, replace(place, part=True, elsewhere=True)]), RiskShare)


def test_of_three_that_ask_at_once_only_one_is_the_first(tmp_path: Path) -> None:
    for day in range(10):
        books = [Book(tmp_path / str(day)) for _ in "abc"]
        with ThreadPoolExecutor(3) as pool:
            found = list(pool.map(lambda book, name: book.play(CERTIFY, declared(name)), books, "abc"))
        assert sorted(type(share).__name__ for share in found) == ["BarredRequest", "BarredRequest", "RiskShare"]


COMMANDS = st.tuples(
    st.sampled_from([CERTIFY, CERTIFY, CERTIFY, REGISTER, COMPARE]),
    st.sampled_from("abc"),
    st.sampled_from([0.01, 0.02, 0.05, 0.06, 0.1, 0.2]),
    st.sampled_from(["1", "1", "2", "12"]),
    st.sampled_from(["", "", WHY]),
    st.sampled_from(["not yet", "certified", "refused", None]),
)


@given(st.lists(COMMANDS, min_size=1, max_size=14))
@settings(max_examples=150, deadline=None)
def test_the_risks_of_all_statements_never_exceed_what_was_asked_for(commands: list[tuple[Any, ...]]) -> None:
    """At every statement: its risk and those of all earlier ones on data that overlap add up to at most the risk it asked for.

    A repetition of an earlier look at the same risk is no further statement. An earlier look at the same request and data at
    another risk is replaced.
    """
    with tempfile.TemporaryDirectory() as folder:
        book, stated = Book(Path(folder)), dict[tuple[str, str], list[tuple[float, float]]]()
        for kind, name, delta, data, why, verdict in commands:
            share = book.play(kind, declared(name, delta), data, why if kind == CERTIFY else "", verdict)
            if not isinstance(share, RiskShare) or verdict == "refused":
                continue
            own = stated.setdefault((name, data), [])
            if (delta, share.risk) not in own:
                near = [place for place in stated if place != (name, data) and set(place[1]) & set(data)]
                others = [max((risk for _, risk in stated[place]), default=0.0) for place in near]
                assert share.risk > 0 and sum(others) + share.risk <= delta * (1 + 1e-6)
                assert share.total <= delta * (1 + 1e-6) and share.total >= share.risk * (1 - 1e-9)
            own.append((delta, share.risk))
