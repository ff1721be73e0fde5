"""Planning through masks: an outer level does not count on inner actions that its own choice closes."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from aegis.errors import GraphError, SettingError
from aegis.mechanisms import availability_name, build_belief
from aegis.planning import Greedy, Integration, Recursion, States, plan_policy
from aegis.planning.recursion import expected_best
from aegis.problem import Actions, Batch, Level, LevelTable, Problem, Reward, Scope
from aegis.rng import stream


def closing_problem() -> Problem:
    """After `left` the best inner action is almost never open; after `right` it always is."""
    inner = Level("inner", Actions.of("dose", ("low", "high")), available=("can_low", "can_high"))
    return Problem((Level("outer", Actions.of("plan", ("left", "right"))), inner), Reward("r"))


def closing_batch(episodes: int = 2000, chance: float = 0.03) -> Batch:
    rng = stream(1, "closing")
    outer = rng.integers(0, 2, episodes)
    can_high = np.where(outer == 0, rng.random(episodes) < chance, True)
    inner = np.where(can_high, rng.integers(0, 2, episodes), 0)
    reward = np.where(outer == 0, 3.0, 0.0) + np.where(inner == 1, 10.0, 0.0) + rng.standard_normal(episodes)
    rows = np.arange(episodes)
    levels = {
        "outer": LevelTable.undecided(rows, {}).decided(outer, np.full(episodes, 0.5)),
        "inner": LevelTable.undecided(rows, {}, np.stack([np.ones(episodes, dtype=bool), can_high], axis=1)).decided(
            inner, np.where(can_high, 0.5, 1.0)
        ),
    }
    return Batch(rows, levels, reward, np.ones(episodes, dtype=bool))


@pytest.mark.parametrize("chance", [0.0, 0.03, 0.45, 0.55])
def test_the_planner_does_not_count_on_closed_actions(chance: float) -> None:
    problem, batch = closing_problem(), closing_batch(4000, chance)
    policy = plan_policy(build_belief(problem).update(batch), Greedy(), stream(2, "unused"))
    values = policy.values("outer", batch)[0, 0]
    np.testing.assert_allclose(values, [3.0 + 10.0 * chance, 10.0], atol=0.5)
    assert policy.full("outer", batch)[0, 0].tolist() == [0.0, 1.0]


def test_the_expected_best_open_action_against_all_masks() -> None:
    rng = stream(4, "masks")
    values, chances = rng.standard_normal((2, 3, 4)), rng.random((1, 3, 4))
    found = expected_best(values, chances)
    for s in range(2):
        for n in range(3):
            total = weight = 0.0
            for mask in itertools.product([False, True], repeat=4):
                if any(mask):
                    p = np.prod([c if m else 1 - c for c, m in zip(chances[0, n], mask, strict=True)])
                    total += p * max(v for v, m in zip(values[s, n], mask, strict=True) if m)
                    weight += p
            assert found[s, n] == pytest.approx(total / weight)


def test_without_data_everything_counts_as_open() -> None:
    problem, batch = closing_problem(), closing_batch(4)
    belief = build_belief(problem)
    assert availability_name("inner") in belief.mechanisms
    assert np.isfinite(plan_policy(belief, Greedy(), stream(3, "unused")).values("outer", batch)).all()
    assert availability_name("inner") not in belief.kl_by_mechanism()


def test_availability_is_only_learned_where_it_has_to_be_imagined() -> None:
    problem = closing_problem()
    assert availability_name("inner") not in build_belief(problem, scope=["inner"]).mechanisms


def test_availability_is_saved_with_the_belief() -> None:
    problem, batch = closing_problem(), closing_batch(50)
    belief = build_belief(problem).update(batch)
    again = build_belief(problem).with_arrays(belief.arrays())
    for name, values in belief.arrays().items():
        np.testing.assert_array_equal(values, again.arrays()[name])


def test_confounding_across_levels_is_refused_before_anything_is_learned() -> None:
    problem = closing_problem()
    with pytest.raises(GraphError, match="acts on several levels"):
        build_belief(replace(problem, latents={"U": ("plan", "r")}))
    with pytest.raises(GraphError, match="confounded"):
        build_belief(replace(problem, latents={"U": ("dose", "r")}))


def test_the_closed_form_is_not_used_below_a_mask() -> None:
    problem, batch = closing_problem(), closing_batch()
    theta = build_belief(problem).update(batch).point()
    closed = Recursion(problem, theta, Scope(problem.names), affine=True, integration=Integration("closed"))
    with pytest.raises(SettingError, match=r"the closed form is not exact: .*no masks"):
        closed.values("outer", States.of(problem, batch, "outer"))
    bare = replace(problem, levels=(problem.outermost, replace(problem.innermost, available=())))
    replace(closed, problem=bare).values("outer", States.of(bare, batch, "outer"))
