"""A comparison on logs: the same units and numbers as a certificate, labels, what is missing and why, looks, refusals."""

from __future__ import annotations

import json
import math
from pathlib import Path

import comparison_cases  # noqa: F401  (puts the small logs of the certificates on the path)
import numpy as np
import pytest
from small_logs import better_policy, make_table, problem_of, problem_text, replaced, source_of

import aegis
from aegis.agents import CandidateSettings, learn
from aegis.certificate import certify
from aegis.comparison import Comparison, ComparisonSettings, compare
from aegis.errors import RefusedError
from aegis.logs import Source
from aegis.policies import TargetColumns
from aegis.problem import parse_problem

TABLE = make_table(200, seed=4)
OURS = "AEGIS certificate"


@pytest.fixture(scope="module")
def source() -> Source:
    return source_of(TABLE)


@pytest.fixture(scope="module")
def learned(source: Source) -> aegis.Learned:
    return learn(source, settings=CandidateSettings("capped", cap=2.0))


@pytest.fixture(scope="module")
def plain(source: Source) -> Comparison:
    return compare(source, better_policy(source.problem), scope=["dose"])


def methods(found: Comparison) -> set[str]:
    return {bound.method for bound in found.bounds}


def reason(found: Comparison, method: str) -> str:
    (only,) = [item.reason for item in found.missing if item.method == method]
    return only


def test_our_line_is_what_certify_issues(source, plain):
    level = certify(source, better_policy(source.problem), scopes=[["dose"]], ledger=False).level("dose")
    assert plain.bound(OURS, "gain").value == level.gain_lower
    assert plain.bound(OURS, "value").value == level.value_lower
    assert plain.units == level.units and plain.legacy.value == pytest.approx(level.legacy_value)
    assert plain.verdict == level.verdict
    assert plain.each == pytest.approx(0.025)
    assert {bound.delta for bound in plain.bounds} == {plain.each}
    assert {bound.units for bound in plain.bounds} == {level.units}
    assert plain.prior_units + plain.units == 200


def test_ips_is_the_plain_estimate_of_a_certificate(source, plain):
    level = certify(source, better_policy(source.problem), scopes=[["dose"]], method="plain", ledger=False).level("dose")
    found = plain.estimate("IPS", "gain")
    assert found.value == pytest.approx(level.estimate) and found.error == pytest.approx(level.estimate_error)


def test_every_number_has_a_label_and_the_blocks_do_not_mix(plain):
    assert len(plain.certificates) + len(plain.others) == len(plain.bounds)
    assert all(item.label.startswith("estimate, not a certificate") and not item.certificate for item in plain.estimates)
    document = json.loads(json.dumps(plain.to_json()))
    assert all(item["certificate"] and item["label"].startswith("certificate") for item in document["certificates"])
    rest = document["not_certificates"]
    for item in (*rest["bounds"], *rest["estimates"], document["legacy"]):
        assert item["certificate"] is False and "not a certificate" in item["label"]
    assert document["kind"] == "aegis-comparison" and document["scope"] == ["dose"]
    assert "bounds" not in document and "estimates" not in document


def test_estimates_are_near_each_other_and_above_every_certificate(plain):
    values = [plain.estimate(name, "gain").value for name in ("IPS", "SNIPS", "doubly robust", "SWITCH")]
    assert max(values) - min(values) < 0.05
    assert all(bound.value < min(values) for bound in plain.certificates if bound.what == "gain")


def test_thresholds_reach_the_estimators(source):
    found = compare(
        source, better_policy(source.problem), scope=["dose"], settings=ComparisonSettings(clip=math.inf, switch=math.inf)
    )
    assert found.estimate("clipped IPS", "value").value == pytest.approx(found.estimate("IPS", "value").value)
    assert found.estimate("SWITCH", "gain").value == found.estimate("doubly robust", "gain").value
    low = compare(source, better_policy(source.problem), scope=["dose"], settings=ComparisonSettings(clip=1.0, switch=0.0))
    assert low.estimate("clipped IPS", "value").value < found.estimate("IPS", "value").value - 0.05
    assert low.estimate("SWITCH", "gain").value == low.estimate("direct method", "gain").value
    assert low.estimate("clipped IPS", "value").settings == {"clip": 1.0}


