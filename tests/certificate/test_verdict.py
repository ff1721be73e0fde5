"""The verdict in words: what is refused beside it, candidates that do what the legacy does, and one of a thing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from small_logs import better_policy, legacy_dose, legacy_setting, make_table, problem_of, replaced, source_of

from aegis.certificate import CERTIFIED, NOT_YET, REFUSED, LevelResult, certify
from aegis.certificate.verdict import Caveats, blocking_level, judge_results
from aegis.errors import pluralise
from aegis.logs import Source
from aegis.policies import Function, TargetColumns
from aegis.problem import Level, Rows, parse_problem
from aegis.report import render_certificate

SPREAD = {"largest": 2.0, "ess_share": 0.7}


def result(verdict: str, scope: str = "dose", units: int = 500, further: int | None = None, **more: Any) -> LevelResult:
    values = dict.fromkeys(("estimate_error", "value_lower", "value_estimate", "legacy_value"), None)
    given = {"estimate": 0.1, "gain_lower": 0.05, "weights": SPREAD, **more}
    return LevelResult(
        candidate="mine",
        scope=(scope,),
        verdict=verdict,
        reason="why",
        delta=0.05,
        margin=0.0,
        units=units,
        further_units=further,
        method="plain",
        **values,
        **given,
    )


def judged(*levels: LevelResult) -> tuple[str, str]:
    found = judge_results(problem_of(), levels, 0.05, ["look at it"])
    return found.sentence, found.next_step


@pytest.mark.parametrize("verdict", [CERTIFIED, NOT_YET])
def test_a_verdict_on_one_scope_tells_of_the_refused_ones(verdict: str) -> None:
    refused = [result(REFUSED, "recipe"), result(REFUSED, "other")]
    assert judged(result(verdict), *refused)[0].endswith(". 2 of 3 scopes are refused: see the findings.")
    assert judged(refused[0], result(verdict))[0].endswith(". 1 of 2 scopes is refused: see the findings.")
    assert "refused" not in judged(result(verdict), result(NOT_YET, "recipe"))[0]
    assert judged(*refused)[0] == "Refused: why"


def test_a_certified_verdict_says_that_decisions_may_act_on_each_other() -> None:
    signs = judge_results(
        problem_of(),
        [result(CERTIFIED)],
        0.05,
        [],
        caveats=Caveats(warned=["siblings-interfere", "drift", "rewards-not-compared"]),
    )
    assert "act on each other (siblings-interfere): if they do, this gain need not be there." in signs.sentence
    assert signs.next_step.startswith("First rule out that decisions or episodes act on each other (siblings-interfere).")
    untested = judge_results(problem_of(), [result(CERTIFIED)], 0.05, [], caveats=Caveats(warned=["episodes-not-compared"]))
    assert "was not tested, because the controller reacts to them (episodes-not-compared)." in untested.sentence
    plain = judge_results(problem_of(), [result(CERTIFIED)], 0.05, [], caveats=Caveats(warned=["drift"]))
    assert plain.sentence == judged(result(CERTIFIED))[0]
    assert (
        "act on"
        not in judge_results(problem_of(), [result(NOT_YET)], 0.05, [], caveats=Caveats(warned=["siblings-interfere"])).sentence
    )


def test_one_unit_is_one_unit() -> None:
    sentence, step = judged(result(NOT_YET, units=1))
    assert "on 1 episode it" in sentence and step.startswith("Keep the incumbent. 1 episode is too few")
    assert "2 episodes are too few" in judged(result(NOT_YET, units=2))[1]
    assert "on 1 episode." in judged(result(CERTIFIED, units=1))[0]
    assert "The whole log again takes about 1 further episode, but" in judged(result(NOT_YET, further=1))[1]
    assert [pluralise(number, "clusters") for number in (0, 1, 2)] == ["0 clusters", "1 cluster", "2 clusters"]


def test_a_candidate_identical_to_its_comparator_is_refused() -> None:
    """As a function that gives back the probabilities of the log: there is nothing to gain, and nothing to learn from that."""

    def legacy(level: Level, rows: Rows) -> np.ndarray[Any, Any]:
        return legacy_setting(rows["task"]) if level.name == "recipe" else legacy_dose(rows["temperature"])

    problem = problem_of()
    found = certify(source_of(make_table(120)), Function(problem, legacy), ledger=False)
    assert found.verdict.verdict == REFUSED and found.exit_code == 4
    assert [item["code"] for item in found.findings if item["severity"] == "refused"] == ["identical"] * len(found.levels)
    assert "identical to the policy that wrote the log" in found.verdict.sentence
    assert "Do not hand over. Keep the incumbent" in found.verdict.next_step
    assert all(level.gain_lower is None for level in found.levels)
    other = certify(source_of(make_table(120)), better_policy(problem), ledger=False)
    assert not any("identical" in level.reason for level in other.levels)


def test_a_candidate_that_differs_in_one_decision_is_not_identical() -> None:
    table, problem = make_table(120), problem_of(full=False)
    for row in (None, 7):
        same = table["p_dose"].to_numpy().copy()
        if row is not None:
            same[row] = same[row] / 2
        logged = replaced(table, "new_dose", same)
        found = certify(
            source_of(logged, problem), TargetColumns(problem, {"dose": "new_dose"}), scopes=[["dose"]], fresh=True, ledger=False
        )
        assert ("identical" in found.levels[0].reason) == (row is None)


def test_weights_that_differ_stand_in_the_way() -> None:
    spread = {"level": "dose", "ess_share": 0.5, "largest": 3.0}
    assert "at 'dose' slow things down" in blocking_level(problem_of(), [spread], [result(NOT_YET)])
    assert (
        blocking_level(problem_of(), [{**spread, "ess_share": 1.0}], [result(NOT_YET)])
        == "No level's weights stand in the way: all are 1."
    )


def test_a_cap_is_advised_together_with_what_it_needs() -> None:
    """Where only the chance of the action taken is logged, learning a capped candidate is refused."""
    heavy = {"level": "dose", "ess_share": 0.1, "largest": 30.0}
    needs = "; it needs the probabilities of all actions, logged in 'columns' or declared by 'shares'"
    assert needs in blocking_level(problem_of(full=False), [heavy], [result(NOT_YET)])
    assert needs not in blocking_level(problem_of(), [heavy], [result(NOT_YET)])
    step = judge_results(problem_of(full=False), [result(NOT_YET)], 0.05, []).next_step
    assert needs in step and "'shares', 'policy: uniform' or 'base'" in step
    assert "--kind capped" in judged(result(NOT_YET))[1] and needs not in judged(result(NOT_YET))[1]


def test_a_log_with_hardly_any_decisions_like_the_candidates_foresees_nothing() -> None:
    thin = {**SPREAD, "effective_units": 4.2}
    step = judged(result(NOT_YET, further=442_452, weights=thin))[1]
    assert "hardly contains decisions like those of mine: 500 episodes tell as much of it as about 4.2 of its own would" in step
    assert "aegis learn --kind capped" in step and "442452" not in step
    assert "takes about 70 further" in judged(result(NOT_YET, further=70, weights={**SPREAD, "effective_units": 20.0}))[1]
    assert "too few to foresee anything" in judged(result(NOT_YET, units=9, weights=thin))[1]
    assert "hardly" not in "".join(judged(result(CERTIFIED, weights=thin)))


def test_extreme_weights_are_told_from_a_log() -> None:
    """Of 824 episodes some eight did what the candidate does; the effective number is theirs, and no further one is foreseen."""
    rng = np.random.default_rng(3)
    taken = (rng.random(824) < 0.01).astype(int)
    probability = np.where(taken == 1, 0.01, 0.99)
    problem = parse_problem(
        "episode: e\nreward: {column: r, range: [0, 1]}\nlevels:\n  - name: d\n    context: [x]\n"
        "    action: {column: a, values: [0, 1]}\n    propensity: {column: p}\n"
    )
    rows = {
        "e": np.arange(824),
        "x": rng.random(824),
        "a": taken,
        "p": probability,
        "r": np.where(taken == 1, 0.9, rng.random(824)),
    }
    source = Source(pa.table({**rows, "target": taken.astype(float)}), problem)
    found = certify(source, TargetColumns(problem, {"d": "target"}), ledger=False)
    level = found.levels[0]
    assert level.verdict == NOT_YET and level.tests[0].units_needed is not None and level.further_units is None
    assert level.weights["effective_units"] == pytest.approx(taken.sum(), abs=1.0)
    assert "hardly contains decisions like" in found.verdict.next_step
    assert "not to be foreseen" in render_certificate(found.to_json())
