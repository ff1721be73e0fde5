"""One run of a validation: what it depends on, what is checked, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from validation_cases import QUICK, WORLD, Faulty

from aegis.errors import RefusedError, SettingError
from aegis.evidence import Bound
from aegis.ope import Measure
from aegis.problem import Problem, Reward
from aegis.validation import (
    Truth,
    make_trial,
    validate,
)
from aegis.validation.study_units import LookTrace
from aegis.worlds import make_world


def test_a_run_depends_on_the_trial_and_its_number_alone() -> None:
    trial = make_trial(WORLD, "uniform", "capped", **QUICK)
    first, again = trial.prepare(), trial.prepare()
    again(0)
    assert first(1) == again(1) != first(0)
    other = make_trial(WORLD, "uniform", "capped", **QUICK, seed=2)
    assert other.prepare()(1) != first(1)


def test_keys_tell_trials_apart() -> None:
    def key(world: object = WORLD, legacy: str = "uniform", candidate: str = "capped", **more: object) -> str:
        return make_trial(world, legacy, candidate, **{**QUICK, **more}).key  # type: ignore[arg-type]

    keys = [
        key(),
        key(make_world("additive", inner_steps=3, f_a=1.0)),
        key(legacy="sign:epsilon=0.3"),
        key(legacy="sign:epsilon=0.2"),
        key(candidate="capped:cap=3"),
        key(candidate="greedy"),
        key(candidate="null"),
        key(episodes=50),
        key(prior=31),
        key(judged=500),
        key(delta=0.1),
        key(bounds=("plain",)),
        key(scope=("meta",)),
        key(scope=("meta", "inner")),
        key(only_end=True),
        key(legacy="sign:epsilon=0.3", comparator="logger"),
        key(seed=2),
    ]
    assert len(set(keys)) == len(keys)
    parts = make_trial(WORLD, "uniform", "capped", **QUICK).parts
    other = make_trial(WORLD, "sign:epsilon=0.3", "capped", **{**QUICK, "delta": 0.1}).parts
    assert {name for name in parts if parts[name] != other[name]} == {"legacy", "delta", "comparator"}
    assert "f_a" in parts["plant"]
    assert key() == keys[0]
    assert make_trial(Faulty(), WORLD.legacy("uniform"), "capped", **QUICK).key != keys[0]


def test_settings_are_checked() -> None:
    for wrong, message in (
        ({"episodes": 10}, "'episodes' is a whole number from 20, found 10"),
        ({"prior": True}, "'prior' is a whole number from 20, found True"),
        ({"judged": 3}, "'judged' is a whole number from 100, found 3"),
        ({"delta": 0.0}, "delta"),
        ({"bounds": ("Hoefding",)}, "unknown bound 'Hoefding' .did you mean 'Hoeffding'"),
        ({"claims": ("gains",)}, "unknown claim 'gains' .did you mean 'gain'"),
        ({"scope": ()}, "a scope names at least one level of meta, inner"),
    ):
        with pytest.raises(SettingError, match=message):
            make_trial(WORLD, "uniform", "capped", **{**QUICK, **wrong})  # type: ignore[arg-type]
    assert make_trial(WORLD, "uniform", "capped", episodes=1000).judging == 40_000
    assert make_trial(WORLD, "uniform", "capped").judging == 10_000
    assert make_trial(Faulty(), WORLD.legacy("uniform"), "capped").judging == 20_000


def test_doubt_about_the_truth_counts_against_bounds() -> None:
    trial, measure = make_trial(WORLD, "uniform", "capped", **QUICK), Measure("R", -10.0, 10.0, "maximise")
    truth = Truth(value=2.0, gain=1.0, error=0.4, gain_error=0.1)  # scaled: 0.6 and 0.05, two errors are 0.04 and 0.01
    for what, low, high in (("gain", 0.039, 0.041), ("value", 0.559, 0.561)):
        for value, wrong in ((low, False), (high, True)):
            last = Bound("x", value, 0.05, 20, "anytime", (), ())
            trace = LookTrace(last, np.array([10, 20]), np.array([high if what == "gain" else 0.0, value]))
            found = trial._outcome("x", what, trace, measure, truth, 0.0, False)
            assert found.at_end == wrong and found.ever == (wrong or what == "gain")
            assert found.truth == pytest.approx(0.05 if what == "gain" else 0.6)
            assert found.above == (10 if what == "gain" else None) and found.ends_above == (what == "gain")
    costs = replace(measure, goal="minimise")
    assert trial._outcome("x", "gain", trace, costs, truth, 0.0, False).truth == pytest.approx(-0.05)
    assert trial._outcome("x", "value", trace, costs, truth, 0.0, False).truth == pytest.approx(0.4)


def test_a_plant_that_logs_wrong_probabilities_is_found_out() -> None:
    legacy = WORLD.legacy("uniform")
    only = {"runs": 12, "bounds": ("water-filled", "plain", "Student t"), **QUICK}
    good = validate(Faulty(), legacy, "capped", **only)  # type: ignore[arg-type]
    assert good.holds and good.exit_code == 0
    bad = validate(Faulty(bent=True), legacy, "capped", **only)  # type: ignore[arg-type]
    assert not bad.holds and bad.exit_code == 4
    assert bad.row("plain").verdict == "violated" and bad.row("Student t").verdict is None


def test_lost_rewards_and_refusals_are_told() -> None:
    with pytest.raises(SettingError, match="the plant leaves out rewards"):
        validate(Faulty(lost=True), WORLD.legacy("uniform"), "capped", runs=1, **QUICK)
    problem = replace(WORLD.problem, reward=Reward("R", (-1.0, 1.0)))

    @dataclass(frozen=True)
    class Narrow(Faulty):
        @property
        def problem(self) -> Problem:
            return problem

    with pytest.raises(RefusedError, match=r"run 0: .*lies outside the declared range"):
        validate(Narrow(), WORLD.legacy("uniform"), "capped", runs=2, **QUICK)
