"""Verify: a certificate is found again bit for bit, and whatever was changed since is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from small_logs import better_policy, make_table, problem_of, replaced, worse_policy

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, Certificate, Verification, certify, load_certificate, stated_problem, verify
from aegis.files import json_digest
from aegis.logs import Source, Split
from aegis.problem import Problem

GUARD = "guards: [{column: scrap, range: [0, 1], max_worsening: 0.05}]"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log, and the certificate of a candidate on it."""
    folder = tmp_path_factory.mktemp("verify")
    pq.write_table(make_table(90), folder / "log.parquet")
    problem = problem_of(head=GUARD)
    issued = certify(source(folder, problem), Candidate(better_policy(problem), "mine"), delta=0.1, by=("task",))
    issued.save(folder / "certificate.json")
    return folder


def source(folder: Path, problem: Problem) -> Source:
    return Source([folder / "log.parquet"], problem)


def stated(folder: Path) -> dict[str, Any]:
    return load_certificate(folder / "certificate.json")


def again(folder: Path, content: dict[str, Any], log: Source | None = None, candidate: Candidate | None = None) -> Verification:
    problem = stated_problem(content)
    return verify(content, log or source(folder, problem), [candidate or Candidate(better_policy(problem), "mine")])


def differing(found: Verification) -> str:
    return "; ".join(item.what for item in found.differences)


def test_the_problem_in_the_certificate_is_the_problem(place: Path) -> None:
    assert stated_problem(stated(place)) == problem_of(head=GUARD)


def test_it_is_found_again_bit_for_bit(place: Path) -> None:
    found = again(place, stated(place))
    assert found.holds and found.notes == () and isinstance(found.recomputed, Certificate)
    one, other = stated(place), json.loads(json.dumps(found.recomputed.to_json()))
    for name in ("looks", "seal"):  # verifying is not another look
        one.pop(name), other.pop(name)
    assert one == other


@pytest.mark.parametrize("kind", ["capped", "planned"])
def test_learned_candidates_are_found_again(tmp_path: Path, kind: str) -> None:
    pq.write_table(make_table(90), tmp_path / "log.parquet")
    problem = problem_of()
    learned = learn(source(tmp_path, problem), Split("hash", "k", 0.4), CandidateSettings(kind, 2.0, 3, 1))
    candidate = Candidate(learned.policy, "learned", record=learned.record, rewards=learned.fitted.rewards)
    certify(source(tmp_path, problem), candidate, method="robust").save(tmp_path / "certificate.json")
    assert differing(again(tmp_path, stated(tmp_path), candidate=candidate)) == ""


def test_one_changed_cell_is_noticed(place: Path, tmp_path: Path) -> None:
    table = make_table(90)
    rewards = table["margin"].to_numpy().copy()
    rewards[33] += 1e-9
    pq.write_table(replaced(table, "margin", rewards), tmp_path / "log.parquet")
    content = stated(place)
    found = again(place, content, Source([tmp_path / "log.parquet"], stated_problem(content)))
    assert not found.holds and "the log: log.parquet" in differing(found)


def test_a_row_more_or_a_file_more_is_noticed(place: Path, tmp_path: Path) -> None:
    content = stated(place)
    problem = stated_problem(content)
    table = make_table(91)
    pq.write_table(table, tmp_path / "log.parquet")
    assert "the log: log.parquet" in differing(again(place, content, Source([tmp_path / "log.parquet"], problem)))
    pq.write_table(table.slice(270), tmp_path / "more.parquet")
    two = Source([place / "log.parquet", tmp_path / "more.parquet"], problem)
    assert "number of files" in differing(again(place, content, two))


def test_the_same_rows_in_another_file_have_the_same_results(place: Path, tmp_path: Path) -> None:
    """Only the digest of the file differs: every number is the same."""
    pq.write_table(make_table(90), tmp_path / "log.parquet", compression="gzip")
    content = stated(place)
    found = again(place, content, Source([tmp_path / "log.parquet"], stated_problem(content)))
    assert not found.holds and found.results == ()
    assert differing(found) == "the log: log.parquet; log.parquet, the same rows as far as they are read, written otherwise"


def test_reordered_rows_have_the_same_results(place: Path, tmp_path: Path) -> None:
    """All but the path, which goes through the units in the order of the log."""
    table = make_table(90)
    order = np.random.default_rng(2).permutation(table.num_rows)
    pq.write_table(table.take(pa.array(order)), tmp_path / "log.parquet")
    content = stated(place)
    found = again(place, content, Source([tmp_path / "log.parquet"], stated_problem(content)))
    assert not found.holds and found.same_numbers and all(item.what.endswith(": path") for item in found.results)
    assert [item.what for item in found.causes] == ["the log: log.parquet", "log.parquet, the same rows in another order"]
    assert [item.detail for item in found.causes] == [False, True]


