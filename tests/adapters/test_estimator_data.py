"""What an estimator is fitted on is never certified: rows of one side, the record of it, and what a false claim runs into."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

import numpy as np
import one_level
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from aegis.adapters.estimator_data import record_fit, training_rows
from aegis.adapters.estimator_policies import RegressorRewards, classifier_policy, regressor_policy
from aegis.certificate import certify
from aegis.cli import main
from aegis.errors import LogError
from aegis.logs import Source, Split
from aegis.problem import parse_problem, save_problem, subtree_means

SPLIT = Split(fraction=0.4)


def test_training_rows_are_the_prior_side_and_nothing_else():
    source = one_level.source_of(200)
    rows = training_rows(source, SPLIT, features=["age"])
    prior = source.read(side="prior", split=SPLIT)
    table = prior.levels["drug"]
    np.testing.assert_array_equal(rows.inputs, table.context["age"][:, None])
    np.testing.assert_array_equal(rows.actions, np.array(one_level.DRUGS)[table.action])
    np.testing.assert_array_equal(rows.rewards, prior.reward)
    np.testing.assert_array_equal(rows.propensities, table.mu_taken)
    assert rows.with_action.tolist() == [[age, drug] for age, drug in zip(rows.inputs[:, 0], rows.actions, strict=True)]
    assert rows.left_out == 0 and 0 < len(rows.rewards) < 200
    framed = training_rows(source, SPLIT, frame=dict)
    assert list(framed.inputs) == ["age", "ward"] and list(framed.with_action) == ["age", "ward", "drug"]


def test_outer_levels_get_the_mean_below_and_missing_rewards_are_left_out():
    problem = parse_problem("""
episode: batch
reward: {column: margin, range: [0, 1]}
levels:
  - {name: recipe, context: [task], action: {column: setting, values: [1, 2]}, propensity: {policy: uniform}}
  - {name: dose, decision: step, context: [heat], action: {column: dose, values: [1, 2]}, propensity: {policy: uniform}}
""")
    import pyarrow as pa

    table = pa.table(
        {
            "batch": [1, 1, 2, 3, 3],
            "step": [1, 2, 1, 1, 2],
            "task": [0.1, 0.1, 0.2, 0.3, 0.3],
            "setting": [1, 1, 2, 2, 2],
            "heat": [1.0, 2.0, 3.0, 4.0, 5.0],
            "dose": [1, 2, 1, 2, 1],
            "margin": [0.2, 0.6, None, 0.5, None],
        }
    )
    source = Source(table, problem)
    whole = Split(fraction=0.999999)
    outer = training_rows(source, whole, "recipe")
    assert outer.inputs.tolist() == [[0.1], [0.3]] and outer.actions.tolist() == [1.0, 2.0] and outer.left_out == 1
    np.testing.assert_allclose(outer.rewards, [0.4, 0.5])
    inner = training_rows(source, whole)
    assert inner.inputs.tolist() == [[0.1, 1.0, 1.0], [0.1, 1.0, 2.0], [0.3, 2.0, 4.0]]
    assert subtree_means(source.read())["recipe"].tolist() == pytest.approx([0.4, np.nan, 0.5], nan_ok=True)
    none = Source(table.set_column(6, "margin", pa.nulls(5, pa.float64())), problem)
    with pytest.raises(LogError, match="no reward was observed on the prior side"):
        training_rows(none, whole)


def test_a_fitted_policy_is_certified_on_the_other_side_with_its_reward_model():
    source = one_level.source_of(1500)
    rows = training_rows(source, SPLIT, features=["age"])
    encoded = np.column_stack([rows.inputs, [one_level.DRUGS.index(name) for name in rows.actions]])
    tree = DecisionTreeRegressor(max_depth=4, random_state=0).fit(encoded, rows.rewards)

    class Encoded:
        def predict(self, inputs):
            return tree.predict(np.column_stack([inputs[:, 0], [one_level.DRUGS.index(name) for name in inputs[:, 1]]]))

    rewards = RegressorRewards(source.problem, Encoded(), {"drug": ["age"]})
    candidate = record_fit(source, SPLIT, regressor_policy(source.problem, rewards, explore=0.1), rewards)
    certificate = certify(source, candidate, ledger=False)
    prior = int(SPLIT.prior(source.problem, source.read()).sum())
    assert certificate.verdict.verdict == "certified", certificate.verdict.sentence
    assert certificate.level("drug").units == 1500 - prior
    assert [split["fraction"] for split in certificate.splits] == [0.4]
    assert certificate.candidates[0]["learned"] is True
    assert any(assumption.code == "policy-code" for assumption in certificate.assumptions)


def test_a_model_that_has_seen_the_certified_rows_is_refused_where_it_can_be_told():
    source = one_level.source_of(300)
    rows = training_rows(source, SPLIT, features=["age"])
    policy = classifier_policy(source.problem, LogisticRegression().fit(rows.inputs, rows.actions), {"drug": ["age"]})
    candidate = record_fit(source, SPLIT, policy)
    fresh = certify(source, candidate, fresh=True, ledger=False)
    assert fresh.verdict.verdict == "refused" and "not fresh" in fresh.verdict.sentence
    renamed = one_level.table_of(300)
    renamed = renamed.set_column(0, "visit", [np.arange(300) + 10_000])  # the same visits under other names
    again = certify(Source(renamed, source.problem), candidate, ledger=False)
    assert again.verdict.verdict == "refused"
    other = certify(one_level.source_of(300, seed=2), candidate, fresh=True, ledger=False)
    assert other.verdict.verdict != "refused"


MODULE = """
import aegis
from aegis.adapters.estimator_policies import classifier_policy
from aegis.adapters import record_fit, training_rows
from sklearn.linear_model import LogisticRegression

source = aegis.Source("log.parquet", aegis.load_problem("problem.yaml"))
split = aegis.Split(fraction=0.4)
rows = training_rows(source, split, features=["age"])
good = rows.rewards > 0.5
model = LogisticRegression().fit(rows.inputs[good], rows.actions[good], sample_weight=1 / rows.propensities[good])
policy = record_fit(source, split, classifier_policy(source.problem, model, {"drug": ["age"]}, temperature=0.5, explore=0.05))
"""


def test_it_is_named_on_the_command_line_and_verified_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pq.write_table(one_level.table_of(900), tmp_path / "log.parquet")
    save_problem(one_level.problem_of(), tmp_path / "problem.yaml")
    (tmp_path / "drug_policy.py").write_text(MODULE)
    monkeypatch.delitem(sys.modules, "drug_policy", raising=False)
    certify_it = ["certify", "log.parquet", "--problem", "problem.yaml", "--policy", "drug_policy:policy", "--json"]
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as stop:
        main([*certify_it, "--out", "certificate.json", "--table", "levels.csv"])
    found = json.loads(capsys.readouterr().out)
    assert stop.value.code == 0, found["summary"]["sentence"]
    assert found["splits"][0]["fraction"] == 0.4 and found["candidates"][0]["code"] is None
    assert (tmp_path / "levels.csv").read_text().splitlines()[1].startswith('"drug_policy:policy","drug","certified",')
    monkeypatch.delitem(sys.modules, "drug_policy")
    with contextlib.chdir(tmp_path), pytest.raises(SystemExit) as stop:
        main(["verify", "certificate.json", "log.parquet"])
    assert not stop.value.code, capsys.readouterr()
