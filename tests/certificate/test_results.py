"""From evidence to verdicts: caps that are broken, guards, totals, weights that do not average one, bounds that cannot be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_logs import best_dose, better_policy, make_table, problem_of, replaced, source_of, worse_policy

from aegis.audit import audit_log
from aegis.certificate import CERTIFIED, NOT_YET, REFUSED, Candidate, certify
from aegis.certificate.claims import check_group_variables
from aegis.certificate.weight_checks import BALANCE_ALPHA, start_balance, weights_doubtful, weights_unbalanced
from aegis.errors import RefusedError, SettingError
from aegis.ope import Measure, check_cluster_totals, observe, reward_measure
from aegis.policies import Capped, Logged, TargetColumns
from aegis.problem import Array, Batch, Problem, Scope

GUARD = "guards: [{{column: scrap, range: [0, 1], max_worsening: {}}}]"


class Wishful:
    """A model that wants the first dose, and the first setting, everywhere."""

    def predict(self, level: str, batch: Batch) -> Array:
        return np.tile([1.0, 0.0, 0.0] if level == "dose" else [1.0, 0.0], (len(batch.levels[level]), 1))


class Contrary:
    """A model that avoids the best dose."""

    def predict(self, level: str, batch: Batch) -> Array:
        if level != "dose":
            return np.zeros((len(batch.levels[level]), 2))
        best = best_dose(batch.levels[level].context["temperature"])
        return -(np.arange(3) == best[:, None]).astype(float)


# ---- caps ------------------------------------------------------------------------------------------------------------


def broken(problem: Problem, good: bool) -> Capped:
    """Return a policy whose cap is against another policy than the one that wrote the log."""
    return Capped(problem, Contrary(), better_policy(problem) if good else worse_policy(problem), 1.05)


def test_a_cap_that_holds_bounds_the_gain_without_data() -> None:
    problem = problem_of(head=GUARD.format(0.6))
    capped = Capped(problem, Wishful(), Logged(problem), 2.0)
    result = certify(source_of(make_table(40), problem), capped, scopes=[["dose"]], ledger=False).level("dose")
    assert result.gain_lower is not None and result.gain_lower >= -0.5
    (guard,) = result.guards
    assert guard.verdict == CERTIFIED  # at most half of the probability moves: 0.6 worse is impossible


def test_a_broken_cap_claims_nothing_that_rests_on_it() -> None:
    """The candidate moves 0.25 of the probability where it says 0.048: without evidence nothing is left to say."""
    for allowed, episodes in ((0.1, 24), (0.1, 200), (0.0, 200)):
        problem = problem_of(head=GUARD.format(allowed))
        candidate = broken(problem, good=False)
        result = certify(source_of(make_table(episodes), problem), candidate, scopes=[["dose"]], ledger=False).level("dose")
        gain, guard = (next(test for test in result.tests if test.what == what) for what in ("gain", "guard"))
        assert result.verdict == NOT_YET and not gain.certified
        assert None in gain.sums[0] and None in guard.sums[0]
        for test in (gain, guard):
            assert test.lower_scaled is None or test.lower_scaled > -0.0476
            assert test.certified == (test.lower_scaled is not None and test.lower_scaled >= test.margin_scaled)


def test_a_gain_beyond_the_cap_is_refused() -> None:
    problem = problem_of()
    result = certify(source_of(make_table(200), problem), broken(problem, good=True), scopes=[["dose"]], ledger=False).level(
        "dose"
    )
    assert result.verdict == REFUSED and "the largest possible" in result.reason


def test_the_same_candidate_without_its_promise_is_judged_by_data() -> None:
    problem = problem_of()
    honest = Candidate(HonestWithoutCap(broken(problem, good=False)), "honest")
    result = certify(source_of(make_table(80), problem), honest, scopes=[["dose"]], ledger=False).level("dose")
    assert result.gain_lower is not None and None not in result.tests[0].sums[0]


class HonestWithoutCap:
    """The same probabilities as another policy, nothing promised."""

    def __init__(self, policy: Capped) -> None:
        self.policy = policy
        self.weights = policy.weights

    def full(self, level: str, batch: Batch) -> Array:
        return self.policy.full(level, batch)

    def taken(self, level: str, batch: Batch) -> Array:
        return self.policy.taken(level, batch)


# ---- weights ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [1.5, 3.0])
def test_probabilities_that_do_not_sum_to_one_are_refused(factor: float) -> None:
    table, problem = make_table(200), problem_of(full=False)
    more = replaced(table, "new_dose", np.minimum(factor * table["new_dose"].to_numpy(), 1.0))
    columns = TargetColumns(problem, {"dose": "new_dose"})
    result = certify(source_of(more, problem), columns, scopes=[["dose"]], ledger=False).level("dose")
    assert result.verdict == REFUSED and "new_dose" in result.reason and "'dose'" in result.reason
    assert result.gain_lower is None and result.estimate is None


def test_weights_of_policies_are_hardly_ever_refused() -> None:
    """The test is by betting at level ALPHA: of 60 runs with weights that average one, hardly any is refused."""
    problem = problem_of(full=False)
    measure = reward_measure(problem)
    rng = np.random.default_rng(5)
    refused = 0
    for _ in range(60):
        found = start_balance(problem, 0, Scope("dose"), measure)
        hit = rng.random(400) < 0.2
        found.add([np.where(hit, 5.0, 0.0)], None)
        refused += weights_unbalanced(found)
    assert refused <= 2 and BALANCE_ALPHA <= 0.001
    heavy = start_balance(problem, 0, Scope("dose"), measure)
    heavy.add([np.where(rng.random(400) < 0.4, 5.0, 0.0)], None)
    assert weights_unbalanced(heavy)
    light = start_balance(problem, 0, Scope("dose"), measure)
    light.add([np.full(400, 0.4)], None)
    assert not weights_unbalanced(light)  # actions out of reach are no fault


def test_some_evidence_against_the_weights_is_a_warning() -> None:
    problem = problem_of(full=False)
    found = start_balance(problem, 0, Scope("dose"), reward_measure(problem))
    assert not weights_doubtful(found)
    found.add([np.repeat([0.8, 1.9], [30, 18])], None)
    assert weights_doubtful(found) and not weights_unbalanced(found)
    found.add([np.repeat([0.8, 1.9], [60, 60])], None)
    assert weights_unbalanced(found) and not weights_doubtful(found)


def test_doubtful_weights_stand_in_the_certificate() -> None:
    table, problem = make_table(200), problem_of(full=False)
    columns = TargetColumns(problem, {"dose": "new_dose"})
    stated = []
    for factor in (1.0, 1.1, 1.2, 1.3, 1.5):
        more = replaced(table, "new_dose", np.minimum(factor * table["new_dose"].to_numpy(), 1.0))
        certificate = certify(source_of(more, problem), columns, scopes=[["dose"]], ledger=False)
        warned = [item["message"] for item in certificate.findings if item["code"] == "doubtful-weights"]
        stated.append((certificate.level("dose").verdict, warned))
    assert not stated[0][1] and stated[-1] == (REFUSED, [])
    assert any("'dose'" in message for _, warned in stated for message in warned)
    assert all(verdict != REFUSED for verdict, warned in stated if warned)


def test_a_certified_verdict_says_its_doubt() -> None:
    """Weights a little too large make a gain of nothing; the audit of the whole log finds the same."""
    table, problem = make_table(150), problem_of(full=False)
    columns = TargetColumns(problem, {"dose": "new_dose"})
    said = []
    for factor in (1.0, 1.2):
        more = replaced(table, "new_dose", np.minimum(factor * table["new_dose"].to_numpy(), 1.0))
        certificate = certify(source_of(more, problem), columns, scopes=[["dose"]], ledger=False)
        warned = any(item["code"] == "doubtful-weights" for item in certificate.findings)
        verdict = certificate.verdict
        if verdict.verdict == CERTIFIED:
            assert ("But its weights average" in verdict.sentence) == warned
            assert verdict.next_step.startswith(
                "First find out why the weights" if warned else "If the policy that wrote the log, exploration included, is"
            )
            said.append(warned)
        if warned:
            audit = audit_log(source_of(more, problem), columns, ["dose"], ["new_dose"])
            assert "doubtful-weights" in audit.codes("warning")
            learned = audit_log(source_of(more, problem), columns, ["dose"], ["new_dose"], learned=True)
            assert "doubtful-weights" not in learned.codes()
    assert said == [False, True]


def test_no_units_no_refusal() -> None:
    assert not weights_unbalanced(start_balance(problem_of(), 0, Scope("dose"), reward_measure(problem_of())))


# ---- guards ----------------------------------------------------------------------------------------------------------


def test_a_guard_that_gets_worse_stands_in_the_way() -> None:
    """Scrap is counted the other way round, so that the better candidate makes more of it."""
    table = make_table(300)
    upside = replaced(table, "scrap", 1.0 - table["scrap"].to_numpy())
    problem = problem_of(head=GUARD.format(0.05))
    fine = certify(source_of(table, problem), better_policy(problem), scopes=[["dose"]], ledger=False)
    assert fine.certified and fine.level("dose").guards[0].change_lower > -0.05  # type: ignore[operator]
    blocked = certify(source_of(upside, problem), better_policy(problem), scopes=[["dose"]], ledger=False)
    result = blocked.level("dose")
    assert result.verdict == NOT_YET and "guard 'scrap' is not yet" in result.reason
    assert next(test for test in result.tests if test.what == "gain").certified


def test_a_guard_outside_its_range_is_refused() -> None:
    problem = problem_of(head=GUARD.format(0.05))
    scrap = make_table(60)["scrap"].to_numpy().copy()
    scrap[77] = 1.5
    certificate = certify(source_of(replaced(make_table(60), "scrap", scrap), problem), better_policy(problem), ledger=False)
    assert certificate.verdict.verdict == REFUSED and "'scrap'" in certificate.verdict.sentence


# ---- totals, margins, ranges -----------------------------------------------------------------------------------------


def test_totals_need_rewards_from_zero() -> None:
    for reward in (", goal: minimise", ""):
        problem = problem_of(head="cluster: {column: line, most: 4}", reward=reward)
        if reward:
            with pytest.raises(RefusedError, match="an episode that never came earns 0"):
                check_cluster_totals(problem, reward_measure(problem))
        else:
            check_cluster_totals(problem, reward_measure(problem))
    certificate = certify(source_of(make_table(80), problem), better_policy(problem), ledger=False)
    assert certificate.verdict.verdict != REFUSED
    few = problem_of(head="cluster: {column: line, most: 3}")
    certificate = certify(source_of(make_table(80), few), better_policy(few), ledger=False)
    assert certificate.verdict.verdict == REFUSED and "has 4 episodes, but at most 3" in str(certificate.levels[0].reason)


def test_totals_are_means_over_possible_episodes() -> None:
    """Twice the declared number of episodes halves value and gain."""
    table = make_table(160)
    found = []
    for most in (4, 8):
        problem = problem_of(head=f"cluster: {{column: line, most: {most}}}")
        found.append(certify(source_of(table, problem), better_policy(problem), scopes=[["dose"]], ledger=False).level("dose"))
    assert found[0].estimate == pytest.approx(2 * found[1].estimate)  # type: ignore[operator]
    assert found[0].legacy_value == pytest.approx(2 * found[1].legacy_value)  # type: ignore[operator]


@pytest.mark.parametrize(("margin", "verdict"), [(0.0, CERTIFIED), (0.1, CERTIFIED), (0.25, NOT_YET), (5.0, NOT_YET)])
def test_a_margin_has_to_be_exceeded(margin: float, verdict: str) -> None:
    problem = problem_of(dose=f"margin: {margin}")
    result = certify(source_of(make_table(400), problem), better_policy(problem), scopes=[["dose"]], ledger=False).level("dose")
    assert result.verdict == verdict and result.margin == margin
    assert (result.gain_lower >= margin) == (verdict == CERTIFIED)  # type: ignore[operator]


def test_gains_and_values_are_in_the_units_of_the_reward() -> None:
    table = make_table(200)
    stretched = replaced(table, "margin", 50.0 * table["margin"].to_numpy() - 20.0)
    unit = problem_of()
    wide = replace(unit, reward=replace(unit.reward, range=(-20.0, 30.0)))
    one = certify(source_of(table, unit), better_policy(unit), scopes=[["dose"]], ledger=False).level("dose")
    other = certify(source_of(stretched, wide), better_policy(wide), scopes=[["dose"]], ledger=False).level("dose")
    assert other.gain_lower == pytest.approx(50 * one.gain_lower, rel=1e-6)  # type: ignore[operator]
    assert other.value_lower == pytest.approx(50 * one.value_lower - 20, rel=1e-6)  # type: ignore[operator]
    assert other.legacy_value == pytest.approx(50 * one.legacy_value - 20, rel=1e-9)  # type: ignore[operator]


def test_costs_are_turned_round_and_back() -> None:
    """With goal minimise a gain is still above 0 if it is better, and values are costs."""
    table = make_table(200)
    costs = replaced(table, "margin", 1.0 - table["margin"].to_numpy())
    least = problem_of(reward=", goal: minimise")
    one = certify(source_of(table), better_policy(problem_of()), scopes=[["dose"]], ledger=False).level("dose")
    other = certify(source_of(costs, least), better_policy(least), scopes=[["dose"]], ledger=False).level("dose")
    assert other.gain_lower == pytest.approx(one.gain_lower, abs=1e-6)
    assert other.legacy_value == pytest.approx(1.0 - one.legacy_value)  # type: ignore[operator]
    assert other.value_lower == pytest.approx(1.0 - one.value_lower, abs=1e-6)  # type: ignore[operator]


def test_clipped_rewards_are_certified_as_clipped() -> None:
    table = make_table(100)
    rewards = table["margin"].to_numpy().copy()
    rewards[::10] = 7.0
    spiky = replaced(table, "margin", rewards)
    capped = replaced(table, "margin", np.minimum(rewards, 1.0))
    clip = problem_of(reward=", clip: true")
    assert certify(source_of(spiky), better_policy(problem_of()), ledger=False).verdict.verdict == REFUSED
    one = certify(source_of(spiky, clip), better_policy(clip), method="plain", ledger=False)
    other = certify(source_of(capped), better_policy(problem_of()), method="plain", ledger=False)
    assert one.level("dose").gain_lower == other.level("dose").gain_lower
    assert any("clipped" in item.statement for item in one.assumptions)


def test_bounds_beyond_the_possible_are_refused_not_cut() -> None:
    """All propensities are ten times too small: the path of the bound leaves what is possible before the end does."""
    table, problem = make_table(200), problem_of(full=False)
    tiny = replaced(table, "p_dose", table["p_dose"].to_numpy() / 10)
    certificate = certify(source_of(tiny, problem), worse_policy(problem), scopes=[["dose"]], ledger=False)
    assert certificate.verdict.verdict == REFUSED and certificate.level("dose").gain_lower is None


def test_a_range_is_needed_and_never_taken_from_the_data() -> None:
    problem = replace(problem_of(), reward=replace(problem_of().reward, range=None))
    with pytest.raises(RefusedError, match="never taken from the data"):
        reward_measure(problem)


def test_an_empty_log_and_rewards_that_are_not_there() -> None:
    measure = Measure("margin", 0.0, 1.0, "maximise")
    batch = source_of(make_table(3)).read()
    with pytest.raises(RefusedError, match="no column 'margin'"):
        observe(measure, replace(batch, reward=None))
    spoilt = np.where(np.arange(9) == 4, 1.5, batch.reward)
    with pytest.raises(RefusedError, match=r"row 5, column 'margin': 1.5 lies outside the declared range \[0, 1\]"):
        observe(measure, replace(batch, reward=spoilt))
    seen = observe(measure, replace(batch, observed=np.arange(9) > 2))
    assert seen.low[:3].tolist() == [0.0] * 3 and seen.high[:3].tolist() == [1.0] * 3
    np.testing.assert_array_equal(seen.low[3:], seen.high[3:])


# ---- subgroups -------------------------------------------------------------------------------------------------------


def test_units_are_not_chosen_by_what_follows_from_decisions() -> None:
    problem = problem_of(head="carry_over: within")
    assert [variable.name for variable in check_group_variables(problem, ["task"])] == ["task"]  # one recipe for each batch
    several = replace(problem, levels=(replace(problem.levels[0], decision="run"), problem.levels[1]))
    with pytest.raises(SettingError, match="carry_over: within"):
        check_group_variables(several, ["task"])
    assert check_group_variables(several, []) == ()


def test_subgroups_have_results_of_their_own() -> None:
    problem = problem_of()
    certificate = certify(
        source_of(make_table(300), problem), better_policy(problem), scopes=[["recipe"]], by=("task",), ledger=False
    )
    groups = certificate.diagnostics["subgroups"]
    assert [group["label"] for group in groups] == ["plain", "fine"]
    assert sum(group["units"] for group in groups) == certificate.level("recipe").units
    assert sum(group["delta"] for group in groups) + certificate.level("recipe").delta == pytest.approx(0.05)
