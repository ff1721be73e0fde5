"""What a log of taken actions cannot show of an incumbent: promises, estimates, and whom a verdict lets you hand over from."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from aegis.agents import CandidateSettings, learn
from aegis.audit import audit_log
from aegis.certificate import Candidate, Certificate, certify, load_certificate
from aegis.certificate.verdict import judge_results
from aegis.certificate.weight_checks import IncumbentRatios
from aegis.comparison import compare
from aegis.errors import PolicyError, RefusedError
from aegis.logs import Source
from aegis.ope import CandidateView, Comparator, RewardModels, reward_measure
from aegis.policies import Capped, Function, Logged
from aegis.problem import Array, Problem, Scope, parse_problem
from aegis.report import write_report
from aegis.rng import stream

# Two contexts, three actions. In the second context the log never takes action 2, to which the incumbent gives 0.3. Every
# ratio mu / nu of an action taken is at most 1.34, so that no single row breaks a promise of 1.4. The candidate earns exactly
# what the incumbent does.
LOGGED = np.array([[0.6, 0.25, 0.15], [0.5, 0.5, 0.0]])
INCUMBENT = np.array([[0.8, 0.2, 0.0], [0.4, 0.3, 0.3]])
CANDIDATE = np.array([[0.1, 0.3, 0.6], [0.2, 0.8, 0.0]])
MEANS = np.array([[0.5, 0.6, 0.55], [0.7, 0.8, 1.0]])
RUNS, MOST = 20, 4  # the 99 % limit of a binomial at 5 %

TEXT = """
episode: id
reward: {{column: y, range: [0, 1]}}
levels:
  - name: act
    context: [x]
    action: {{column: a, values: [0, 1, 2]}}
    propensity: {propensity}
    {incumbent}
