"""The oracle next to mixtures: one particle acts throughout an episode, and actions tell which."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.policies import Constant, Legacy, LevelRule, Mixture, Natural
from aegis.problem import Scope
from aegis.worlds import ChemicalPlant, OraclePolicy, Unified, oracle_value, true_value

SMALL = Unified(sigma_q=1.0, outer_points=5, inner_points=5)
SHARES = [0.5, 0.2, 0.3]


def members() -> list[Legacy]:
    return [
        Legacy(SMALL.problem, {"meta": Natural({}, 0.5, lever), "inner": Natural({"Q": slope, "M": 0.2}, 0.5)})
        for lever, slope in ((-1.5, 0.1), (1.5, 0.4), (0.5, -0.2))
    ]


def held(lever: float, inner: LevelRule) -> Legacy:
    return Legacy(SMALL.problem, {"meta": Constant(lever), "inner": inner})


def test_a_mixture_is_worth_the_average_of_its_particles() -> None:
    values = [true_value(SMALL, member) for member in members()]
    assert len({round(value, 3) for value in values}) == 3
    assert true_value(SMALL, Mixture(members(), SHARES)) == pytest.approx(np.dot(SHARES, values))


def test_below_a_controlled_inner_level_the_particle_no_longer_matters() -> None:
    below = [oracle_value(SMALL, ("inner",), member) for member in members()]
    mixture = Mixture(members(), SHARES)
    assert oracle_value(SMALL, ("inner",), mixture) == pytest.approx(np.dot(SHARES, below))
    assert oracle_value(SMALL, None, mixture) == pytest.approx(oracle_value(SMALL))


def test_a_controlled_outer_action_must_serve_all_particles_by_their_weight() -> None:
    """One particle always plays A = 2 and wants M = 2, the other plays -2 and wants M = -2."""
    rules: list[LevelRule] = [Constant(2.0), Constant(-2.0)]
    levers = SMALL.problem.outermost.actions.numbers.tolist()
    for shares in ([0.7, 0.3], [0.3, 0.7]):
        mixture = Mixture([held(0.0, rule) for rule in rules], shares)
        fixed = [true_value(SMALL, Mixture([held(lever, rule) for rule in rules], shares)) for lever in levers]
        assert oracle_value(SMALL, ("meta",), mixture) == pytest.approx(max(fixed))
        wanted = 4 if shares[0] > 0.5 else 0
        batch = SMALL.episodes(0, 5, OraclePolicy(SMALL, Scope("meta"), mixture), 1)
        assert batch.levels["meta"].action.tolist() == [wanted] * 5


def test_actions_above_tell_a_controller_which_particle_acts() -> None:
    """The blend gives the particle away, so that the recipe can be set for the dose that will follow."""
    world = ChemicalPlant()
    camps = [
        Legacy(world.problem, {"batch": Constant(blend), "recipe": Constant(0.0), "dose": Constant(dose)})
        for blend, dose in ((-1.0, 1.5), (1.0, -1.5))
    ]
    mixture = Mixture(camps, [0.4, 0.6])
    apart = [oracle_value(world, ("recipe",), camp) for camp in camps]
    assert oracle_value(world, ("recipe",), mixture) == pytest.approx(np.dot([0.4, 0.6], apart))
    batch = world.episodes(0, 60, OraclePolicy(world, Scope("recipe"), mixture), 3)
    blend = batch.levels["batch"].action[batch.levels["recipe"].parent]
    for camp, index in zip(camps, (0, 4), strict=True):
        alone = OraclePolicy(world, Scope("recipe"), camp).full("recipe", batch)[0].argmax(axis=1)
        mine = blend == index
        assert mine.any() and (batch.levels["recipe"].action[mine] == alone[mine]).all()
        assert (batch.levels["recipe"].action[~mine] != alone[~mine]).any()
