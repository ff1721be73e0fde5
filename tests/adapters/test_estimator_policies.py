"""Estimators as policies: probabilities against a naive loop, classes against actions, and what is refused."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import numpy as np
import one_level
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import LinearSVC

from aegis.adapters.estimator_data import EstimatorInputs
from aegis.adapters.estimator_policies import RegressorRewards, classifier_policy, regressor_policy
from aegis.errors import PolicyError, SettingError
from aegis.policies import save_policy
from aegis.problem import Policy, RewardModel, parse_problem

PROBLEM = one_level.problem_of()
BATCH = one_level.source_of(60).read()
AGE = BATCH.levels["drug"].context["age"]
MASK = BATCH.levels["drug"].available


@dataclass
class Told:
    """A classifier whose answer is given; classes in an order of its own."""

    answer: Any
    classes_: Any

    def predict_proba(self, inputs: Any) -> Any:
        self.seen = inputs
        return self.answer


@dataclass
class Scored:
    """A regressor that is a function of the inputs."""

    function: Any

    def predict(self, inputs: Any) -> Any:
        return np.array([self.function(*row) for row in inputs])


def naive(answer, classes, mask, temperature, explore):
    """Return the probabilities of one row, transcribed: power, mask, scale, mix."""
    weights = [0.0] * 3
    for chance, name in zip(answer, classes, strict=True):
        place = one_level.DRUGS.index(name)
        weights[place] = chance ** (1 / temperature) if mask[place] else 0.0
    total, free = sum(weights), sum(mask)
    return [(1 - explore) * w / total + explore * (1 / free if m else 0.0) for w, m in zip(weights, mask, strict=True)]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    order=st.permutations(one_level.DRUGS),
    temperature=st.floats(0.3, 5),
    explore=st.floats(0, 1),
)
def test_probabilities_of_a_classifier_are_those_of_a_naive_loop(seed, order, temperature, explore):
    answer = np.random.default_rng(seed).dirichlet(np.ones(3), size=len(AGE))
    policy = classifier_policy(PROBLEM, Told(answer, list(order)), temperature=temperature, explore=explore)
    found = policy.full("drug", BATCH)
    assert found.shape == (1, len(AGE), 3)
    expected = [naive(answer[row], order, MASK[row], temperature, explore) for row in range(len(AGE))]
    np.testing.assert_allclose(found[0], expected, atol=1e-8)
    np.testing.assert_allclose(found.sum(axis=2), 1.0, rtol=1e-15)
    assert (found[0][~MASK] == 0).all()
    taken = BATCH.levels["drug"].action
    np.testing.assert_array_equal(policy.taken("drug", BATCH)[0], found[0][np.arange(len(taken)), taken])


def test_it_is_a_policy_with_one_particle_and_can_be_pickled():
    data = one_level.source_of(200).read().levels["drug"]
    model = LogisticRegression().fit(data.context["age"][:, None], np.array(one_level.DRUGS)[data.action])
    policy = classifier_policy(PROBLEM, {"drug": model}, {"drug": ["age"]})
    assert isinstance(policy, Policy) and policy.weights.tolist() == [1.0] and policy.levels == ("drug",)
    again = pickle.loads(pickle.dumps(policy))
    np.testing.assert_array_equal(again.full("drug", BATCH), policy.full("drug", BATCH))
    with pytest.raises(PolicyError, match="cannot be stored"):
        save_policy(policy, "unused")


def test_greedy_takes_the_likeliest_open_action():
    answer = np.tile([0.1, 0.3, 0.6], (len(AGE), 1))
    found = classifier_policy(PROBLEM, Told(answer, one_level.DRUGS), greedy=True).full("drug", BATCH)[0]
    np.testing.assert_array_equal(found.argmax(axis=1), np.where(MASK[:, 2], 2, 1))
    assert set(np.unique(found)) == {0.0, 1.0}


def test_how_many_rows_are_asked_for_at_once_changes_nothing():
    table = one_level.source_of(300).read()
    data = table.levels["drug"]
    model = LogisticRegression().fit(data.context["age"][:, None] * [1, 2, 3], np.array(one_level.DRUGS)[data.action])

    class Wide:
        classes_ = model.classes_

        def predict_proba(self, inputs):
            return model.predict_proba(inputs[:, :1] * [1, 2, 3])

    policy = classifier_policy(PROBLEM, Wide(), {"drug": ["age"]}, temperature=0.7)
    whole = policy.full("drug", table)[0]
    parts = [policy.full("drug", table.take_episodes(np.array([row])))[0] for row in range(0, 300, 7)]
    np.testing.assert_array_equal(np.concatenate(parts), whole[::7])


def test_numbers_as_classes_are_matched_as_numbers():
    problem = parse_problem("""