def test_causes_are_told_from_what_follows(place: Path) -> None:
    content = stated(place)
    problem = stated_problem(content)
    found = again(place, content, candidate=Candidate(worse_policy(problem), "mine"))
    assert all("the policy mine" in item.what for item in found.causes) and found.causes
    assert any(item.what == "mine at dose: gain_lower" for item in found.results) and not found.same_numbers
    assert {item.what for item in (*found.causes, *found.results)} == {item.what for item in found.differences}
    edited = {**content, "levels": [{**content["levels"][0], "gain_lower": 0.9}, *content["levels"][1:]]}
    found = again(place, edited)
    assert found.causes == () and len(found.results) == 1 and found.results[0].plain()["cause"] is False


def test_another_policy_is_noticed(place: Path) -> None:
    content = stated(place)
    problem = stated_problem(content)
    found = again(place, content, candidate=Candidate(worse_policy(problem), "mine"))
    assert "the policy mine" in differing(found)
    assert "mine at dose: gain_lower" in differing(found) and "verdict" in differing(found)


def test_another_problem_is_noticed(place: Path) -> None:
    content = stated(place)
    wider = problem_of(head=GUARD, reward=", goal: minimise")
    found = again(place, content, source(place, wider), Candidate(better_policy(wider), "mine"))
    assert "the problem" in differing(found) and "mine at dose: gain_lower" in differing(found)


def test_more_candidates_are_noticed(place: Path) -> None:
    content = stated(place)
    problem = stated_problem(content)
    pair = [Candidate(better_policy(problem), "mine"), Candidate(worse_policy(problem), "other")]
    found = verify(content, source(place, problem), pair)
    assert "number of candidates" in differing(found) and "number of scopes" in differing(found)


CHANGES = {
    "delta": (lambda c: c["settings"].__setitem__("delta", 0.05), "gain_lower"),
    "method": (lambda c: c["settings"].__setitem__("method", "plain"), "tests"),
    "what": (lambda c: c["settings"].__setitem__("what", ["gain"]), "tests"),
    "fewer scopes": (lambda c: c["settings"].update(scopes=[["dose"]], asked=True), "number of scopes"),
    "a bound": (lambda c: c["levels"][0].__setitem__("gain_lower", 0.9), "gain_lower"),
    "a sum, by the last bit": (
        lambda c: c["levels"][0]["tests"][0]["sums"][0].__setitem__(0, str(int(c["levels"][0]["tests"][0]["sums"][0][0]) + 1)),
        "tests",
    ),
    "the verdict": (lambda c: c.__setitem__("verdict", "refused"), "verdict"),
    "the sentence": (lambda c: c["summary"].__setitem__("sentence", "Certified: everything."), "summary"),
    "the units": (lambda c: c["counts"].__setitem__("certified_episodes", 10**6), "counts"),
    "the split": (lambda c: c["splits"][0].__setitem__("fraction", 0.01), "splits"),
    "a finding left out": (lambda c: c["findings"].append({"code": "drift", "severity": "note"}), "findings"),
    "an assumption left out": (lambda c: c["assumptions"].pop(), "assumptions"),
    "the data": (lambda c: c["digests"].__setitem__("data", "0" * 64), "the log"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_and_sealed_again_is_named(place: Path, change: str) -> None:
    """The seal only tells accidents: whoever can compute a digest can seal. Computing everything again tells the rest."""
    content = {key: value for key, value in stated(place).items() if key != "seal"}
    alter, expected = CHANGES[change]
    alter(content)
    found = again(place, {**content, "seal": json_digest(content)})
    assert not found.holds and expected in differing(found), differing(found)


def test_another_version_is_a_note(place: Path) -> None:
    content = stated(place)
    content["versions"] = {**content["versions"], "aegis": "0.0.1"}
    found = again(place, content)
    assert found.holds and "0.0.1" in found.notes[0]


def test_verifying_writes_no_look(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AEGIS_LEDGER", str(tmp_path / "looks"))
    again(place, stated(place))
    assert not (tmp_path / "looks").exists()


def test_rows_in_another_order_give_another_log_but_the_same_sums(tmp_path: Path) -> None:
    """Evidence does not depend on the order of the rows: the sketch adds up."""
    table, problem = make_table(60), problem_of()
    order = np.random.default_rng(2).permutation(table.num_rows)
    found = [
        certify(Source(rows, problem), better_policy(problem), ledger=False).level("dose")
        for rows in (table, table.take(pa.array(order)))
    ]
    assert [test.sums for test in found[0].tests] == [test.sums for test in found[1].tests]
    assert found[0].gain_lower == found[1].gain_lower
