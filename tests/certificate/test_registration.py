"""Requests are registered without a look, certified at their share of the risk, and refused if they come after a result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from small_logs import better, better_policy, make_table, problem_of, problem_text, replaced, saved, source_of, worse_policy

import aegis
from aegis.certificate import Candidate, certify, register, verify
from aegis.certificate import scan as run_module
from aegis.comparison import compare
from aegis.errors import RefusedError, SettingError
from aegis.logs import Source
from aegis.policies import Function
from aegis.problem import parse_problem
from aegis.report import render_certificate

TABLE = make_table(150)
WHY = "fixed in the protocol of 3 May"


def codes(certificate: Any) -> list[str]:
    return [item["code"] for item in certificate.findings]


def requests(folder: Path) -> list[dict[str, Any]]:
    return [look for path in folder.glob("*.json") for look in json.loads(path.read_text())["looks"]]


def test_registering_looks_at_no_reward_and_shows_no_number(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "place_evidence", lambda *rest: pytest.fail("evidence was collected"))
    source, policy = source_of(TABLE), better_policy(problem_of())
    found = register(source, [policy, worse_policy(problem_of())], delta=0.04, ledger=tmp_path, now="monday")
    assert found.requests == 1 and not found.already and found.share is not None and found.share.risk == 0.04
    (kept,) = requests(tmp_path)
    assert kept["kind"] == "register" and kept["verdict"] is None and kept["declared"] == found.declared
    assert [item["name"] for item in kept["declared"]["candidates"]] == ["candidate 1", "candidate 2"]  # one request
    wanted = {"problem", "candidates", "scopes", "delta", "method", "what", "fresh", "by"}
    assert set(kept["declared"]) == wanted
    again = register(source, [policy, worse_policy(problem_of())], delta=0.04, ledger=tmp_path, now="tuesday")
    assert again.already and again.requests == 1 and requests(tmp_path) == [kept]
    other = register(source, [policy, worse_policy(problem_of())], delta=0.03, ledger=tmp_path, now="tuesday")
    assert other.requests == 1 and [item["declared"]["delta"] for item in requests(tmp_path)] == [0.03]
    more = register(source, policy, ledger=tmp_path)
    assert more.requests == 2 and more.share is not None and more.share.risk == 0.015
    assert json.loads(json.dumps(more.to_json()))["share"]["requests"] == 2
    assert aegis.register is register


def test_registered_requests_are_certified_at_their_share_and_verified_to_the_bit(tmp_path: Path) -> None:
    source, problem = source_of(TABLE), problem_of()
    policies = [better_policy(problem), worse_policy(problem)]
    for policy in policies:
        register(source, policy, ledger=tmp_path)
    found = [certify(source, policy, ledger=tmp_path) for policy in policies]
    for certificate, policy in zip(found, policies, strict=True):
        assert certificate.settings["delta"] == certificate.verdict.delta == pytest.approx(0.025)
        risk = certificate.settings["risk"]
        assert (risk["asked"], risk["requests"]) == (0.05, 2) and risk["sum"] == pytest.approx(0.05)
        assert sum(level.delta for level in certificate.levels) == pytest.approx(0.025)
        outcome = verify(certificate.to_json(), source, [Candidate.of(policy)])
        assert outcome.holds and outcome.recomputed.levels == certificate.levels
    sentence = found[0].verdict.sentence
    assert sentence.startswith(
        "Certified: with probability at least 95 %, all statements of the 2 requests registered on these data hold; candidate 1"
    )
    assert "at risk 2.5 % (its share of 5 % for all statements of the 2 requests registered" in found[1].verdict.sentence
    alone = certify(source, policies[0], delta=0.025, ledger=False)
    assert [level.gain_lower for level in alone.levels] == [level.gain_lower for level in found[0].levels]
    assert alone.verdict.sentence.startswith("Certified: with probability at least 97.5 %, candidate 1")


def test_a_request_after_a_result_is_no_certificate_and_shows_nothing(tmp_path: Path) -> None:
    source = source_of(TABLE)
    certify(source, worse_policy(problem_of()), ledger=tmp_path)
    before = requests(tmp_path)
    for asked in ({}, {"scopes": [["dose"]]}, {"what": ("gain",)}, {"method": "plain"}, {"by": ("task",)}):
        barred = certify(source, better_policy(problem_of()), ledger=tmp_path, **asked)
        assert barred.verdict.verdict == "refused" and barred.exit_code == 4 and codes(barred)[0] == "chosen-after-results"
        assert barred.verdict.sentence.startswith("Refused: not a certificate: chosen after results on these data")
        assert "--fixed-before" in barred.verdict.next_step
        shown = {level.gain_lower for level in barred.levels} | {level.estimate for level in barred.levels}
        assert shown == {None} and barred.counts["episodes"] == 0
        with pytest.raises(RefusedError, match="nothing to verify"):
            verify(barred.to_json(), source, [Candidate.of(better_policy(problem_of()))])
    assert requests(tmp_path) == before  # what was not looked at is not a look
    wider = source_of(TABLE, parse_problem(problem_text().replace("range: [0, 1]", "range: [0, 1.5]")))
    assert codes(certify(wider, worse_policy(wider.problem), ledger=tmp_path))[0] == "chosen-after-results"
    assert certify(source_of(make_table(150, seed=2)), better_policy(problem_of()), ledger=tmp_path).certified
    assert certify(source, better_policy(problem_of()), ledger=False).certified  # a study by simulation


def test_a_declaration_is_printed_and_gets_what_is_left(tmp_path: Path) -> None:
    source, policy = source_of(TABLE), better_policy(problem_of())
    certify(source, worse_policy(problem_of()), ledger=tmp_path)
    spent = certify(source, policy, ledger=tmp_path, fixed_before=WHY)
    assert codes(spent)[0] == "risk-spent" and spent.exit_code == 4 and WHY in spent.verdict.sentence
    found = certify(source, policy, ledger=tmp_path, fixed_before=f"  {WHY} ", delta=0.08)
    assert found.settings["delta"] == pytest.approx(0.03) and found.settings["risk"]["fixed_before"] == WHY
    assert f'Declared in writing, and not checked: the request was fixed before any result on these data ("{WHY}").' in (
        found.verdict.sentence
    )
    assert "with probability at least 92 %, all statements of the 2 looks at these data hold" in found.verdict.sentence
    page = render_certificate(found.to_json())
    assert page.count(WHY) >= 3  # sentence, reasons, for the auditor
    assert verify(found.to_json(), source, [Candidate.of(policy)]).holds
    for blank in ("", "  "):
        with pytest.raises(SettingError, match="needs a reason in words"):
            certify(source, policy, ledger=tmp_path, fixed_before=blank)


def test_registering_after_a_result_needs_a_declaration(tmp_path: Path) -> None:
    source, policy = source_of(TABLE), better_policy(problem_of())
    certify(source, worse_policy(problem_of()), ledger=tmp_path)
    known = register(source, worse_policy(problem_of()), ledger=tmp_path)
    assert known.already and known.requests == 1
    with pytest.raises(RefusedError, match=r"cannot be registered: the first result on them .*chosen-after-results"):
        register(source, policy, ledger=tmp_path)
    found = register(source, policy, ledger=tmp_path, fixed_before=WHY, delta=0.08)
    assert found.requests == 2 and found.fixed_before == WHY and found.share is not None
    assert found.share.risk == pytest.approx(0.03)
    certificate = certify(source, policy, ledger=tmp_path, delta=0.08)
    assert certificate.settings["risk"]["fixed_before"] == WHY
    late = register(source, policy, ledger=tmp_path, fixed_before=WHY, scopes=[["dose"]])
    assert late.share is None and "no risk is left" in late.reason


def test_what_cannot_be_known_again_cannot_be_registered(tmp_path: Path) -> None:
    policy = Function(problem_of(), lambda level, rows: better(level, rows))
    with pytest.raises(SettingError, match="without a digest cannot be registered"):
        register(source_of(TABLE), policy, ledger=tmp_path)


def test_a_comparison_is_a_result_and_registered_requests_stay(tmp_path: Path) -> None:
    source, problem = source_of(TABLE), problem_of()
    register(source, better_policy(problem), ledger=tmp_path)
    compare(source, worse_policy(problem), scope=["dose"], ledger=tmp_path)
    compare(source, better_policy(problem), scope=["dose"], ledger=tmp_path)
    assert certify(source, better_policy(problem), ledger=tmp_path).settings["delta"] == 0.05
    barred = certify(source, better_policy(problem), scopes=[["dose"]], ledger=tmp_path)
    assert codes(barred)[0] == "chosen-after-results" and "aegis compare for candidate 1" in barred.verdict.sentence
    compare(source, better_policy(problem), scope=["dose"], ledger=tmp_path)  # may always be made


def test_a_comparison_after_a_certificate_of_the_same_request_changes_nothing(tmp_path: Path) -> None:
    source, policy = source_of(TABLE), better_policy(problem_of())
    first = certify(source, policy, scopes=[["dose"]], ledger=tmp_path)
    compare(source, policy, scope=["dose"], ledger=tmp_path)
    again = certify(source, policy, scopes=[["dose"]], ledger=tmp_path)
    assert again.levels == first.levels and again.settings == first.settings


@pytest.mark.parametrize("how", ["file", "rows"])
def test_the_whole_log_again_is_a_second_look_and_the_new_part_alone_is_not(tmp_path: Path, how: str) -> None:
    folder, policy = tmp_path / "looks", worse_policy(problem_of())
    more = make_table(80, seed=3)
    more = replaced(more, "batch", [f"n{name}" for name in more["batch"].to_pylist()])
    one, two = saved(TABLE, tmp_path / "one.parquet"), saved(more, tmp_path / "two.parquet")
    whole = [one, two] if how == "file" else [saved(pa.concat_tables([TABLE, more]), tmp_path / "grown.parquet")]
    register(Source([one], problem_of()), policy, ledger=folder)
    certify(Source([one], problem_of()), policy, ledger=folder)
    grown = Source(whole, problem_of())
    barred = certify(grown, policy, ledger=folder)
    assert codes(barred)[0] == "risk-spent" and barred.exit_code == 4
    assert "on the new episodes alone, in a file of their own; or ask for a --delta above 0.05" in barred.verdict.next_step
    assert certify(Source([two], problem_of()), policy, ledger=folder).settings["delta"] == 0.05
    second = certify(grown, policy, delta=0.2, ledger=folder)
    assert second.settings["delta"] == pytest.approx(0.1 if how == "file" else 0.15)  # the file two is a part of the first
    other = certify(grown, better_policy(problem_of()), delta=0.5, ledger=folder)
    assert codes(other)[0] == "chosen-after-results"


def test_the_next_step_names_the_new_episodes_alone_and_the_risk_of_a_second_look(tmp_path: Path) -> None:
    found = certify(source_of(make_table(80)), better_policy(problem_of()), delta=1e-4, ledger=tmp_path)
    assert found.verdict.verdict == "not yet" and found.verdict.further_units is not None
    total = found.verdict.units + found.verdict.further_units
    assert f"Log about {total} new episodes" in found.verdict.next_step and "in a file of their own" in found.verdict.next_step
    assert "a second look at these data: ask for the sum of both risks (--delta 0.0002)" in found.verdict.next_step


def test_a_run_that_was_interrupted_counts_as_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(TABLE)
    monkeypatch.setattr(run_module, "place_evidence", lambda *rest: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        certify(source, worse_policy(problem_of()), ledger=tmp_path)
    monkeypatch.undo()
    assert codes(certify(source, better_policy(problem_of()), ledger=tmp_path))[0] == "chosen-after-results"
    assert certify(source, worse_policy(problem_of()), ledger=tmp_path).verdict.verdict == "not yet"


def test_a_refusal_by_the_audit_is_no_result(tmp_path: Path) -> None:
    """What is wrong with a problem file may be mended, and asked for again."""
    table = replaced(TABLE, "margin", [2.0 * value for value in TABLE["margin"].to_pylist()])
    wide = parse_problem(problem_text().replace("range: [0, 1]", "range: [0, 2]"))
    assert certify(source_of(table), better_policy(problem_of()), ledger=tmp_path).verdict.verdict == "refused"
    assert [look["verdict"] for look in requests(tmp_path)] == ["refused"]
    assert certify(source_of(table, wide), better_policy(wide), ledger=tmp_path).certified
