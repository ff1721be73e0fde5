from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from aegis.errors import PolicyError, SettingError
from aegis.policies import Constant, Legacy
from aegis.problem import Policy, Scope, hypothetical_batch
from aegis.worlds import (
    Additive,
    ChemicalPlant,
    Clinic,
    LinearWorld,
    OraclePolicy,
    Unified,
    make_world,
    oracle_value,
    true_value,
)

FINE = 161  # outer points that make the natural lever almost continuous
VARIANCE = {"task_sd": math.sqrt(0.3), "natural_sd": math.sqrt(0.2)}
SETTINGS: dict[str, dict[str, Any]] = {
    "base": {},
    "T": {"task_mean": 2.0},
    "N_Q": {"sigma_q": 6.0},
    "U": {"confounder": 0.9},
    "q": {"q": 1.0},
}


@pytest.mark.parametrize(
    ("row", "controlled", "natural", "variance", "uniform"),
    [
        ("base", 122.4, 103.9, 108.8, 115.0),
        pytest.param("T", 122.4, 122.1, 121.1, 115.0, marks=pytest.mark.ci),
        ("N_Q", 206.7, 197.1, 199.6, 202.9),
        pytest.param("U", 127.3, 106.5, 111.4, 117.6, marks=pytest.mark.ci),
        ("q", 79.9, 78.9, 78.0, 76.7),
    ],
)
def test_unified_per_episode(row: str, controlled: float, natural: float, variance: float, uniform: float) -> None:
    """The best value reachable per episode with M controlled, natural (two readings of its noise) or uniform on seven points."""
    settings = SETTINGS[row]
    world, fine = Unified(**settings), Unified(**settings, outer_points=FINE)
    wide = Unified(**{**VARIANCE, **settings}, outer_points=FINE)
    assert world.steps == (1, 20)
    assert 20 * oracle_value(world) == pytest.approx(controlled, abs=0.3)
    assert 20 * oracle_value(fine, ("inner",), fine.legacy("natural")) == pytest.approx(natural, abs=0.3)
    assert 20 * oracle_value(wide, ("inner",), wide.legacy("natural")) == pytest.approx(variance, abs=0.3)
    assert 20 * oracle_value(world, ("inner",), world.legacy("uniform")) == pytest.approx(uniform, abs=0.3)


def test_the_best_constant_of_the_unified_world() -> None:
    world = Unified(outer_points=3, inner_points=3)
    values = [
        20 * true_value(world, Legacy(world.problem, {"meta": Constant(m), "inner": Constant(a)}))
        for m, a in itertools.product((-2.0, 0.0, 2.0), repeat=2)
    ]
    assert max(values) == pytest.approx(88.9, abs=0.1)


def test_additive_in_closed_form() -> None:
    world = Additive(outer_steps=2)
    assert oracle_value(world) == pytest.approx(2 * 2 + 0.5 * (1.5 * 2 + 0.15) + 0.15)
    assert true_value(world, world.legacy("uniform")) == pytest.approx(0.5 * 0.15 + 0.15)
    assert oracle_value(world, ("inner",), world.legacy("uniform")) == pytest.approx(4 + 0.225)
    assert oracle_value(world, ("meta",), world.legacy("uniform")) == pytest.approx(0.5 * 3.15 + 0.15)


@pytest.mark.parametrize(("eta", "sigma_q"), [(0.5, 2.0), (1.0, 3.0)])
def test_additive_with_a_saturating_lever_in_closed_form(eta: float, sigma_q: float) -> None:
    """Y is linear in Q, so that the spread of Q does not matter, and odd in M, so that a symmetric lever adds nothing."""
    world = Additive(eta=eta, sigma_q=sigma_q, outer_steps=2)
    top = (1 - eta) * 1.5 * 2 + eta * 2 * math.tanh(2 * 2)
    assert oracle_value(world) == pytest.approx(2 * 2 + 0.5 * (top + 0.15) + 0.15)
    assert true_value(world, world.legacy("uniform")) == pytest.approx(0.5 * 0.15 + 0.15)
    assert oracle_value(world, ("inner",), world.legacy("uniform")) == pytest.approx(4 + 0.225)
    assert oracle_value(world, ("meta",), world.legacy("uniform")) == pytest.approx(0.5 * (top + 0.15) + 0.15)
    assert true_value(world, world.legacy("sign:epsilon=0.3")) == pytest.approx(0.225, abs=1e-3)


