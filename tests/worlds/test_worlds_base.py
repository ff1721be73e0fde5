from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from aegis.errors import SettingError
from aegis.problem import Batch, hypothetical_batch
from aegis.worlds import WORLDS, Unified, World, make_world, parse_legacy


def meta(world: World, tasks: list[float]) -> Batch:
    return hypothetical_batch(world.problem, "meta", len(tasks), {"T": np.array(tasks)}, {})


def inner(world: World, tasks: list[float]) -> Batch:
    count = len(tasks)
    return hypothetical_batch(
        world.problem, "inner", count, {"T": np.array(tasks), "Q": np.zeros(count)}, {"meta": np.zeros(count, int)}
    )


def test_specs_are_parsed() -> None:
    assert parse_legacy("natural") == ("natural", {})
    assert parse_legacy("constant: value = 1.6 , epsilon=0.2") == ("constant", {"value": 1.6, "epsilon": 0.2})


@pytest.mark.parametrize("spec", ["", ":epsilon=1", "sign:", "sign:epsilon", "sign:epsilon=", "sign:epsilon=nan", "sign:=1"])
def test_what_is_not_a_spec_is_refused(spec: str) -> None:
    with pytest.raises(SettingError, match="legacy"):
        parse_legacy(spec)


def test_a_setting_given_twice_is_refused() -> None:
    with pytest.raises(SettingError, match="'epsilon' is given twice"):
        parse_legacy("sign:epsilon=0.1,epsilon=0.2")


def test_a_legacy_that_a_world_does_not_offer_is_refused_with_what_it_offers() -> None:
    offered = r"uniform, natural:epsilon=0, constant:value=3,epsilon=0\.2"
    with pytest.raises(SettingError, match=f"^world 'linear' has no legacy 'sign'; choose one that it offers: {offered}$"):
        make_world("linear").legacy("sign:epsilon=0.3")
    with pytest.raises(SettingError, match="did you mean 'natural'"):
        make_world("plant").legacy("naturl")


def test_an_unknown_setting_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingError, match=r"no setting 'epsilom' \(did you mean 'epsilon'\?\)"):
        Unified().legacy("sign:epsilom=0.3")
    with pytest.raises(SettingError, match="no setting 'epsilon'"):
        Unified().legacy("uniform:epsilon=0.3")


@pytest.mark.parametrize("epsilon", [-0.1, 1.1])
def test_an_exploration_rate_outside_the_unit_interval_is_refused(epsilon: float) -> None:
    with pytest.raises(SettingError, match="exploration rate 'epsilon' is a finite number from 0 to 1"):
        Unified().legacy(f"sign:epsilon={epsilon}")


def test_an_enormous_setting_is_refused() -> None:
    with pytest.raises(SettingError, match=r"'value' is a finite number from -1e\+06 to 1e\+06, found 1e\+300"):
        Unified().legacy("constant:value=1e300")


@pytest.mark.parametrize("name", WORLDS)
def test_every_offer_builds_with_its_defaults(name: str) -> None:
    world = make_world(name)
    assert {"uniform", "natural"} <= set(world.offers())
    for offer in world.offers():
        assert world.legacy(offer).weights.tolist() == [1.0]


def test_natural_is_the_papers() -> None:
    world = Unified(outer_points=5, inner_points=9)
    natural = world.legacy("natural")
    got = natural.full("meta", meta(world, [-1.0, 0.5]))[0]
    edges = np.array([-np.inf, -1.5, -0.5, 0.5, 1.5, np.inf])
    want = [np.diff(stats.norm.cdf(edges, 0.8 * task, 0.2)) for task in (-1.0, 0.5)]
    assert got == pytest.approx(np.array(want))
    assert natural.full("inner", inner(world, [1.0]))[0, 0, 4] == pytest.approx(1 - 2 * stats.norm.sf(0.25, 0, 0.1))


def test_natural_explores_at_both_levels() -> None:
    world = Unified(outer_points=5, inner_points=9)
    explored = world.legacy("natural:epsilon=0.5")
    assert explored.full("meta", meta(world, [2.0])).min() == pytest.approx(0.1)
    assert explored.full("inner", inner(world, [2.0])).min() == pytest.approx(0.5 / 9)


def test_sign_constant_and_deterministic() -> None:
    world = Unified(outer_points=5, inner_points=41)
    sign = world.legacy("sign:epsilon=0.41")
    assert sign.full("meta", meta(world, [0.3]))[0, 0] == pytest.approx(np.full(5, 0.2))
    got = sign.full("inner", inner(world, [-0.3, 0.3]))[0]
    assert got[0, 0] == got[1, 40] == pytest.approx(0.59 + 0.01)
    assert got[0, 1:] == pytest.approx(np.full(40, 0.01))
    constant = world.legacy("constant:value=1.6,epsilon=0")
    assert constant.full("inner", inner(world, [0.3]))[0, 0, 36] == 1.0
    fixed = world.legacy("deterministic")
    assert fixed.full("inner", inner(world, [-0.3]))[0, 0, 0] == 1.0
    assert fixed.full("meta", meta(world, [1.25]))[0, 0] == pytest.approx(
        world.legacy("natural").full("meta", meta(world, [1.25]))[0, 0]
    )


def test_the_natural_controller_of_the_linear_world() -> None:
    world = make_world("linear")
    got = world.legacy("natural").full("meta", meta(world, [1.0, 3.0]))[0]
    edges = np.array([-np.inf, 1.5, 2.5, 3.5, 4.5, np.inf])
    want = [np.diff(stats.norm.cdf(edges, 0.6 * task + 1.0, 0.5)) for task in (1.0, 3.0)]
    assert got == pytest.approx(np.array(want))
