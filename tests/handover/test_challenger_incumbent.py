"""The gate compares with the incumbent: the legacy without its exploration gains nothing over itself, and flips say over whom."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aegis.handover import GAIN, HOSTS, Flipped, Frozen, GateSettings, Handover, pack_challenger, summarise_run, unpack_challenger
from aegis.handover.challenger import caps_for_level, largest_variation
from aegis.handover.gate_settings import FULL, STEPS
from aegis.ope import Comparator, capped_variation
from aegis.policies import Legacy, path_full, with_incumbent, without_exploration
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=4)
EXPLORING = "constant:value=1.6,epsilon=0.3"
SETTINGS = GateSettings(levels=("inner",), upgrades=False)


def gate(host: object, legacy: str = EXPLORING, settings: GateSettings = SETTINGS, seed: int = 1) -> Handover:
    return Handover(WORLD, WORLD.legacy(legacy), host, settings, seed)  # type: ignore[arg-type]


def test_the_controller_itself_is_never_handed_over_to() -> None:
    """Over the log it gains what exploring costs, several units of reward; over itself nothing."""
    itself = without_exploration(WORLD.legacy(EXPLORING))
    run = gate(HOSTS["external"](itself, ("inner",)), settings=GateSettings(levels=("inner",), upgrades=False, caps=(math.inf,)))
    run.advance(400)
    assert not run.deployed and not any(isinstance(event, Flipped) for event in run.events)
    whole = [item for item in run.state.challenges if item.units]
    assert whole and all(item.claim(GAIN).log_evidence <= 0.05 for item in whole)


def test_a_flip_is_over_the_incumbent_and_says_so() -> None:
    run = gate(HOSTS["greedy"](), "sign:epsilon=0.3")
    run.advance(200)
    found = summarise_run(run)
    assert run.deployed and "over the incumbent (the rule 'sign')" in found["sentence"]
    assert found["levels"][0]["comparator"] == "the incumbent (the rule 'sign')"
    plain = gate(HOSTS["greedy"](), "uniform")
    plain.advance(100)
    assert "over the incumbent, which is the policy that wrote the log" in summarise_run(plain)["sentence"]


def test_the_full_policy_is_challenged_with_where_the_legacy_explores() -> None:
    run, other = gate(HOSTS["greedy"](), "sign:epsilon=0.3"), gate(HOSTS["greedy"](), "uniform")
    run.advance(20)
    other.advance(20)
    frozen = [
        [item.cap for item in event.challenges] for gates in (run, other) for event in gates.events if isinstance(event, Frozen)
    ]
    assert frozen == [list(FULL), list(STEPS)]
    asked = GateSettings(caps=(2.0,))
    assert caps_for_level(gate(HOSTS["greedy"](), settings=asked).state, "inner", explored=True) == (2.0,)


@pytest.mark.parametrize(("cap", "floor"), [(1.5, 0.05), (3.0, 0.0), (math.inf, 0.2)])
def test_no_challenger_moves_more_than_its_bets_allow(cap: float, floor: float) -> None:
    legacy = WORLD.legacy("sign:epsilon=0.3")
    comparator = Comparator.of(with_incumbent(WORLD.problem, legacy)).at("inner")
    most = largest_variation("inner", cap, floor, comparator)
    assert most == pytest.approx((1 - floor) * capped_variation(cap, 0.3) + floor * 0.3)
    assert largest_variation("inner", cap, floor, None) == 1 - floor
    assert largest_variation("meta", cap, floor, comparator) == pytest.approx((1 - floor) * (1 - 1 / cap))


def test_a_kept_challenger_comes_back_with_its_comparator() -> None:
    run = gate(HOSTS["greedy"](), "sign:epsilon=0.3")
    run.advance(30)
    name, challenger = next(iter(run.challengers.items()))
    again = unpack_challenger(pack_challenger(challenger), WORLD.problem, run.state.challenge(name))
    assert again.terms.comparator.levels == {"inner"} and again.terms.comparator.rates == {"inner": 0.3}
    batch = WORLD.episodes(100, 5, run.legacy, 1)
    assert again.evidence(batch) == challenger.evidence(batch)
    mu = path_full(again.terms.comparator.policy, "inner", batch)  # type: ignore[arg-type]
    nu = path_full(Legacy(WORLD.problem, run.legacy.rules), "inner", batch)  # type: ignore[attr-defined]
    np.testing.assert_allclose(nu, 0.7 * mu + 0.3 / nu.shape[1])
