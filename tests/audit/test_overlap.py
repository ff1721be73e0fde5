"""Weights of a candidate: figures, mass outside the support, and weights that do not average one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from audit_cases import audited, logged, taken_only, with_propensities
from fault_logs import base, found
from hostile_logs import one_level, rows_of

from aegis.audit import Audit, audit_log
from aegis.audit.check import make_finding
from aegis.certificate import certify
from aegis.certificate.assumptions import list_assumptions
from aegis.logs import Source
from aegis.ope import CandidateView, RewardModels, WeightHistogram, level_weights, reward_measure
from aegis.policies import Legacy, TargetColumns, Uniform
from aegis.problem import (
    Scope,
    parse_problem,
)
from aegis.rng import stream
from aegis.worlds import make_world

PROBLEM = parse_problem(
    """
episode: k
reward: {column: r, range: [0, 1]}
levels:
  - name: act
    context: [x]
    action: {column: a, values: [u, v, w]}
    available: [cu, cv, cw]
    propensity: {columns: [pu, pv, pw]}
"""
)


def audited_candidate(candidate: list[float], spread: bool, count: int = 400, seed: int = 1) -> Audit:
    """Audit a candidate with the same distribution everywhere; spread: over available actions only."""
    rng = stream(seed, "light weights")
    can = np.stack([np.ones(count, bool), np.ones(count, bool), rng.random(count) < 0.3], axis=1)
    p = np.where(can[:, 2:], [0.4, 0.4, 0.2], [0.5, 0.5, 0.0])
    a = (rng.random((count, 1)) > p.cumsum(axis=1)[:, :2]).sum(axis=1)
    q = np.tile(candidate, (count, 1))
    q = q * can / (q * can).sum(axis=1, keepdims=True) if spread else q
    columns = {"k": np.arange(count), "x": rng.random(count), "a": np.array(["u", "v", "w"])[a], "r": rng.random(count)}
    columns |= {f"c{name}": can[:, place] for place, name in enumerate("uvw")}
    columns |= {f"p{name}": p[:, place] for place, name in enumerate("uvw")} | {"q": q[np.arange(count), a]}
    return audit_log(Source(pa.table(columns), PROBLEM), TargetColumns(PROBLEM, {"act": "q"}), columns=("q",))


def test_probability_on_unavailable_actions_is_noticed_by_the_mean_of_weights() -> None:
    found = [item for item in audited_candidate([0.05, 0.05, 0.9], spread=False).findings if item.code == "outside-support"]
    assert len(found) == 1 and found[0].severity == "warning" and "or that are not available" in found[0].message
    assert found[0].figures["share"] == pytest.approx(0.63, abs=0.2)


def test_candidates_that_stay_within_what_is_available_are_not_warned_about() -> None:
    for seed in range(20):
        assert "outside-support" not in audited_candidate([0.2, 0.5, 0.3], spread=True, seed=seed).codes()
    assert "outside-support" not in audited_candidate([0.05, 0.05, 0.9], spread=False, count=50).codes()


def test_histogram_figures() -> None:
    weights = np.exp(stream(3, "weights").normal(size=5000))
    weights[:500] = 0.0
    histogram = WeightHistogram()
    for part in np.split(weights, 5):
        histogram.add(part)
    assert histogram.effective == pytest.approx(weights.sum() ** 2 / (5000 * (weights**2).sum()))
    assert histogram.heaviest(0.01) == pytest.approx(np.sort(weights)[-50:].sum() / weights.sum(), rel=0.05)
    assert histogram.quantile(0.5) == pytest.approx(np.quantile(weights, 0.5), rel=0.2)
    assert histogram.quantile(0.05) == 0.0 and histogram.mean == pytest.approx(weights.mean())


@pytest.mark.parametrize("per", ["decision", "recipe", "episode"])
@pytest.mark.parametrize("carry_over", ["none", "within"])
def test_unit_weights_by_hand(per: str, carry_over: str) -> None:
    problem, batch = logged("plant", "natural", 4, 8)
    problem = replace(problem, carry_over=carry_over, reward=replace(problem.reward, per=per))  # type: ignore[arg-type]
    policy = Legacy(problem, {name: Uniform() for name in problem.names})
    scope = Scope(("recipe", "dose"))
    found = CandidateView(problem, batch, policy, RewardModels()).unit_weights(scope)
    names = list(problem.names)
    for episode in range(4):
        one = batch.take_episodes([episode])
        w = {name: (level_weights(policy, one, name) if name in scope else np.ones(len(one.levels[name]))) for name in names}
        above = one.ancestors(names[-1])
        rows = []
        for row in range(len(one.levels[names[-1]])):
            mine = {name: int(above[name][row]) for name in names}
            if per == "episode":
                value = np.prod([w[name].prod() for name in names])
            elif per == "recipe":
                inside = above["recipe"] == mine["recipe"]
                earlier = above["recipe"] < mine["recipe"]
                value = w["recipe"][: mine["recipe"] + 1].prod() if carry_over == "within" else w["recipe"][mine["recipe"]]
                value *= w["dose"][inside].prod() * (w["dose"][earlier].prod() if carry_over == "within" else 1.0)
            elif carry_over == "within":
                value = w["recipe"][: mine["recipe"] + 1].prod() * w["dose"][: row + 1].prod()
            else:
                value = w["recipe"][mine["recipe"]] * w["dose"][row]
            rows.append(value)
        assert found[episode] == pytest.approx(one.episode_means(np.array(rows))[0])


def test_a_candidate_far_from_the_log_has_poor_overlap_and_the_level_is_named() -> None:
    plant = make_world("additive")
    batch = plant.episodes(0, 300, plant.legacy("natural"), 5)
    uniform = Legacy(plant.problem, {name: Uniform() for name in plant.problem.names})
    audit = audited(plant.problem, batch, policy=uniform, scope=["inner", "meta"])
    item = found(audit, "poor-overlap")
    assert "--kind capped" in item.fix and item.level in ("inner", "meta") and "needs" not in item.fix
    problem, narrowed = taken_only(plant.problem, batch)
    narrow = audited(problem, narrowed, policy=uniform, scope=["inner", "meta"])
    assert "(it needs the probabilities of all actions" in found(narrow, "poor-overlap").fix
    assert audit.figures["weights_effective_share"] < 0.05
    same = audited(plant.problem, batch, policy=plant.legacy("natural"))
    assert same.findings == () and same.figures["weights_effective_share"] == pytest.approx(1.0)
    assert same.figures["weights_largest"] == pytest.approx(1.0) and same.figures["weights_mean"] == pytest.approx(1.0)


def test_mass_outside_the_support_is_found() -> None:
    plant = make_world("additive")
    problem, batch = base()
    full = batch.levels["inner"].mu_full
    assert full is not None
    narrow = full.copy()
    narrow[:, 0] = np.where(batch.levels["inner"].action == 0, narrow[:, 0], 0.0)
    uniform = Legacy(plant.problem, {name: Uniform() for name in problem.names})
    audit = audited(problem, with_propensities(batch, "inner", narrow), policy=uniform)
    share = found(audit, "outside-support").figures["share"]
    assert share == pytest.approx((batch.levels["inner"].action != 0).mean() / 11)


def test_words_of_the_assumption() -> None:
    problem = one_level()
    words = []
    for codes in ((), ("doubtful-propensities",), ("doubtful-propensities", "miscalibrated-propensities")):
        findings = [make_finding(code, "warning", "message", "dose") for code in codes]
        assumptions = list_assumptions(problem, [], [Scope("dose")], reward_measure(problem), findings)
        words.append(assumptions[0].checked.rsplit(": ", 1)[1])
    assert words == ["no evidence against", "some evidence against, too little to refuse", "evidence against"]


COLUMNS = """
episode: id
reward: {column: r, range: [0, 1]}
levels:
  - name: dose
    context: [x]
    action: {column: a, values: [0, 1]}
    propensity: {column: p}
