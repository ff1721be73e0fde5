"""What every kind of policy in the table must do; a new kind needs an example here."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import policy_examples as ex
import pytest

from aegis.errors import PolicyError
from aegis.policies import (
    POLICIES,
    Capped,
    Constant,
    Epsilon,
    Floored,
    FullColumns,
    Function,
    Hybrid,
    Legacy,
    Logged,
    Mixture,
    Natural,
    Softmax,
    StatedIncumbent,
    TargetColumns,
    Uniform,
    policy_digest,
    probability_taken,
    read_policy,
    save_policy,
    with_incumbent,
)
from aegis.problem import Batch, Policy, Problem, State, concat


@dataclass(frozen=True)
class Slopes:
    """A reward model with arrays, so that storing arrays of members is tried."""

    arrays: dict

    def predict(self, level, batch):
        count = len(batch.levels[level])
        return np.sin(np.arange(count)[:, None] + self.arrays[level])

    def state(self):
        return State("slopes", {"levels": sorted(self.arrays)}, dict(self.arrays))

    @classmethod
    def restore(cls, state, problem):
        return cls({name: state.arrays[name] for name in state.setting("levels")})


KINDS = {**POLICIES, "slopes": Slopes}


def cautious(level, rows):
    """A user's function for a masked level: it must not know the mask, so it is given a level without one."""
    count = len(rows["temperature"])
    return np.tile(np.arange(1, level.actions.count + 1) / np.arange(1, level.actions.count + 1).sum(), (count, 1))


RULES_OF = {"recipe": Epsilon(Constant("high"), 0.4), "dose": Natural({"temperature": 0.5}, 0.6)}
SOFT = {"recipe": Epsilon(Softmax((0.0, 1.0, -1.0), {"task": (0.5, 0.0, -0.5)}), 0.2), "dose": Epsilon(Uniform(), 0.5)}
PROBLEM = with_incumbent(ex.problem(2), Legacy(ex.problem(2), SOFT))
LEGACY = Legacy(PROBLEM, RULES_OF)
OTHER = Legacy(PROBLEM, {"recipe": Softmax((0.0, 1.0, -1.0), {"task": (0.5, 0.0, -0.5)}), "dose": Uniform()})
MODEL = Slopes({"recipe": np.array([0.3, 1.0, 2.0]), "dose": np.linspace(0, 3, 5)})
MIXTURE = Mixture([LEGACY, OTHER], [0.3, 0.7])
EXAMPLES: dict[str, Policy] = {
    "legacy": LEGACY,
    "logged": Logged(PROBLEM),
    "incumbent": StatedIncumbent(PROBLEM),
    "mixture": Mixture([MIXTURE, LEGACY], [0.1, 0.9]),
    "hybrid": Hybrid(PROBLEM, {"dose"}, MIXTURE, Mixture([OTHER, LEGACY])),
    "capped": Capped(PROBLEM, MODEL, MIXTURE, 2.0, {"dose"}),
    "floored": Floored(PROBLEM, Mixture([OTHER, LEGACY]), MIXTURE, 0.2, {"dose"}),
    "columns": TargetColumns(PROBLEM, {"recipe": "p_recipe", "dose": "p_dose"}),
    "full columns": FullColumns(PROBLEM, {name: ex.full_columns(PROBLEM, name) for name in PROBLEM.names}),
    "function": Function(PROBLEM, cautious, {"dose"}, MIXTURE),
}
ASKED_FULL = set(POLICIES) - {"columns"}  # a column holds one probability per decision
ACTING = ASKED_FULL - {"logged", "full columns"}  # a record cannot act


def complete(masks: bool) -> Batch:
    batch = ex.batch(PROBLEM, 17, masks=masks, childless=False)
    rng = np.random.default_rng(3)
    outer = rng.random(len(batch.levels["recipe"]))[batch.levels["dose"].parent]
    told = ex.told(PROBLEM, batch)
    return replace(batch, extra={"p_recipe": outer, "p_dose": rng.random(len(batch.levels["dose"])), **told})


def masks_of(kind: str) -> list[bool]:
    return [False] if kind == "function" else [False, True]  # what a user's function does on a mask is its own business


