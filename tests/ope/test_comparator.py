"""Better than whom: who a certificate compares with, what its sentences say, and what is refused or warned of."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from small_logs import better_policy, legacy_dose, legacy_setting, make_table, problem_of, problem_text, replaced, source_of

from aegis.certificate import Candidate, certify, load_certificate, stated_problem, verify
from aegis.errors import SettingError
from aegis.logs import Source
from aegis.ope import LOGGER_COMPARATOR, Closeness, Comparator, closeness_to, describe_comparator, describe_other_levels
from aegis.policies import (
    Capped,
    Constant,
    Floored,
    FullColumns,
    Legacy,
    Logged,
    Mixture,
    StatedIncumbent,
    TargetColumns,
    Uniform,
)
from aegis.problem import Problem, Scope, parse_problem

TABLE = make_table(160)
WROTE = "the policy that wrote the log, exploration included"


def stated(incumbent: str, full: bool = True, recipe: str = "") -> Problem:
    text = problem_text(full, dose=f"incumbent: {incumbent}")
    return parse_problem(text.replace("  - name: dose", f"    {f'incumbent: {recipe}' if recipe else ''}\n  - name: dose"))


def issued(problem: Problem, table: pa.Table = TABLE, **more: object) -> object:
    return certify(Source(table, problem), better_policy(problem), ledger=False, **more)  # type: ignore[arg-type]


def test_sentences_name_the_comparator() -> None:
    scope = [["dose"]]
    old = issued(problem_of(), scopes=scope)
    assert f"than {WROTE}, while the other levels act as in the log" in old.verdict.sentence
    assert old.levels[0].incumbent_value is None and "no longer exploring" not in old.verdict.sentence
    declared = issued(stated("{policy: logged}"), scopes=scope)
    assert f"than the incumbent, which is {WROTE}" in declared.verdict.sentence
    own = issued(stated("{action: 2}"), scopes=scope)
    assert "than the incumbent (always '2'), while the other levels act as in the log" in own.verdict.sentence
    assert "Estimated over the log as it was written: " in own.verdict.sentence
    assert "is the difference between the incumbent and the log" in own.verdict.sentence  # no rate of exploration is known
    assert "The candidate is assumed fixed before this log was seen" in own.verdict.sentence
    level = own.levels[0]
    assert level.incumbent_value - level.legacy_value == pytest.approx(level.exploration, abs=1e-12)


def test_levels_of_a_scope_may_have_different_comparators() -> None:
    both = issued(stated("{action: 2}"), scopes=[["recipe", "dose"]])
    assert both.levels[0].comparator == f"the incumbent at 'dose' (always '2') and {WROTE}, at 'recipe'"
    assert both.levels[0].others == ""
    all_of_it = issued(stated("{action: 2}", recipe="{action: a}"), scopes=[["recipe", "dose"]])
    assert all_of_it.levels[0].comparator == "the incumbent ('recipe': always 'a'; 'dose': always '2')"


def test_a_log_of_several_policies_is_an_average() -> None:
    problem = problem_of()
    assert describe_comparator(problem, LOGGER_COMPARATOR, Scope("dose"), {"dose"}).startswith("the average of the log")
    assert describe_comparator(problem, LOGGER_COMPARATOR, Scope("dose"), {"recipe"}) == WROTE
    assert describe_other_levels(problem, LOGGER_COMPARATOR, Scope(problem.names)) == ""


def test_a_candidate_that_does_what_the_incumbent_does_is_refused() -> None:
    problem = stated("{action: 2}")
    same = Legacy(problem, {"recipe": Uniform(), "dose": Constant(2)})
    found = certify(Source(TABLE, problem), same, scopes=[["dose"]], ledger=False)
    assert found.exit_code == 4 and "is identical to the incumbent (always '2')" in found.verdict.sentence
    over_the_log = certify(Source(TABLE, problem_of()), Legacy(problem_of(), same.rules), scopes=[["dose"]], ledger=False)
    assert over_the_log.verdict.verdict != "refused"  # over the log the same policy is another question


@pytest.mark.parametrize("incumbent", ["{action: 2, epsilon: 0.1}", "{action: 2, max_ratio: 1.5}"])
@pytest.mark.parametrize("full", [True, False])
def test_a_promise_that_a_row_breaks_is_refused_by_name(incumbent: str, full: bool) -> None:
    found = issued(stated(incumbent, full), scopes=[["dose"]], method="plain")
    assert found.verdict.verdict == "refused" and found.exit_code == 4
    assert (
        "level 'dose': under the stated incumbent the logged action cannot have the logged probability" in found.verdict.sentence
    )
    assert "row" in found.verdict.sentence and "correct 'incumbent' in the problem file" in found.findings[0]["fix"]
    assert [item["code"] for item in found.findings if item["severity"] == "refused"] == ["incumbent-impossible"]
    assert "correct 'incumbent'" not in found.verdict.sentence  # the remedy is what to do, and stands there


def never_logged() -> pa.Table:
    """Return a log in which dose 1 is never taken, and its probability is 0."""
    chances = legacy_dose(TABLE["temperature"].to_numpy()) * [0.0, 1.0, 1.0]
    chances /= chances.sum(axis=1, keepdims=True)
    rng = np.random.default_rng(3)
    dose = (np.cumsum(chances, axis=1) <= rng.random(len(chances))[:, None]).sum(axis=1)
    table = replaced(TABLE, "dose", dose + 1)
    for place, name in enumerate(("p_1", "p_2", "p_3")):
        table = replaced(table, name, chances[:, place])
    return replaced(table, "p_dose", chances[np.arange(len(dose)), dose])


def test_what_the_log_never_does_counts_at_its_worst_with_a_warning() -> None:
    table = never_logged()
    found = issued(stated("{action: 1}"), table, scopes=[["dose"]])
    codes = [item["code"] for item in found.findings]
    assert "incumbent-unreached" in codes and found.verdict.verdict == "not yet"
    assert found.levels[0].gain_lower < 0
    half = issued(stated("{policy: uniform}"), table, scopes=[["dose"]])
    share = next(item for item in half.findings if item["code"] == "incumbent-unreached")["figures"]["share"]
    assert share == pytest.approx(1 / 3, abs=1e-6)


def test_a_policy_may_be_given_as_the_incumbent(tmp_path: Path) -> None:
    problem = problem_of()
    legacy = FullColumns(problem, {"recipe": ["p_a", "p_b"], "dose": ["p_1", "p_2", "p_3"]})
    over_the_log = certify(Source(TABLE, problem), better_policy(problem), ledger=False)
    given = certify(Source(TABLE, problem), better_policy(problem), incumbent=legacy, ledger=False)
    for one, other in zip(over_the_log.levels, given.levels, strict=True):
        if len(one.scope) == 1:
            assert other.comparator == "the incumbent (the policy that was given)"
            # The policy that wrote the log, given as a policy: the same estimate; the bets know less of it beforehand.
            assert other.estimate == pytest.approx(one.estimate, rel=0.2)
    given.save(tmp_path / "certificate.json")
    content = load_certificate(tmp_path / "certificate.json")
    assert content["settings"]["incumbent"]["digest"] is not None
    again = verify(
        content, Source(TABLE, stated_problem(content)), [Candidate(better_policy(problem), "candidate 1")], Candidate.of(legacy)
    )
    assert again.holds, [str(item) for item in again.differences]


def test_taken_probabilities_are_enough_and_no_bound_rests_on_a_promise_about_the_others() -> None:
    columns = {"dose": "new_dose"}
    results = []
    for problem in (stated("{action: 2}", full=False), stated("{action: 2, max_ratio: 4}", full=False)):
        found = certify(Source(TABLE, problem), TargetColumns(problem, columns), scopes=[["dose"]], ledger=False)
        results.append((found.levels[0].method, found.levels[0].estimate, found.levels[0].gain_lower))
    assert results[0] == results[1] and results[0][0] == "plain, both sides"


def test_other_levels_are_corrected_where_it_is_asked_for() -> None:
    problem = stated("{action: 2}", recipe="{columns: [p_a, p_b], epsilon: 0}")
    found = issued(problem, scopes=[["dose"]], others="incumbent")
    assert (
        found.levels[0].others == "while the incumbent acts at the other levels"
        and found.levels[0].method == "water-filled, corrected"
    )
    assert found.settings["others"] == "incumbent"
    same = issued(problem, scopes=[["dose"]], method="plain")  # at 'recipe' the incumbent is the logger, by its columns
    assert found.levels[0].estimate == pytest.approx(same.levels[0].estimate, abs=1e-9)
    with pytest.raises(SettingError, match="way in which other levels act"):
        issued(problem, others="legacy")


def test_clusters_blocks_and_several_candidates_give_the_same_numbers() -> None:
    problem = parse_problem(problem_text(head="cluster: line", dose="incumbent: {action: 2}"))
    whole = certify(Source(TABLE, problem), better_policy(problem), ledger=False)
    parts = certify(Source(TABLE.slice(0), problem), [better_policy(problem)], ledger=False)
    assert [level.tests for level in whole.levels] == [level.tests for level in parts.levels]


def test_closeness_of_candidates() -> None:
    problem = stated("{action: 2, epsilon: 0.5}")
    comparator = Comparator.of(problem)

    class Scores:
        def predict(self, level: str, batch: object) -> np.ndarray:
            raise AssertionError

    capped = Capped(problem, Scores(), Logged(problem), 2.0, ["dose"])  # type: ignore[arg-type]
    assert closeness_to(capped, "dose", comparator).variation == 1.0  # 2 x 0.5 is all of it
    assert closeness_to(capped, "recipe", comparator) == Closeness(1.0, 0.0, 0.0)  # it acts at 'dose' only
    assert closeness_to(capped, "dose", LOGGER_COMPARATOR) == Closeness(cap=2.0, variation=0.5)
    over = Capped(problem, Scores(), StatedIncumbent(problem), 2.0, ["dose"])  # type: ignore[arg-type]
    assert closeness_to(over, "dose", comparator) == Closeness(cap=2.0, variation=0.5)
    step = Floored(problem, Legacy(problem, {"recipe": Uniform(), "dose": Uniform()}), StatedIncumbent(problem), 0.7, ["dose"])
    assert closeness_to(step, "dose", comparator).step == pytest.approx(0.3)
    assert closeness_to(Mixture([step, over]), "dose", comparator).variation == pytest.approx(0.5)
    assert closeness_to(Logged(problem), "dose", comparator) == Closeness(step=0.5, variation=0.5)
    given = Comparator.of(problem, Legacy(problem, {"recipe": Uniform(), "dose": Uniform()}))
    assert closeness_to(StatedIncumbent(problem), "dose", given) == Closeness()  # another incumbent was given


def test_a_comparator_is_kept_and_restored() -> None:
    problem = stated("{action: 2, epsilon: 0.5}")
    kept = json.loads(json.dumps(Comparator.of(problem).at("dose").plain()))
    again = Comparator.restore(kept, problem_of())
    assert again.levels == {"dose"} and again.rates == {"dose": 0.5} and Comparator.restore({}, problem) == LOGGER_COMPARATOR
    assert Comparator.of(problem).at("recipe") == LOGGER_COMPARATOR


def test_the_incumbents_probabilities_may_be_columns_of_the_log() -> None:
    problem = stated("{columns: [m_1, m_2, m_3]}")
    wrong = TABLE
    for name, chance in (("m_1", 0.2), ("m_2", 0.5), ("m_3", 0.3)):
        wrong = wrong.append_column(name, pa.array(np.full(len(TABLE), chance)))
    found = issued(problem, wrong, scopes=[["dose"]])
    assert "the probabilities in 'm_1' to 'm_3'" in found.verdict.sentence
    assert legacy_setting(np.zeros(1)).shape == (1, 2) and source_of(TABLE).problem.names == problem.names
