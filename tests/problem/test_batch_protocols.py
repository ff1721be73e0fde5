"""The protocols: what counts as a policy, a model or a plant, and what a stored state lacks."""

from __future__ import annotations

import pytest

from aegis.errors import PolicyError
from aegis.mechanisms import LevelRewards
from aegis.policies import Legacy, Logged
from aegis.problem import Plant, Policy, RewardModel, State, Storable
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=2)


def test_own_classes_follow_the_protocols() -> None:
    policy, model = WORLD.legacy("uniform"), LevelRewards.prior(WORLD.problem)
    assert isinstance(policy, Policy) and isinstance(policy, Storable) and not isinstance(policy, RewardModel)
    assert isinstance(model, RewardModel) and isinstance(model, Storable) and not isinstance(model, Policy)
    assert isinstance(WORLD, Plant) and not isinstance(policy, Plant)
    assert isinstance(policy, Legacy)


def test_a_state_names_what_it_lacks() -> None:
    state = State("capped", {"limit": 2.0}, members={"legacy": Logged(WORLD.problem)})
    assert state.setting("limit") == 2.0 and isinstance(state.policy("legacy"), Logged)
    with pytest.raises(PolicyError, match=r"policy of kind 'capped': the setting 'levels' is missing; found \['limit'\]"):
        state.setting("levels")
    with pytest.raises(PolicyError, match=r"the member policy 'new' is missing; found \['legacy'\]"):
        state.policy("new")