def test_every_kind_has_an_example_and_knows_its_name():
    assert set(EXAMPLES) == set(POLICIES)
    for kind, policy in EXAMPLES.items():
        assert isinstance(policy, POLICIES[kind])
        assert isinstance(policy, Policy)
        assert policy.state().kind == kind


@pytest.mark.parametrize("kind", POLICIES)
def test_weights_are_a_distribution(kind):
    weights = EXAMPLES[kind].weights
    assert weights.ndim == 1
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("kind", sorted(ASKED_FULL))
def test_probabilities_are_distributions_over_available_actions(kind):
    for masks in masks_of(kind):
        batch, policy = complete(masks), EXAMPLES[kind]
        for level in PROBLEM.levels:
            full, table = policy.full(level.name, batch), batch.levels[level.name]
            assert full.shape == (policy.weights.size, len(table), level.actions.count)
            assert full.dtype == np.float64
            assert (full >= 0).all()
            np.testing.assert_allclose(full.sum(axis=2), 1.0, rtol=0, atol=1e-12)
            if masks:
                assert (full[:, ~table.available] == 0).all()
            np.testing.assert_allclose(policy.taken(level.name, batch), probability_taken(full, level, table), rtol=0, atol=1e-15)


@pytest.mark.parametrize("kind", POLICIES)
def test_asking_changes_nothing_in_the_batch_and_episodes_are_answered_one_by_one(kind):
    batch, policy = complete(False), EXAMPLES[kind]
    for level in PROBLEM.names:
        if kind == "capped" and level == "dose":
            continue  # the example's model predicts by row number
        parts = [policy.taken(level, batch.take_episodes([episode])) for episode in range(len(batch))]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), policy.taken(level, batch))
    assert concat([batch]) is batch
    again = complete(False)
    for level in PROBLEM.names:
        np.testing.assert_array_equal(again.levels[level].mu_full, batch.levels[level].mu_full)
        np.testing.assert_array_equal(again.levels[level].action, batch.levels[level].action)


@pytest.mark.parametrize("kind", POLICIES)
@pytest.mark.parametrize("level", PROBLEM.names)
def test_a_batch_under_construction(kind, level):
    for masks in masks_of(kind):
        batch, policy = complete(masks), EXAMPLES[kind]
        partial = ex.undecided(batch, level)
        if kind in ACTING:
            np.testing.assert_array_equal(policy.full(level, partial), policy.full(level, batch))
        else:
            with pytest.raises(PolicyError):
                policy.full(level, partial)
        with pytest.raises(PolicyError):
            policy.taken(level, partial)


@pytest.mark.parametrize("kind", POLICIES)
def test_a_level_without_decisions(kind):
    batch = complete(False).take_episodes([])
    for level in PROBLEM.levels:
        policy = EXAMPLES[kind]
        assert policy.taken(level.name, batch).shape == (policy.weights.size, 0)
        if kind in ASKED_FULL:
            assert policy.full(level.name, batch).shape == (policy.weights.size, 0, level.actions.count)


@pytest.mark.parametrize("kind", POLICIES)
def test_saving_and_loading_gives_the_same_policy(kind, tmp_path):
    policy, batch = EXAMPLES[kind], complete(False)
    save_policy(policy, tmp_path / "policy")
    stated = PROBLEM if kind == "incumbent" else ex.problem(2)  # who policies are compared with makes no difference to others
    again = read_policy(tmp_path / "policy", stated, KINDS)
    assert type(again) is type(policy)
    assert policy_digest(again) == policy_digest(policy)
    np.testing.assert_array_equal(again.weights, policy.weights)
    for level in PROBLEM.names:
        np.testing.assert_array_equal(again.taken(level, batch), policy.taken(level, batch))
        if kind in ASKED_FULL:
            np.testing.assert_array_equal(again.full(level, batch), policy.full(level, batch))


def test_digests_tell_policies_and_problems_apart():
    assert len({policy_digest(policy) for policy in EXAMPLES.values()}) == len(EXAMPLES)
    margin = Problem(tuple(replace(level, margin=0.5) for level in PROBLEM.levels))
    assert policy_digest(Logged(margin)) != policy_digest(Logged(PROBLEM))
