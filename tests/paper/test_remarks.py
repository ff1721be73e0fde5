"""Remarks of the paper in numbers: counts of parameters, sizes of noise, orders of growth, and what becomes of them here."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.evidence import Bound, published_bound, select_scope
from aegis.handover import HOSTS, make_gate
from aegis.mechanisms import NIG, Belief, ModelSettings, build_belief
from aegis.paper import load_bench, plan_bench, register_gates
from aegis.problem import Actions, Level, Problem, Propensity, Reward, Variable
from aegis.worlds import LinearWorld, Unified, make_world

GRIDS = (21, 41, 81)
DELTA = 0.05


def parameters(belief: Belief) -> dict[str, int]:
    """Return how many coefficients each mechanism has, all coordinates of its target together."""
    return {name: state.moments().mean.size for name, state in belief.states.items() if isinstance(state, NIG)}


@pytest.mark.parametrize(("inner", "task"), [(1, 1), (3, 1), (2, 4)])
def test_the_inner_scope_saves_the_parameters_of_the_inner_context(inner: int, task: int) -> None:
    """d_C (d_M + d_T + 1): a coefficient for each parent coordinate and an intercept, per coordinate of C."""

    def context(name: str, width: int) -> Variable:
        return Variable(name) if width == 1 else Variable(name, "vector", tuple(f"{name}{place}" for place in range(width)))

    levels = (
        Level("outer", Actions.of("M", (0.0, 1.0)), (context("T", task),), Propensity(column="p_outer")),
        Level("inner", Actions.of("A", (0.0, 1.0)), (context("C", inner),), Propensity(column="p_inner")),
    )
    problem = Problem(levels, Reward("R"), Variable("Y"))
    whole, saved = (parameters(build_belief(problem, ModelSettings(), scope)) for scope in (None, ("inner",)))
    assert set(saved) == {"Y", "R"}
    assert sum(whole.values()) - sum(saved.values()) == inner * (1 + task + 1)


def test_parameters_of_mechanisms_do_not_grow_with_the_grid_of_actions_and_cells_of_a_table_do() -> None:
    features, cells = [], []
    for points in GRIDS:
        problem = make_world("unified", preset="quadratic", inner_points=points).problem
        features.append(parameters(build_belief(problem, ModelSettings(features="fourier", linear_terms=False))))
        (table,) = build_belief(problem, ModelSettings(structure="cells")).states.values()
        cells.append(table.precision.size)
    assert features == [{"Q": 129, "Y": 129, "R": 129}] * 3  # 128 features and an intercept
    assert cells == [7 * points for points in GRIDS]


def test_half_the_context_lies_on_no_grid() -> None:
    """Q is a continuous number, and in some decisions half of it lies beyond the largest action."""
    world = make_world("unified", preset="quadratic")
    half = 0.5 * world.episodes(0, 200, world.legacy("uniform"), 3).levels["inner"].context["Q"]
    for points in GRIDS:
        grid = np.linspace(-2.0, 2.0, points)
        assert np.abs(half[:, None] - grid).min() > 0
    assert 0.05 < np.mean(np.abs(half) > 2.0) < 0.5


def test_no_cell_of_the_table_has_a_variance_of_9_or_less() -> None:
    """The outcome alone: (A - 0.5 Q)^2 has at least 2 sd^4 with sd = 1.5, and more where A is far from half the mean of Q."""
    world = Unified(q=1.0)
    variances = []
    for lever in np.linspace(-2.0, 2.0, 7):
        nodes, chances = world.context_law("inner", {"M": np.array([lever])}, 1, 1)
        for action in np.linspace(-2.0, 2.0, 21):
            values = world.effect(np.full_like(nodes["Q"], action), nodes["Q"])
            mean = np.sum(chances * values)
            variances.append(float(np.sum(chances * np.square(values - mean))))
    assert 2 * 1.5**4 < min(variances) < 11
    assert max(variances) > 90


def test_the_marginalised_variance_is_about_a_tenth_for_the_context_and_less_for_outcome_and_reward() -> None:
    """delta^2 lambda_U (1 - lambda_U) + sigma^2, and the spread of C in the sampled world."""
    spread = {
        name: delta**2 * 0.3 * 0.7 + sigma**2 for name, delta, sigma in (("C", 0.2, 0.3), ("Y", 0.15, 0.2), ("R", 0.1, 0.15))
    }
    assert spread == pytest.approx({"C": 0.098, "Y": 0.045, "R": 0.025}, abs=5e-4)
    world = LinearWorld()
    batch = world.episodes(0, 2000, world.legacy("uniform"), 4)
    table = batch.levels["meta"]
    lever = world.problem.level("meta").actions.numbers[table.action][batch.ancestors("inner")["meta"]]
    left = batch.levels["inner"].context["C"] - 0.8 * lever
    assert left.var() == pytest.approx(spread["C"], rel=0.05)


def test_the_divergence_of_random_features_levels_off_instead_of_growing_with_their_number() -> None:
    """From 64 features on the inputs are covered: eight times as many change the divergence by less than a tenth."""
    world = make_world("unified")
    log = world.episodes(0, 200, world.legacy("uniform"), 0)

    def divergence(count: int) -> float:
        settings = ModelSettings(features="fourier", count=count, feature_seed=0, linear_terms=False)
        return build_belief(world.problem, settings).update(log).kl()

    few, some, many = (divergence(count) for count in (16, 64, 512))
    assert some > 4 * few
    assert many == pytest.approx(some, rel=0.1)


def test_the_safest_scope_can_have_a_lower_value_than_another() -> None:
    """Values are constant: both levels earn more, but their largest weight is eleven times as large."""

    def constant(value: float, largest: float) -> object:
        return lambda delta: published_bound(np.full(100, value), delta, "closed form", largest)

    scopes = {"inner": constant(0.6, 2.0), "outer + inner": constant(0.7, 22.0)}
    chosen = select_scope(scopes, DELTA)  # type: ignore[arg-type]
    bounds: dict[str, Bound] = chosen.bounds
    assert chosen.scope == "inner"
    assert bounds["inner"].value > bounds["outer + inner"].value


def test_on_the_additive_plant_looks_do_not_depend_on_the_rule_of_the_host() -> None:
    """The reward grows with A under every draw, so that the mean and single draws choose the same inner action."""
    register_gates()
    world = make_world("additive", f_a=2.0, sigma_q=3.0, eta=1.0)
    for legacy in ("sign:epsilon=0.0", "deterministic"):
        seen = []
        for host in ("greedy", "ncts"):
            settings = {"levels": ["inner"], "refresh": 50}
            gate = make_gate("published", world, world.legacy(legacy), HOSTS[host](), settings, 1)
            gate.advance(151)
            seen.append([(look.gain, look.bound) for look in gate.looks])  # type: ignore[attr-defined]
        assert len(seen[0]) == 3 and seen[0] == seen[1]


def test_lambda_star_is_in_the_bounds_of_the_arms_that_have_the_switch() -> None:
    arms = {
        unit.arm: unit.settings.get("options", {}).get("lam", "root")
        for unit in plan_bench(load_bench("aegis-comparison"), "full").units
    }
    assert arms["nested_cts"] == "root"
    assert arms["aegis_cts"] == arms["aegis_handover"] == "closed form"
