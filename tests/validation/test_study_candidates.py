"""Candidates of a study: null candidates, hashes of contexts, and candidates of your own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from validation_cases import QUICK, WORLD, Faulty

from aegis.errors import SettingError
from aegis.validation import (
    FixedCandidate,
    LearnerSetting,
    judge_for,
    make_trial,
    named_learner,
    validate,
)
from aegis.validation.study_candidates import context_hash, null_share
from aegis.validation.study_units import declared_largest


@pytest.mark.parametrize("spec", ["uniform", "sign:epsilon=0.3"])
def test_a_null_candidate_gains_nothing_and_acts_differently(spec: str) -> None:
    legacy = WORLD.legacy(spec)
    judge = judge_for(WORLD, legacy, 4000)
    candidate = named_learner("null").prepare(LearnerSetting(WORLD, legacy, ("inner",), judge, 1))(
        WORLD.episodes(0, 30, legacy, 1), 0
    )
    truth = judge.truth(candidate.policy, ("inner",))
    assert -0.25 < truth.gain + 3 * truth.gain_error <= 0  # of a reward that spans 20
    batch = WORLD.episodes(0, 200, legacy, 9)
    weights = candidate.policy.taken("inner", batch)[0] / batch.levels["inner"].mu_taken
    assert np.abs(weights - 1).mean() > 0.5
    assert weights.max() < 2.0 + 1e-9 and candidate.cap("inner") == 2.0
    assert declared_largest(candidate, ("inner",), batch) == 2.0


@settings(max_examples=60, deadline=None)
@given(st.floats(-5, -0.01), st.floats(0.01, 5), st.floats(0.3, 3))
def test_shares_end_just_below_nothing(low: float, high: float, power: float) -> None:
    def gain(share: float) -> float:
        return low + (high - low) * share**power

    share = null_share(gain)
    assert -0.02 * (high - low) < gain(share) <= 0
    assert null_share(lambda share: low) == 1.0
    with pytest.raises(SettingError, match="no null candidate was found"):
        null_share(lambda share: high)


def test_hashes_of_contexts_look_like_chance() -> None:
    batch = WORLD.episodes(0, 1000, WORLD.legacy("uniform"), 2)
    found = context_hash(WORLD.problem, "inner", batch)
    assert found.min() >= 0 and found.max() < 1
    assert np.histogram(found, 10, (0, 1))[0].min() > 200
    assert abs(np.corrcoef(found, batch.levels["inner"].context["Q"])[0, 1]) < 0.08
    part = context_hash(WORLD.problem, "inner", batch.take_episodes(np.arange(500, 510)))
    assert part.tolist() == found[1500:1530].tolist()


def test_candidates_of_ones_own() -> None:
    legacy = WORLD.legacy("uniform")
    trial = make_trial(WORLD, "uniform", WORLD.legacy("constant:value=1.6,epsilon=0.2"), **QUICK)
    assert isinstance(trial.learner, FixedCandidate)
    other = make_trial(WORLD, "uniform", WORLD.legacy("constant:value=1.6,epsilon=0.3"), **QUICK)
    assert trial.key != other.key
    result = validate(WORLD, legacy, WORLD.legacy("constant:value=1.6,epsilon=0.2"), runs=2, bounds=("plain",), **QUICK)
    assert result.row("plain").truth > 0
    with pytest.raises(SettingError, match="a plant has a 'problem'"):
        make_trial(7, legacy, "capped")  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="no legacies by name"):
        make_trial(Faulty(), "uniform", "capped")
    with pytest.raises(SettingError, match="as in 'capped:cap=3'; found 'planned:cap=3'"):
        make_trial(WORLD, "uniform", "planned:cap=3")