episode: visit
reward: {column: score, range: [0, 1]}
levels: [{name: dose, context: [age], action: {column: dose, values: [0.5, 1, 2]}, propensity: {policy: uniform}}]
""")
    policy = classifier_policy(problem, Told(np.ones((0, 3)), np.array([2, 0.5, 1.0])))
    assert policy.choosers["dose"].keywords["places"].tolist() == [2, 0, 1]
    with pytest.raises(PolicyError, match="class '1', which is no value of the action 'dose'"):
        classifier_policy(problem, Told(np.ones((0, 3)), ["1", "2", "0.5"]))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (Told(None, ["none", "a", "c"]), r"class 'c', which is no value .*: none, a, b"),
        (Told(None, ["a", "b"]), r"no class for the action 'none' \(1 of 3"),
        (LogisticRegression(), "is not fitted yet"),
        (LinearSVC(), "no method 'predict_proba'"),
        (Told(None, [["a"], ["b"]]), "several outputs"),
        ({}, "there is no estimator"),
        ({"dose": Told(None, one_level.DRUGS)}, "there is no level 'dose'"),
    ],
)
def test_classifiers_that_do_not_fit_are_refused(estimator, message):
    from aegis.errors import AegisError

    with pytest.raises(AegisError, match=message):
        classifier_policy(PROBLEM, estimator)


def test_an_action_without_a_class_is_never_taken_if_that_is_said():
    answer = np.tile([0.5, 0.5], (len(AGE), 1))
    policy = classifier_policy(PROBLEM, Told(answer, ["none", "a"]), allow_missing=True)
    np.testing.assert_allclose(policy.full("drug", BATCH)[0], np.tile([0.5, 0.5, 0.0], (len(AGE), 1)))


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.ones((3, 3)), r"has the shape \[3, 3\], expected \[60, 3\]"),
        (np.full((60, 3), np.nan), r"probabilities of the classes, row 0 \(from 0\): is not finite \(60 such rows\)"),
        (np.tile([-0.1, 0.6, 0.5], (60, 1)), "row 0: a probability is below 0"),
        (np.full((60, 3), "much"), "expected numbers"),
        (None, "has the shape"),
    ],
)
def test_answers_that_are_no_probabilities_are_refused(answer, message):
    with pytest.raises(PolicyError, match=message):
        classifier_policy(PROBLEM, Told(answer, one_level.DRUGS)).full("drug", BATCH)


def test_a_row_without_an_open_action_of_any_chance():
    answer = np.tile([0.0, 0.0, 1.0], (len(AGE), 1))
    with pytest.raises(PolicyError, match=f"row {int(np.argmin(MASK[:, 2]))}: the estimator gives no available action a chance"):
        classifier_policy(PROBLEM, Told(answer, one_level.DRUGS)).full("drug", BATCH)
    found = classifier_policy(PROBLEM, Told(answer, one_level.DRUGS), explore=0.1).full("drug", BATCH)[0]
    np.testing.assert_allclose(found[~MASK[:, 2]], np.tile([0.5, 0.5, 0.0], (int((~MASK[:, 2]).sum()), 1)), atol=1e-9)


def test_what_an_estimator_raises_is_said_with_its_level():
    model = GaussianNB().fit(np.zeros((6, 2)) + np.arange(6)[:, None], ["none", "a", "b"] * 2)
    with pytest.raises(PolicyError, match=r"fitted on 2 columns, found 1 \(age\)"):
        classifier_policy(PROBLEM, model, {"drug": ["age"]})
    with pytest.raises(PolicyError, match=r"level .drug.: GaussianNB\.predict_proba raised ValueError"):
        classifier_policy(PROBLEM, model).full("drug", BATCH)  # the ward is a text
    with pytest.raises(PolicyError, match=r"'ages' is not known when it decides .did you mean 'age'"):
        classifier_policy(PROBLEM, model, {"drug": ["ages", "ward"]})
    with pytest.raises(PolicyError, match="'score' is not known when it decides"):
        classifier_policy(PROBLEM, model, {"drug": ["age", "score"]})


@pytest.mark.parametrize("setting", [{"temperature": 0.0}, {"explore": 1.5}, {"explore": -0.1}, {"temperature": float("nan")}])
def test_settings_out_of_range(setting):
    with pytest.raises(SettingError):
        classifier_policy(PROBLEM, Told(None, one_level.DRUGS), **setting)


def test_categories_are_given_as_the_log_has_them():
    told = Told(np.full((60, 3), 1 / 3), one_level.DRUGS)
    classifier_policy(PROBLEM, told).full("drug", BATCH)
    assert told.seen.dtype == object and told.seen.shape == (60, 2)
    assert set(told.seen[:, 1]) == set(one_level.WARDS) and told.seen[:, 0].tolist() == AGE.tolist()
    encode = make_column_transformer((OneHotEncoder(), [1]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression()).fit(told.seen, (one_level.DRUGS * 20))
    assert classifier_policy(PROBLEM, model).full("drug", BATCH).shape == (1, 60, 3)


def test_an_estimator_fitted_on_a_frame_gets_its_columns_by_name():
    told = Told(np.full((60, 3), 1 / 3), one_level.DRUGS)
    told.feature_names_in_ = np.array(["ward", "age"], dtype=object)  # type: ignore[attr-defined]
    classifier_policy(PROBLEM, told, frame=dict).full("drug", BATCH)
    assert list(told.seen) == ["ward", "age"] and set(told.seen["ward"]) == set(one_level.WARDS)
    with pytest.raises(PolicyError, match="fitted on the columns ward, age, not on age, ward"):
        classifier_policy(PROBLEM, told, {"drug": ["age", "ward"]}, frame=dict)
    told.feature_names_in_ = np.array(["wards", "age"], dtype=object)  # type: ignore[attr-defined]
    with pytest.raises(PolicyError, match="'wards' is not known"):
        classifier_policy(PROBLEM, told, frame=dict)


def test_without_pandas_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    told = Told(None, one_level.DRUGS)
    told.feature_names_in_ = np.array(["age", "ward"], dtype=object)  # type: ignore[attr-defined]
    with pytest.raises(PolicyError, match="pip install pandas"):
        classifier_policy(PROBLEM, told)


def test_a_pandas_frame_for_an_estimator_fitted_on_one():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"age": AGE, "ward": np.array(one_level.WARDS)[BATCH.levels["drug"].context["ward"]]})
    encode = make_column_transformer((OneHotEncoder(), ["ward"]), remainder="passthrough")
    model = make_pipeline(encode, LogisticRegression()).fit(frame, one_level.DRUGS * 20)
    expected = model.predict_proba(frame)[:, [list(model.classes_).index(name) for name in one_level.DRUGS]]
    found = classifier_policy(one_level.problem_of(masked=False), model).full(
        "drug", one_level.source_of(60, masked=False).read()
    )
    assert found.shape == (1, 60, 3)
    found = classifier_policy(PROBLEM, model).full("drug", BATCH)[0]
    np.testing.assert_allclose(found[MASK.all(axis=1)], expected[MASK.all(axis=1)], atol=1e-8)


def value(age, ward, drug):
    return {"none": 0.3, "a": 1 - age, "b": age}[drug] + (0.1 if ward == "north" else 0.0)


def test_predictions_of_a_regressor_are_those_of_a_naive_loop(monkeypatch):
    model = RegressorRewards(PROBLEM, Scored(value))
    assert isinstance(model, RewardModel)
    wards = np.array(one_level.WARDS)[BATCH.levels["drug"].context["ward"]]
    expected = [[value(age, ward, drug) for drug in one_level.DRUGS] for age, ward in zip(AGE, wards, strict=True)]
    np.testing.assert_allclose(model.predict("drug", BATCH), expected)
    np.testing.assert_allclose(pickle.loads(pickle.dumps(model)).predict("drug", BATCH), expected)
    monkeypatch.setattr("aegis.adapters.estimator_policies.PREDICTION_BLOCK", 7)
    np.testing.assert_allclose(model.predict("drug", BATCH), expected)


@pytest.mark.parametrize("goal", ["maximise", "minimise"])
def test_a_regressor_chooses_the_best_open_action_whatever_the_goal(goal):
    problem = one_level.problem_of(goal=goal)
    values = RegressorRewards(problem, Scored(value)).predict("drug", BATCH)
    sign = 1 if goal == "maximise" else -1
    best = np.where(MASK, sign * values, -np.inf)
    found = regressor_policy(problem, Scored(value)).full("drug", BATCH)[0]
    np.testing.assert_array_equal(found.argmax(axis=1), best.argmax(axis=1))
    soft = regressor_policy(problem, Scored(value), temperature=0.2, explore=0.1).full("drug", BATCH)[0]
    for row in range(len(AGE)):
        powers = [np.exp(sign * v / 0.2) if m else 0.0 for v, m in zip(values[row], MASK[row], strict=True)]
        even = MASK[row] / MASK[row].sum()
        np.testing.assert_allclose(soft[row], 0.9 * np.array(powers) / sum(powers) + 0.1 * even, atol=1e-8)


def test_regressors_that_do_not_fit_are_refused():
    with pytest.raises(PolicyError, match="no method 'predict'"):
        RegressorRewards(PROBLEM, object())
    with pytest.raises(PolicyError, match=r"level .drug.: Ridge\.predict raised NotFittedError"):
        RegressorRewards(PROBLEM, Ridge(), {"drug": ["age"]}).predict("drug", BATCH)
    with pytest.raises(PolicyError, match="predictions: has the shape"):
        RegressorRewards(PROBLEM, Scored(lambda *row: [1.0, 2.0])).predict("drug", BATCH)


def test_other_levels_belong_to_the_legacy():
    problem = parse_problem("""
episode: visit
reward: {column: score, range: [0, 1]}
levels:
  - {name: plan, context: [age], action: {column: plan, values: [x, y]}, propensity: {policy: uniform}}
  - {name: dose, context: [pulse], action: {column: dose, values: [1, 2]}, propensity: {policy: uniform}}
""")
    told = Told(np.ones((1, 2)), [1, 2])
    with pytest.raises(PolicyError, match="say whose estimator it is"):
        classifier_policy(problem, told)
    policy = classifier_policy(problem, {"dose": told})
    with pytest.raises(PolicyError, match="decides at dose only"):
        policy.full("plan", BATCH)
    assert EstimatorInputs.of(problem, "dose").columns == ("age", "plan", "pulse")
    assert EstimatorInputs.of(problem, "dose", with_action=True).columns == ("age", "plan", "pulse", "dose")
