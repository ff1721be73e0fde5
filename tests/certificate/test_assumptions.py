"""The assumptions of a certificate: which there are, and what they say of the audit's findings."""

from __future__ import annotations

import pytest
from small_logs import better_policy, problem_of

from aegis.audit import Finding, make_finding
from aegis.certificate import Candidate
from aegis.certificate.assumptions import list_assumptions
from aegis.certificate.certificate import Assumption
from aegis.ope import reward_measure
from aegis.problem import Problem, Scope

SCOPES = (Scope("dose"),)


def listed(problem: Problem, *findings: Finding, candidate: Candidate | None = None) -> dict[str, Assumption]:
    chosen = candidate or Candidate(better_policy(problem), "mine")
    return {item.code: item for item in list_assumptions(problem, [chosen], SCOPES, reward_measure(problem), findings)}


def test_every_certificate_states_the_same_kinds_of_assumptions() -> None:
    expected = [
        "propensities",
        "carry-over",
        "counts",
        "stationarity",
        "reward-range",
        "fixed-policy",
        "confounding",
        "policy-code",
    ]
    assert list(listed(problem_of())) == expected
    assert (
        "'dose'" in listed(problem_of())["propensities"].statement
        and "[0, 1] EUR" in listed(problem_of())["reward-range"].statement
    )


@pytest.mark.parametrize(
    ("code", "assumption"),
    [
        ("miscalibrated-propensities", "propensities"),
        ("doubtful-propensities", "propensities"),
        ("siblings-interfere", "carry-over"),
        ("episodes-interfere", "carry-over"),
        ("size-follows-reward", "counts"),
        ("drift", "stationarity"),
    ],
)
def test_what_the_audit_found_changes_what_is_said_of_it_alone(code: str, assumption: str) -> None:
    calm, alarmed = listed(problem_of()), listed(problem_of(), make_finding(code, "warning", "text"))
    assert [name for name in calm if calm[name] != alarmed[name]] == [assumption]
    assert "evidence against" in alarmed[assumption].checked or "drift found" in alarmed[assumption].checked


def test_clusters_are_named_in_the_place_of_counts() -> None:
    mean, total = (listed(problem_of(head=head)) for head in ("cluster: line", "cluster: {column: line, most: 9}"))
    assert "counts" not in mean and "does not depend on what happened" in mean["cluster-size"].statement
    assert "at most 9 episodes" in total["cluster-size"].statement


def test_a_learned_policy_rests_on_its_record() -> None:
    problem = problem_of()
    own = listed(problem)["fixed-policy"].checked
    learned = listed(problem, candidate=Candidate(better_policy(problem), "mine", record={"split": None}))["fixed-policy"].checked
    assert "no training record" in own and "records its split" in learned


def test_findings_about_propensities_of_other_levels_do_not_count() -> None:
    calm = listed(problem_of())
    own, other = (
        listed(problem_of(), make_finding("doubtful-propensities", "warning", "text", level)) for level in ("dose", "recipe")
    )
    assert own != calm and other == calm
    assert listed(problem_of(), make_finding("drift", "warning", "text", "recipe")) != calm
