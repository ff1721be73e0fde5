"""What is claimed, declared beforehand: scopes, shares of the risk, and which tests a log allows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_logs import better_policy, make_table, problem_of, source_of, worse_policy

from aegis.certificate import Candidate, Claim, Request, certify, declare_claims
from aegis.certificate.claims import subgroups_of
from aegis.errors import SettingError
from aegis.policies import Capped, Legacy, Logged, Mixture, TargetColumns, Uniform
from aegis.problem import Batch, Problem, Scope

ONE_GUARD = "guards: [{column: scrap, range: [0, 1], max_worsening: 0.05}]"


class Flat:
    """A model that knows nothing."""

    def predict(self, level: str, batch: Batch) -> np.ndarray:
        return np.zeros((len(batch.levels[level]), 3 if level == "dose" else 2))


def sample(problem: Problem) -> Batch:
    """Return a few episodes; what the reward belongs to does not matter for what can be claimed."""
    by_row = replace(problem, reward=replace(problem.reward, per="decision"))
    return source_of(make_table(4), by_row).read(columns=("new_setting", "new_dose"))


def declared(problem: Problem, *candidates: object, **more: object) -> tuple[Claim, ...]:
    return declare_claims(Request.of(problem, list(candidates), **more), sample(problem))  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.sampled_from([0.001, 0.05, 0.3]), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_shares_of_the_risk_never_exceed_it(number: int, delta: float, value: bool, guard: bool, one: bool, by: bool) -> None:
    problem = problem_of(head=ONE_GUARD if guard else "")
    candidates = [Candidate(better_policy(problem), f"c{k}") for k in range(number)]
    scopes = [["dose"]] if one else None
    what = ("gain", "value") if value else ("gain",)
    request = Request.of(problem, candidates, scopes, delta, what=what, by=("task",) if by else ())
    batch = sample(problem)
    claims = declare_claims(request, batch, subgroups_of(problem, request.by, batch))
    assert sum(claim.delta for claim in claims) <= delta * (1 + 1e-12)
    assert sum(claim.delta for claim in claims) >= delta * (1 - 1e-9)  # and nothing of it is wasted
    plain = [claim for claim in claims if claim.group is None]
    assert len(plain) == number * (1 if one else 3) * (1 + value + guard)
    assert len({claim.delta for claim in plain}) == 1
    assert len(claims) - len(plain) == (number * (1 if one else 3) * 2 if by else 0)


def test_the_results_state_the_risk_that_was_declared() -> None:
    problem = problem_of(head=ONE_GUARD)
    certificate = certify(source_of(make_table(80), problem), better_policy(problem), delta=0.1, ledger=False)
    assert sum(level.delta for level in certificate.levels) == pytest.approx(0.1)
    assert sum(test.delta for level in certificate.levels for test in level.tests) == pytest.approx(0.1)


def test_guards_are_claims_with_the_sign_turned() -> None:
    problem = problem_of(head=ONE_GUARD)
    claims = declared(problem, better_policy(problem))
    guards = [claim for claim in claims if claim.what == "guard"]
    assert {claim.scope for claim in guards} == {Scope("dose"), Scope("recipe"), Scope({"dose", "recipe"})}
    for claim in guards:
        assert claim.margin == pytest.approx(-0.05)
        assert claim.measure.goal == "minimise"
        np.testing.assert_allclose(claim.measure.scaled(np.array([0.0, 1.0])), [1.0, 0.0])


def methods(claims: tuple[Claim, ...], what: str) -> dict[frozenset[str], list[str]]:
    return {frozenset(claim.scope): [part.name for part in claim.parts] for claim in claims if claim.what == what}


ROBUST = ["plain", "robust, range 1", "robust, range 1.25", "robust, range 1.5", "robust, range 2"]
NESTED = ["plain", "robust, nested, cut 0.25", "robust, nested, cut 0.5", "robust, nested, cut 1"]


def test_what_is_added_covers_how_far_a_test_can_fall() -> None:
    """A unit is lifted by at least its range, or a loss would be refused, or cut; by hardly more, or evidence is wasted."""
    problem = problem_of()
    least = {f"robust, range {c:g}": c for c in (0.5, 1.0, 1.25, 1.5, 2.0, 8.0)}
    for claim in declared(problem, better_policy(problem), method="robust"):
        above = 1.0 if claim.what == "gain" else 0.0
        expected = {**least, "plain": above, **{f"robust, nested, cut {cut:g}": above + 2 * cut for cut in (0.25, 0.5, 1.0)}}
        for part in claim.parts:
            assert expected[part.name] <= part.offset <= expected[part.name] * (1 + 1e-6), (claim.what, part.name)


def test_methods_with_whole_distributions() -> None:
    problem = problem_of()
    both, one = frozenset({"recipe", "dose"}), frozenset({"dose"})
    for method in ("auto", "water-filled"):
        found = methods(declared(problem, better_policy(problem), method=method), "gain")
        assert found[one] == ["water-filled"] and found[both] == ["water-filled, two levels"]
    found = methods(declared(problem, better_policy(problem), method="robust"), "gain")
    assert found[one] == ROBUST and found[both] == NESTED
    found = methods(declared(problem, better_policy(problem), method="plain"), "gain")
    assert found[one] == found[both] == ["plain"]


@pytest.mark.parametrize("method", ["auto", "water-filled", "robust", "plain"])
def test_methods_fall_back_to_plain_where_probabilities_of_taken_actions_are_all_there_is(method: str) -> None:
    taken = problem_of(full=False)
    for what in ("gain", "value"):
        assert {tuple(names) for names in methods(declared(taken, better_policy(taken), method=method), what).values()} == {
            ("plain",)
        }
    full = problem_of()
    columns = TargetColumns(full, {"dose": "new_dose", "recipe": "new_setting"})
    assert {tuple(names) for names in methods(declared(full, columns, method=method), "gain").values()} == {("plain",)}


def test_methods_fall_back_where_rewards_belong_to_several_decisions() -> None:
    recipe = problem_of(reward=", per: recipe")
    found = methods(declared(recipe, better_policy(recipe)), "gain")
    assert found[frozenset({"dose"})] == ["plain"]  # several doses lead to one reward
    assert found[frozenset({"recipe"})] == ["water-filled"]
    assert found[frozenset({"recipe", "dose"})] == ["plain"]
    episode = problem_of(reward=", per: episode")
    assert {tuple(names) for names in methods(declared(episode, better_policy(episode)), "gain").values()} == {("plain",)}


def test_methods_fall_back_where_decisions_carry_over() -> None:
    problem = problem_of(head="carry_over: within")
    found = methods(declared(problem, better_policy(problem)), "gain")
    assert found[frozenset({"dose"})] == ["water-filled"]
    assert found[frozenset({"recipe", "dose"})] == ["plain"]
    assert methods(declared(problem, better_policy(problem), method="robust"), "gain")[frozenset({"dose"})] == ["plain"]
    capped = Capped(problem, Flat(), Logged(problem), 2.0)
    largest = [part.largest for claim in declared(problem, capped) if claim.what == "gain" for part in claim.parts]
    assert largest == [1.0, 1.0, 1.0]  # a cap per decision is none on products


def test_a_cap_narrows_what_is_possible() -> None:
    problem = problem_of()
    capped = Capped(problem, Flat(), Logged(problem), 2.0)
    brackets = {frozenset(c.scope): c.bracket for c in declared(problem, capped) if c.what == "gain"}
    assert brackets[frozenset({"dose"})] == (-0.5, 0.5)
    assert brackets[frozenset({"recipe", "dose"})] == (-0.75, 0.75)
    mixed = Mixture([capped, Capped(problem, Flat(), Logged(problem), 4.0)])
    assert {c.bracket for c in declared(problem, mixed, scopes=[["dose"]]) if c.what == "gain"} == {(-0.75, 0.75)}
    loose = Mixture([capped, better_policy(problem)])
    assert {c.bracket for c in declared(problem, loose, scopes=[["dose"]]) if c.what == "gain"} == {(-1.0, 1.0)}
    only = Capped(problem, Flat(), Logged(problem), 2.0, ["recipe"])
    at_dose = [c for c in declared(problem, only, scopes=[["dose"]]) if c.what == "gain"]
    assert [c.parts for c in at_dose] == [()]  # the legacy itself: nothing to test


def test_what_a_request_refuses() -> None:
    problem = problem_of()
    policy = better_policy(problem)
    with pytest.raises(SettingError, match="no candidate"):
        Request.of(problem, [])
    with pytest.raises(SettingError, match="two candidates are called 'same'"):
        Request.of(problem, [Candidate(policy, "same"), Candidate(worse_policy(problem), "same")])
    for delta in (0.0, 1.0, -0.1, float("nan"), float("inf")):
        with pytest.raises(SettingError, match="delta is a risk"):
            Request.of(problem, policy, delta=delta)
    with pytest.raises(SettingError, match="did you mean 'robust'"):
        Request.of(problem, policy, method="robst")
    with pytest.raises(SettingError, match="add 'gain'"):
        Request.of(problem, policy, what=("value",))
    with pytest.raises(SettingError, match="unknown claim 'gian'"):
        Request.of(problem, policy, what=("gian",))
    with pytest.raises(SettingError, match="group by"):
        Request.of(problem, policy, by=("temperature",))


def test_a_declaration_names_what_matters_and_changes_with_it() -> None:
    problem = problem_of()
    first = Request.of(problem, better_policy(problem)).declared()
    assert first["candidates"][0]["digest"]
    others = [
        Request.of(problem, worse_policy(problem)),
        Request.of(problem, better_policy(problem), [["dose"]]),
        Request.of(problem, better_policy(problem), delta=0.01),
        Request.of(problem, better_policy(problem), method="plain"),
        Request.of(problem, better_policy(problem), what=("gain",)),
        Request.of(problem, better_policy(problem), fresh=True),
        Request.of(problem_of(reward=", goal: minimise"), better_policy(problem)),
        Request.of(problem, better_policy(problem), by=("task",)),
    ]
    assert all(other.declared() != first for other in others)
    assert Request.of(problem, better_policy(problem)).declared() == first


def test_policies_that_cannot_be_stored_have_no_digest() -> None:
    problem = problem_of()
    uniform = Legacy(problem, dict.fromkeys(problem.names, Uniform()))
    assert Candidate.of(uniform).digest is not None
    assert Candidate.of(Capped(problem, Flat(), Logged(problem), 2.0)).digest is None