def test_a_declared_weight_opens_the_bounds_that_need_one(source, plain):
    assert "it needs a declared largest weight" in reason(plain, "Hoeffding")
    assert "B is not declared" in reason(plain, "PRISM: prior lam, B declared")
    found = compare(source, better_policy(source.problem), scope=["dose"], settings=ComparisonSettings(largest_weight=2.8))
    for method in ("Hoeffding", "anytime empirical Bernstein", "PRISM: prior lam, B declared"):
        bound = found.bound(method, "value")
        assert bound.certificate, bound.label
        assert "declared by the user" in (bound.provenance.get("range_from") or bound.provenance["B_from"])
    assert not found.bound("PRISM: lam*, B declared", "value").certificate
    broken = compare(source, better_policy(source.problem), scope=["dose"], settings=ComparisonSettings(largest_weight=1.01))
    assert "not in the declared range" in broken.bound("Hoeffding", "value").label


NEED_A_LIMIT = (
    *("Hoeffding", "empirical Bernstein", "anytime empirical Bernstein", "sharp PAC-Bayes, lam and B of PRISM"),
    *("PRISM: prior lam, B declared", "PRISM: 1/sqrt(K), B declared", "PRISM: lam*, B declared"),
)


def test_weights_that_were_seen_break_a_declaration_although_episodes_stay_below_it(source):
    """Nested episodes: means of w r are below B in all of them, single weights are not."""
    limit = 2.6
    settings = ComparisonSettings(largest_weight=limit, clip=math.inf)
    found = compare(source, better_policy(source.problem), scope=["dose"], settings=settings)
    for method in NEED_A_LIMIT:
        for what in ("value", "gain"):
            bound = found.bound(method, what)
            if bound is None:
                assert what == "gain"
                continue
            assert not bound.certificate and "was observed, above the largest that was declared, 2.6" in bound.label, method
            assert not any("not in the declared range" in words or "values lie in" in words for words in bound.unmet), method
    assert found.bound("betting, plain values", "value").certificate  # it needs no limit
    assert not any("was observed" in words for words in found.bound("PRISM: lam*, B observed", "value").unmet)


def test_a_declaration_below_the_cap_of_the_candidate_is_no_promise(source, learned):
    found = compare(source, learned, scope=["dose"], settings=ComparisonSettings(largest_weight=1.9))
    for method in NEED_A_LIMIT:
        bound = found.bound(method, "value")
        assert not bound.certificate and any("own caps let its weights reach 2" in words for words in bound.unmet), method


def test_learned_candidates_are_compared_on_the_other_side(source, learned):
    found = compare(source, learned, scope=["dose"])
    assert found.units == certify(source, learned, scopes=[["dose"]], ledger=False).level("dose").units < 160
    bound = found.bound("PRISM: prior lam, B declared", "value")
    assert bound.certificate and bound.provenance["B"] == 2.0 and "alpha = 0.5" in bound.provenance["split"]
    assert "learned with" in found.estimate("doubly robust", "value").settings["model"]


def test_target_columns_have_no_model_and_say_so():
    problem = problem_of(full=False)
    source = source_of(TABLE, problem)
    found = compare(source, TargetColumns(problem, {"dose": "new_dose"}))
    assert found.scope == ("dose",)
    for method in ("direct method", "doubly robust", "SWITCH"):
        assert found.estimate(method, "gain") is None and "probability of the action taken only" in reason(found, method)
    assert found.estimate("SNIPS", "gain") is not None


def test_clusters_are_units_and_totals_are_not_normalised():
    found = compare(source_of(TABLE, problem_of(head="cluster: line")), better_policy(problem_of()), scope=["dose"])
    assert found.unit_word == "clusters" and found.units < 60
    problem = problem_of(head="cluster: {column: line, most: 4}")
    totals = compare(source_of(TABLE, problem), better_policy(problem), scope=["dose"])
    assert "totals" in reason(totals, "SNIPS")
    assert totals.estimate("IPS", "value").value == pytest.approx(found.estimate("IPS", "value").value, abs=1e-9)