@pytest.mark.parametrize("shift", [0.0, 0.1, -0.37])
def test_a_legacy_that_jumps_with_the_sign_of_the_task(shift: float) -> None:
    world = Additive(task_mean=shift)
    positive = 0.5 * math.erfc(-shift / 0.3 / math.sqrt(2))
    assert true_value(world, world.legacy("sign:epsilon=0")) == pytest.approx(4 * (2 * positive - 1) + 0.225, abs=1e-3)


def test_noise_free_worlds() -> None:
    world = Unified(sigma_q=0, confounder=0.5)
    top = 2 * math.tanh(4)
    assert oracle_value(world) == pytest.approx(2 * (top + 0.15) + 0.15)


@pytest.mark.parametrize("name", ["unified", "linear"])
def test_refining_the_nodes_changes_little(name: str) -> None:
    world = make_world(name)
    for scope in (world.problem.names, world.problem.names[1:]):
        behaviour = world.legacy("natural")
        coarse, fine = oracle_value(world, scope, behaviour), oracle_value(world, scope, behaviour, fineness=3)
        assert coarse == pytest.approx(fine, rel=1e-4)


def test_the_latent_variable_is_averaged_given_what_is_seen() -> None:
    """E[U | Q] rises with Q where the latent lifts Q, and averages to P(U = 1)."""
    world = Unified(sigma_q=0.2)
    law, weights = world.context_law("inner", {"M": np.zeros(1)}, 1, 1)
    known = {"M": np.zeros(weights.size), "Q": law["Q"].ravel(), "A": np.zeros(weights.size)}
    lifted = world.mean_reward(known) / 0.3
    order = np.argsort(known["Q"])
    assert (np.diff(lifted[order]) >= 0).all() and lifted.min() < 0.1 and lifted.max() > 0.9
    assert weights.ravel() @ lifted == pytest.approx(0.5)


def test_the_law_of_the_clinics_level() -> None:
    world = Clinic()
    known = {"patient": np.array([[0.5, -1.0]]), "ward": np.array([1]), "plan": np.array([2])}
    law, weights = world.context_law("dose", known, 1, 1)
    for response, (chance, shift) in enumerate(((0.1, 0.4), (0.4, 0.0), (0.5, -0.4))):
        chosen = law["response"][0] == response
        assert weights[0, chosen].sum() == pytest.approx(chance)
        mean = weights[0, chosen] @ law["level"][0, chosen] / chance
        assert mean == pytest.approx(0.8 * 0.5 - 1.2 + shift + 0.4 * 0.4)


def test_the_oracle_policy_picks_the_best_available_action() -> None:
    world = Clinic()
    policy = OraclePolicy(world)
    assert isinstance(policy, Policy)
    assert policy.scope == Scope({"plan", "dose"}) and policy.weights.tolist() == [1.0]
    rows = {
        "patient": np.array([[0.0, 0.0], [0.0, 0.0]]),
        "ward": np.zeros(2, dtype=np.int32),
        "response": np.array([1, 2], dtype=np.int32),
        "level": np.array([4.0, 4.0]),
    }
    upper = {"plan": np.zeros(2, dtype=np.int32)}
    free = np.ones((2, 4), dtype=bool)
    batch = hypothetical_batch(world.problem, "dose", 2, rows, upper, {"dose": free})
    # At such a level the top dose is best; after a high response it is not available.
    assert policy.full("dose", batch).argmax(axis=2).tolist() == [[3, 2]]
    severe = {"patient": np.array([[3.0, -2.0], [3.0, -2.0], [-2.0, 2.0]]), "ward": np.array([0, 2, 0], dtype=np.int32)}
    plans = policy.full("plan", hypothetical_batch(world.problem, "plan", 3, severe, {}))
    assert plans.argmax(axis=2).tolist() == [[2, 1, 0]]


def test_the_oracle_policy_needs_decided_actions_to_say_what_was_taken() -> None:
    world = LinearWorld()
    policy = OraclePolicy(world)
    batch = world.episodes(0, 4, policy, 1)
    assert policy.taken("inner", batch).tolist() == [[1.0] * 80]
    with pytest.raises(PolicyError, match="no action has been taken yet"):
        policy.taken("meta", hypothetical_batch(world.problem, "meta", 1, {"T": np.ones(1)}, {}))


def test_what_cannot_be_asked_is_refused() -> None:
    world = ChemicalPlant()
    with pytest.raises(SettingError, match="no policy acts at batch, dose"):
        oracle_value(world, ("recipe",))
    with pytest.raises(SettingError, match="fineness"):
        oracle_value(world, fineness=0)
