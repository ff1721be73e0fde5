"""The unified world and the additive one: equations, graphs and numbers are those of the paper."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from transcription import check_sampled_equations, two_levels

from aegis.worlds import Additive, Unified, make_world
from aegis.worlds.unified_world import GRAPHS


def test_sampled_equations_of_the_unified_world() -> None:
    world = Unified(gamma=0.7, eta=0.4, nu=0.3, q=0.25, outer_steps=2, inner_steps=3, task_mean=0.2, confounder=0.4)
    check = two_levels(world, 0.4, lambda a, q: 0.75 * a * q + 0.25 * (4 - (a - 0.5 * q) ** 2))
    check_sampled_equations(world, check)


@pytest.mark.parametrize(("eta", "sigma_q"), [(0.0, 1.0), (0.4, 2.0), (1.0, 3.0)])
def test_sampled_equations_of_the_additive_world(eta: float, sigma_q: float) -> None:
    world = Additive(f_a=1.5, gamma=1.2, nu=0.5, eta=eta, sigma_q=sigma_q, outer_steps=2, inner_steps=3)
    check_sampled_equations(world, two_levels(world, eta, lambda a, q: 1.5 * a + 0.5 * q))


def test_additive_is_linear_unless_asked_and_can_have_the_contexts_of_the_stress_preset() -> None:
    assert make_world("additive") == Additive(eta=0.0, sigma_q=1.0)
    stress = make_world("additive", eta=1.0, sigma_q=3.0)
    lever = {"M": np.linspace(-2.0, 2.0, 7)}
    (own, chances), (other, its_chances) = (world.context_law("inner", lever, 7, 1) for world in (stress, Unified()))
    np.testing.assert_array_equal(own["Q"], other["Q"])
    np.testing.assert_array_equal(chances, its_chances)


def test_no_reward_of_additive_at_stress_leaves_the_declared_range() -> None:
    world = Additive(eta=1.0, sigma_q=3.0)
    low, high = world.problem.reward.range  # type: ignore[misc]  # declared
    rewards = world.episodes(0, 1000, world.legacy("uniform"), 0).reward
    assert rewards is not None and low <= rewards.min() and rewards.max() <= high


# ---- the graphs that a problem can declare -------------------------------------------------------------------------------

PERMUTED = {  # which mechanism has wrong parents, and which; the others keep those of the graph it is made from
    "permuted context": ("true", {"Q": ("T",)}),
    "permuted outcome": ("true", {"Y": ("A", "M")}),
    "permuted": ("true", {"Q": ("T",), "Y": ("A", "M")}),
    "paper, permuted": ("paper", {"Q": ("T",)}),
}


@pytest.mark.parametrize("name", PERMUTED)
def test_a_permuted_graph_exchanges_the_parents_of_some_mechanisms_and_leaves_the_plant_alone(name: str) -> None:
    origin, wrong = PERMUTED[name]
    right, permuted = Unified(graph=origin), Unified(graph=name)
    parents, before = permuted.problem.graph.parents, right.problem.graph.parents
    assert {variable: own for variable, own in parents.items() if own != before[variable]} == wrong
    for variable, own in wrong.items():
        true = Unified().problem.graph.parents[variable]
        assert not set(true) <= set(own)  # a true edge is missing: no I-map, unlike the paper's graph and the complete one
    log, same = (world.episodes(0, 5, world.legacy("uniform"), 1) for world in (right, permuted))
    np.testing.assert_array_equal(log.reward, same.reward)
    np.testing.assert_array_equal(log.levels["inner"].context["Q"], same.levels["inner"].context["Q"])


def test_permuted_graphs_are_all_that_are_wrong() -> None:
    true = GRAPHS["true"]
    for name in GRAPHS:
        parents = Unified(graph=name).problem.graph.parents
        assert (name in PERMUTED) == any(not set(own) <= set(parents[variable]) for variable, own in true.items())


# ---- the numbers of the experimental setup ------------------------------------------------------------------------------


def test_the_stress_preset_is_the_papers() -> None:
    world = make_world("unified", preset="stress")
    assert isinstance(world, Unified)
    assert (world.gamma, world.eta, world.nu, world.sigma_q, world.q) == (1.0, 1.0, 0.0, 3.0, 0.0)
    assert world.steps == (1, 20)


@pytest.mark.parametrize("name", ["unified", "additive"])
def test_actions_lie_between_minus_2_and_2_on_even_grids(name: str) -> None:
    problem = make_world(name, outer_points=5, inner_points=9).problem
    for level, points in (("meta", 5), ("inner", 9)):
        np.testing.assert_allclose(problem.level(level).actions.numbers, np.linspace(-2.0, 2.0, points))
    assert Unified().problem.level("meta").actions.count == 7


def test_the_additive_world_is_2_a_plus_half_q() -> None:
    assert make_world("additive").effect(np.array([-2.0, 1.0]), np.array([4.0, -1.0])).tolist() == [-2.0, 1.5]  # type: ignore[attr-defined]


def wrong_sign(sigma_q: float) -> float:
    """Return P(sign Q != sign M) at |M| = 2, over both signs of M, by quadrature."""
    lever = np.array([-2.0, 2.0])
    law, chances = Unified(sigma_q=sigma_q).context_law("inner", {"M": lever}, 2, 4)
    return float((chances * (np.sign(law["Q"]) != np.sign(lever)[:, None])).sum(axis=1).mean())


def test_q_has_the_other_sign_than_m_in_a_quarter_of_decisions_at_sigma_3() -> None:
    """The paper says about 26 %: 25.3 % with sigma_Q a standard deviation, in three ways; half of it if it were a variance."""
    centre = 2 * np.tanh(4.0)
    by_formula = np.mean([stats.norm.sf((centre + lift) / 3.0) for lift in (0.0, 0.3, 0.0, -0.3)])
    assert by_formula == pytest.approx(0.253, abs=5e-4)
    assert wrong_sign(3.0) == pytest.approx(by_formula, abs=5e-3)
    assert wrong_sign(np.sqrt(3.0)) < 0.14
    world = Unified(outer_points=2, inner_points=2)  # M is -2 or 2
    batch = world.episodes(0, 2000, world.legacy("uniform"), 4)
    table = batch.levels["inner"]
    lever = np.array([-2.0, 2.0])[batch.levels["meta"].action[table.parent]]
    share = float(np.mean(np.sign(table.context["Q"]) != np.sign(lever)))
    assert abs(share - by_formula) < 4 * np.sqrt(0.25 * 0.75 / 40_000)


@pytest.mark.parametrize("settings", [{}, {"eta": 1.0, "sigma_q": 3.0}])
def test_twice_the_sign_of_t_is_the_best_action_in_half_of_the_contexts(settings: dict[str, float]) -> None:
    """In the additive world A = 2 is best wherever one is; the sign of T is +1 half of the time."""
    world = make_world("additive", inner_points=11, **settings)
    actions = world.problem.level("inner").actions.numbers
    for lever, context in ((-2.0, -5.0), (0.0, 0.3), (2.0, 5.0)):
        known = {"M": np.full(11, lever), "Q": np.full(11, context), "A": actions}
        assert actions[world.mean_reward(known).argmax()] == 2.0
    batch = world.episodes(0, 2000, world.legacy("sign:epsilon=0.0"), 6)
    taken = actions[batch.levels["inner"].action].reshape(2000, -1)
    assert set(np.unique(taken)) == {-2.0, 2.0} and (taken == taken[:, :1]).all()
    tasks = batch.levels["meta"].context["T"]
    np.testing.assert_array_equal(taken[:, 0], 2.0 * np.sign(tasks))
    assert abs((taken[:, 0] == 2.0).mean() - 0.5) < 4 * 0.5 / np.sqrt(2000)
    law, chances = world.context_law("meta", {}, 1, 1)
    assert float(chances.ravel() @ (law["T"].ravel() > 0)) == pytest.approx(0.5)