def test_missing_rewards_hurt_gains():
    values = [None if row % 7 == 0 else value for row, value in enumerate(TABLE["margin"].to_pylist())]
    problem = problem_of()
    found = compare(source_of(replaced(TABLE, "margin", values), problem), better_policy(problem), scope=["dose"])
    whole = compare(source_of(TABLE, problem), better_policy(problem), scope=["dose"])
    for method in ("IPS", "SNIPS", "clipped IPS", "doubly robust"):
        assert found.estimate(method, "gain").value < whole.estimate(method, "gain").value - 0.05, method


def test_costs_are_turned(source, plain):
    problem = problem_of(reward=", goal: minimise")
    turned = replaced(TABLE, "margin", 1.0 - np.array(TABLE["margin"]))
    found = compare(source_of(turned, problem), better_policy(problem), scope=["dose"])
    for method in (OURS, "Student t", "betting, plain values"):
        assert found.bound(method, "gain").value == pytest.approx(plain.bound(method, "gain").value, abs=1e-4)
        assert found.bound(method, "value").value == pytest.approx(1 - plain.bound(method, "value").value, abs=1e-4)
    assert found.estimate("SNIPS", "value").value == pytest.approx(1 - plain.estimate("SNIPS", "value").value)
    assert found.estimate("SNIPS", "gain").error == pytest.approx(plain.estimate("SNIPS", "gain").error)


def test_only_the_certificate_heeds_a_declared_error_of_the_propensities():
    given = "{columns: [p_1, p_2, p_3]"
    problem = parse_problem(problem_text().replace(given, given + ", estimated: true, wrong_by: 1.1"))
    found = compare(source_of(make_table(160), problem), better_policy(problem), scope=["dose"])
    assert {item.method for item in found.bounds if item.certificate} == {"AEGIS certificate"}
    assert all("'dose' are estimated" in item.label for item in found.bounds if item.method != "AEGIS certificate")
    (sharp,) = [choice for choice in found.choices if choice.method.startswith("sharp")]
    assert {name: item.certificate for name, item in sharp.bounds.items()} == {
        "dose": False, "recipe": True, "recipe + dose": False,
    }  # fmt: skip
    other = compare(source_of(make_table(160), problem), better_policy(problem), scope=["recipe"])
    assert len([item for item in other.bounds if item.certificate]) > 2


def test_what_certify_refuses_is_not_compared():
    problem = problem_of()
    with pytest.raises(RefusedError, match="outside the declared range"):
        compare(source_of(replaced(TABLE, "margin", np.array(TABLE["margin"]) * 3), problem), better_policy(problem))
    wrong = source_of(replaced(TABLE, "new_dose", np.full(TABLE.num_rows, 0.9)), problem)
    with pytest.raises(RefusedError, match="nothing is compared"):
        compare(wrong, TargetColumns(problem, {"dose": "new_dose"}))


def test_a_comparison_is_written_down_as_a_result_unless_it_is_a_study(source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AEGIS_LEDGER", str(tmp_path / "own"))
    found = compare(source, better_policy(source.problem), scope=["dose"], ledger=False)
    assert not (tmp_path / "own").exists() and "Nothing was written" in found.notes[-1]
    for folder, chosen in (("own", None), ("asked", tmp_path / "asked")):
        found = compare(source, better_policy(source.problem), scope=["dose"], ledger=chosen)
        assert len(list((tmp_path / folder).glob("*.json"))) == 1 and "as a result on these data" in found.notes[-1]


def test_the_same_seed_gives_the_same_document(source, plain):
    again = compare(source, better_policy(source.problem), scope=["dose"])
    assert again.to_json() == plain.to_json()
    other = compare(source, better_policy(source.problem), scope=["dose"], settings=ComparisonSettings(seed=2))
    assert other.bound("bootstrap, BCa", "gain").value != plain.bound("bootstrap, BCa", "gain").value
    assert other.bound(OURS, "gain") == plain.bound(OURS, "gain")


def test_it_is_a_public_name():
    assert aegis.compare is compare and aegis.Comparison is Comparison and aegis.ComparisonSettings is ComparisonSettings
