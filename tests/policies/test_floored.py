"""A floor: exact probabilities, the legacy's share kept, stored and restored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import SettingError
from aegis.policies import Floored, Mixture, path_full, policy_digest, read_policy, save_policy
from aegis.worlds import make_world, true_value

WORLD = make_world("additive")
LEGACY, NEW = WORLD.legacy("uniform"), WORLD.legacy("sign:epsilon=0.3")
BATCH = WORLD.episodes(0, 4, LEGACY, 1)


@settings(max_examples=20, deadline=None)
@given(st.floats(0.0, 1.0))
def test_probabilities_are_mixed_for_each_decision(share: float) -> None:
    policy = Floored(WORLD.problem, NEW, LEGACY, share, ["inner"])
    new, old = (path_full(item, "inner", BATCH) for item in (NEW, LEGACY))
    np.testing.assert_allclose(policy.full("inner", BATCH)[0], (1 - share) * new + share * old, atol=1e-15)
    table = BATCH.levels["inner"]
    np.testing.assert_allclose(
        policy.taken("inner", BATCH)[0], policy.full("inner", BATCH)[0][np.arange(len(table)), table.action], atol=1e-15
    )
    np.testing.assert_array_equal(policy.full("meta", BATCH), NEW.full("meta", BATCH))


def test_the_gain_shrinks_by_the_share() -> None:
    low, high = (true_value(WORLD, item) for item in (LEGACY, Floored(WORLD.problem, NEW, LEGACY, 0.0, ["inner"])))
    found = true_value(WORLD, Floored(WORLD.problem, NEW, LEGACY, 0.25, ["inner"]))
    assert found - low == pytest.approx(0.75 * (high - low), rel=1e-6)


def test_a_legacy_that_is_a_mixture_counts_as_one() -> None:
    mixed = Mixture([LEGACY, NEW], [0.5, 0.5])
    policy = Floored(WORLD.problem, NEW, mixed, 0.5)
    assert policy.weights.tolist() == [1.0]
    np.testing.assert_allclose(policy.full("inner", BATCH)[0].sum(axis=1), 1.0)


def test_it_is_stored(tmp_path: Path) -> None:
    policy = Floored(WORLD.problem, NEW, LEGACY, 0.1, ["inner"])
    save_policy(policy, tmp_path / "policy")
    again = read_policy(tmp_path / "policy", WORLD.problem)
    assert policy_digest(again) == policy_digest(policy) and isinstance(again, Floored) and again.levels == policy.levels


@pytest.mark.parametrize("share", [-0.1, 1.1, float("nan")])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(SettingError, match="share"):
        Floored(WORLD.problem, NEW, LEGACY, share)