"""
TAKEN, WHOLE = "{column: p}", "{columns: [p0, p1, p2]}"
STATED = "incumbent: {columns: [m0, m1, m2]}"
PROMISED = "incumbent: {columns: [m0, m1, m2], max_ratio: 1.4}"


def problem_with(propensity: str, incumbent: str = "") -> Problem:
    return parse_problem(TEXT.format(propensity=propensity, incumbent=incumbent))


def log_of(seed: int, size: int = 400, reached: bool = False, logged: Array = LOGGED, means: Array = MEANS) -> pa.Table:
    """Return a log; reached: the incumbent stays where the log goes."""
    rng = stream(seed, "unreached")
    x = rng.integers(0, 2, size)
    nu, mu = logged[x], (LOGGED if reached else INCUMBENT)[x]
    a = (rng.random(size)[:, None] > np.cumsum(nu, axis=1)).sum(axis=1)
    y = (rng.random(size) < means[x, a]).astype(float)
    chances = {f"{name}{k}": values[:, k] for name, values in (("p", nu), ("m", mu)) for k in range(3)}
    return pa.table({"id": np.arange(size), "x": x.astype(float), "a": a, "p": nu[np.arange(size), a], "y": y, **chances})


def new(level: Any, rows: Any) -> Array:
    """Answer for the candidate."""
    return np.asarray(CANDIDATE[np.asarray(rows["x"]).ravel().astype(int)])


def issued(problem: Problem, table: pa.Table, **more: Any) -> Certificate:
    return certify(Source(table, problem), Function(problem, new), what=["gain"], ledger=False, **more)


def codes(found: Certificate, severity: str) -> list[str]:
    return [item["code"] for item in found.findings if item["severity"] == severity]


def test_the_candidate_of_these_tests_gains_nothing() -> None:
    assert (0.5 * (CANDIDATE - INCUMBENT) * MEANS).sum() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("promise", ["max_ratio: 1.4", "epsilon: 0.28"])
def test_a_false_promise_about_actions_that_are_never_taken_certifies_nothing(promise: str) -> None:
    problem = problem_with(TAKEN, f"incumbent: {{columns: [m0, m1, m2], {promise}}}")
    found = [issued(problem, log_of(seed)) for seed in range(RUNS)]
    assert sum(item.certified for item in found) <= MOST
    refused = [item for item in found if "incumbent-unreached" in codes(item, "refused")]
    assert len(refused) > RUNS // 2  # the ratios average 0.85, and a bet refutes the promise
    assert "average 0.8" in refused[0].verdict.sentence and refused[0].exit_code == 4
    assert "Leave the promise out" in refused[0].verdict.next_step


def test_a_ratio_is_known_only_where_every_action_is_logged() -> None:
    taken, whole = (Comparator.of(problem_with(propensity, PROMISED)) for propensity in (TAKEN, WHOLE))
    assert taken.ratio(Scope("act")) is None and taken.promised == {"act": 1.4}
    assert whole.ratio(Scope("act")) == 1.4 and not whole.promised


def test_a_promise_that_is_kept_is_not_refused() -> None:
    problem = problem_with(TAKEN, PROMISED)
    found = [issued(problem, log_of(seed, reached=True)) for seed in range(RUNS)]
    assert not any("incumbent-unreached" in codes(item, "refused") + codes(item, "warning") for item in found)


def test_bets_on_missing_mass_are_the_same_in_pieces_and_by_cluster() -> None:
    clustered = parse_problem("cluster: line\n" + TEXT.format(propensity=TAKEN, incumbent=PROMISED))
    table = log_of(1, 3000)
    table = table.append_column("line", pa.array(np.arange(3000) // 2))
    assert "incumbent-unreached" in codes(issued(clustered, table), "refused")
    for problem in (clustered, problem_with(TAKEN, PROMISED)):
        (batch,) = Source(table, problem).batches()
        comparator, policy = Comparator.of(problem), Function(problem, new)
        whole, first, later = (IncumbentRatios.start(problem, "act", reward_measure(problem), 1.4) for _ in range(3))
        for ratios, rows in ((whole, range(3000)), (first, range(1000)), (later, range(1000, 3000))):
            ratios.add(CandidateView(problem, batch.take_episodes(np.array(rows)), policy, RewardModels(), comparator), None)
        first.merge(later)
        whole.close()
        first.close()
        assert whole.finding() == first.finding() and whole.refuted


@pytest.mark.parametrize(
    ("propensity", "method"), [(TAKEN, "auto"), (WHOLE, "plain"), (WHOLE, "auto"), (WHOLE, "robust")], ids=str
)
def test_estimates_count_what_is_never_logged_at_its_worst(propensity: str, method: str, tmp_path: Path) -> None:
    problem, table = problem_with(propensity, STATED), log_of(3, 20_000)
    found = issued(problem, table, method=method)
    (level,) = found.levels
    assert "incumbent-unreached" in codes(found, "warning")
    assert level.unreached == pytest.approx(0.15, abs=0.03)
    # Counted at 0 it looked like a gain of 0.15; at 1, which is what those actions earn here, it is the truth, 0.
    assert abs(level.estimate) < 4 * level.estimate_error
    assert level.incumbent_value == pytest.approx(0.5 * (INCUMBENT * MEANS).sum(), abs=0.02)
    assert level.estimate + level.exploration == pytest.approx(level.value_estimate - level.legacy_value, abs=1e-9)
    assert "the incumbent counts as earning the most where the log never acts" in found.verdict.sentence
    page = write_report(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "lies where the log never acts, and counts as if it earns the most there" in page


def test_the_gain_over_the_log_is_one_number_whoever_the_incumbent_is() -> None:
    table = log_of(4, 2000, reached=True)
    numbers = set()
    for stated in ("", "incumbent: {columns: [m0, m1, m2]}", "incumbent: {action: 0}", "incumbent: {action: 1, max_ratio: 4}"):
        (level,) = issued(problem_with(WHOLE, stated), table).levels
        numbers.add(round(level.value_estimate - level.legacy_value, 12))
        if stated:
            assert level.estimate + level.exploration == pytest.approx(level.value_estimate - level.legacy_value, abs=1e-9)
    assert len(numbers) == 1


def test_compare_counts_it_so_too_and_says_so() -> None:
    problem, table = problem_with(WHOLE, STATED), log_of(3, 4000)
    found = compare(Source(table, problem), Function(problem, new), ledger=False)
    for method in ("IPS", "SNIPS", "doubly robust"):
        estimate = found.estimate(method, "gain")
        assert estimate is not None and abs(estimate.value) < 4 * estimate.error
    assert found.incumbent is not None and found.incumbent.value == pytest.approx(0.5 * (INCUMBENT * MEANS).sum(), abs=0.05)
    assert any("the log never takes" in note for note in found.notes)


def test_the_certificate_after_a_comparison_is_the_one_that_compare_names(tmp_path: Path) -> None:
    problem, table = problem_with(WHOLE, STATED), log_of(5, 800)
    candidate = Candidate(Function(problem, new, name="new"), "new")
    note = compare(Source(table, problem), candidate, ledger=tmp_path).notes[-1]
    assert "aegis certify --policy new --scope act" in note and "without --gain-only" in note
    same = certify(Source(table, problem), candidate, scopes=[["act"]], ledger=tmp_path)
    other = certify(Source(table, problem), candidate, scopes=[["act"]], what=["gain"], ledger=tmp_path)
    assert same.verdict.verdict == "not yet" and "chosen-after-results" in codes(other, "refused")


# ---- handing over from whom ------------------------------------------------------------------------------------------------

GOOD = np.array([[0.1, 0.9, 0.2], [0.1, 0.9, 0.2]])  # action 1, which the candidate takes more often, is the best


def test_a_gain_over_the_log_is_no_reason_to_hand_over_by_itself(tmp_path: Path) -> None:
    found = issued(problem_with(WHOLE), log_of(6, 3000, means=GOOD))
    assert found.certified and found.levels[0].against == "log"
    step = found.verdict.next_step
    assert step.startswith("If the policy that wrote the log, exploration included, is what acts if nothing is handed over")
    assert "If your controller does not explore then, do not hand over yet: state the incumbent" in step
    page = write_report(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Yes: hand over" not in page and "Better than the policy that wrote the log" in page
    assert "assumed not to have been made from them" in page


def test_a_gain_over_a_stated_incumbent_is() -> None:
    found = issued(problem_with(WHOLE, STATED), log_of(6, 3000, reached=True, means=GOOD))
    assert found.certified and found.levels[0].against == "incumbent"
    assert found.verdict.next_step.startswith("Deploy candidate 1 at 'act' unchanged.")


TURNS = np.array([[0.9, 0.05, 0.05], [0.1, 0.1, 0.8]])


def by_turns(seed: int, size: int = 3000) -> pa.Table:
    """Return a log that two policies wrote in turn; who acted is not in the context."""
    table = log_of(seed, size, logged=TURNS, means=GOOD)
    rng = stream(seed, "contexts")
    return table.set_column(table.schema.get_field_index("x"), "x", pa.array(rng.integers(0, 2, size).astype(float)))


def test_a_gain_over_an_average_says_to_state_the_incumbent_first(tmp_path: Path) -> None:
    found = issued(problem_with(WHOLE), by_turns(7))
    assert found.certified and found.levels[0].against == "average of the log"
    assert "which several policies wrote, or one that changed" in found.verdict.sentence
    assert found.verdict.next_step.startswith("Before you hand over, state the incumbent")
    found.save(tmp_path / "c.json")
    assert load_certificate(tmp_path / "c.json")["levels"][0]["against"] == "average of the log"
    page = write_report(found, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "Yes: hand over" not in page and "State the incumbent before you hand over" in page


class Ones:
    """A reward model that prefers the second action."""

    def predict(self, level: str, batch: Any) -> Array:
        return np.tile([0.0, 1.0, 0.0], (len(batch.levels[level]), 1))


@pytest.mark.parametrize("stated", ["", "incumbent: {action: 0}"])
def test_a_candidate_that_is_capped_by_several_policies_in_turn_is_refused(stated: str) -> None:
    problem, table = problem_with(WHOLE, stated), by_turns(8)
    capped = Capped(problem, Ones(), Logged(problem), 2.0)
    found = certify(Source(table, problem), [Function(problem, new), capped], ledger=False)
    verdicts = {level.candidate: level.verdict for level in found.levels}
    assert verdicts["candidate 2"] == "refused" and verdicts["candidate 1"] != "refused"
    assert codes(found, "refused") == ["follows-moving-log"]
    with pytest.raises(PolicyError, match="--kind stepped"):
        learn(Source(table, problem), settings=CandidateSettings("capped"))
    one = log_of(8, 3000, means=GOOD)
    kept = certify(Source(one, problem), Capped(problem, Ones(), Logged(problem), 2.0), ledger=False)
    assert "follows-moving-log" not in codes(kept, "refused")


def test_a_log_that_contradicts_the_incumbent_is_refused_by_every_command() -> None:
    problem = problem_with(WHOLE, "incumbent: {columns: [m0, m1, m2], max_ratio: 1.3}")
    table = log_of(9, 2000)
    words = "row 1, level 'act': under the stated incumbent"  # no context keeps the promise, so that the first row breaks it
    found = issued(problem, table)
    assert codes(found, "refused") == ["incumbent-impossible"] and words in found.verdict.sentence
    audited = audit_log(Source(table, problem))
    assert audited.verdict == "refused" and any(
        item.code == "incumbent-impossible" and item.message in found.verdict.sentence for item in audited.findings
    )
    with pytest.raises(RefusedError, match="under the stated incumbent"):
        learn(Source(table, problem))


def test_a_given_incumbent_is_named() -> None:
    problem, table = problem_with(WHOLE), log_of(6, 600, reached=True)
    given = Candidate(Function(problem, lambda level, rows: np.tile([1.0, 0.0, 0.0], (len(rows["x"]), 1))), "same", "mine:same")
    found = issued(problem, table, incumbent=given)
    assert found.levels[0].comparator == "the incumbent (the policy 'mine:same')"
    assert "than the incumbent (the policy 'mine:same')" in found.verdict.sentence


def test_a_bound_above_the_estimate_is_explained() -> None:
    found = issued(problem_with(WHOLE, STATED), log_of(6, 3000, reached=True, means=GOOD))
    (level,) = found.levels
    above = replace(level, estimate=level.gain_lower - 0.01)
    assert "the bound bets on them and may lie above it" in judge_results(problem_with(WHOLE), [above], 0.05, []).sentence
    assert "may lie above" not in found.verdict.sentence
    far = replace(level, verdict="not yet", further_units=604_175_667)
    assert "more than 10 million new episodes" in judge_results(problem_with(WHOLE), [far], 0.05, []).next_step
    nothing = replace(level, exploration=0.0)
    assert "the incumbent earns as much as the log did." in judge_results(problem_with(WHOLE), [nothing], 0.05, []).sentence
    assert math.isfinite(level.estimate)