"""


@pytest.mark.parametrize(
    ("factor", "count", "refused"), [(1.1, 100, True), (1.02, 400, True), (1.5, 30, True), (1.0, 400, False)]
)
def test_weights_that_are_never_below_one_are_refused(factor: float, count: int, refused: bool) -> None:
    problem = parse_problem(COLUMNS)
    rng = stream(9, "never below", count)
    action = (rng.random(count) < 0.3).astype(np.int64)
    chance = np.where(action == 1, 0.3, 0.7)
    table = rows_of(action, 0.9 + 0.1 * rng.random(count), x=rng.normal(size=count), p=chance, q=np.minimum(factor * chance, 1))
    found = certify(Source(table, problem), TargetColumns(problem, {"dose": "q"}), what=("gain",), ledger=False)
    assert ("those of a policy average one" in found.verdict.sentence) == refused
    assert found.verdict.verdict == "refused" and ("identical" in found.verdict.sentence) == (factor == 1.0)


def test_a_policy_whose_actions_were_nearly_always_taken_is_not_refused() -> None:
    """All weights are above one where the legacy nearly always does what the candidate does: no fault, and no evidence of one."""
    problem = parse_problem(COLUMNS)
    rng = stream(10, "nearly always")
    action = np.ones(60, dtype=np.int64)
    table = rows_of(action, rng.random(60), x=rng.normal(size=60), p=np.full(60, 0.98), q=np.ones(60))
    found = certify(Source(table, problem), TargetColumns(problem, {"dose": "q"}), what=("gain",), ledger=False)
    assert found.verdict.verdict == "not yet"
