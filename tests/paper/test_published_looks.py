"""What a look of Algorithm 2 computes, on which buffer, and its settings."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from host_cases import world_of
from published_cases import WithMargins, flips, naive_look, published

from aegis.errors import SettingError
from aegis.evidence import published_bound
from aegis.handover import HOSTS, CausalHost, ExternalHost
from aegis.mechanisms import MODELS, ModelSettings
from aegis.paper import CounterExample, PublishedSettings, published_looks
from aegis.paper.counter_example import LEVEL
from aegis.paper.published_looks import Buffers, with_draws
from aegis.planning import COARSE, ByLevel, Greedy, Ids, Lcb, Thompson

LEVELS = ("inner", "meta")


# ---- buffers ---------------------------------------------------------------------------------------------------------


def legacy_episodes(flips, scope, now, frozen):
    """Return the buffer of a scope as Algorithm 2 fills it, episode by episode: the numbers of the episodes."""
    buffer, sigma = [], set()
    for episode in range(now):
        sigma |= {level for level, flip in flips.items() if flip == episode}
        alone = scope[0] not in sigma and not (frozen and sigma)
        if alone if len(scope) == 1 else not sigma:
            buffer.append(episode)
    return buffer


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("flips", [{}, {"inner": 3}, {"meta": 2}, {"inner": 3, "meta": 5}, {"inner": 4, "meta": 4}])
def test_buffers_are_those_of_algorithm_2(flips, frozen):
    for now in range(7):
        past = {level: flip for level, flip in flips.items() if flip <= now}
        buffers = Buffers(past, frozen)
        for scope in (("inner",), ("meta",), LEVELS):
            expected = legacy_episodes(past, scope, now, frozen)
            assert buffers.size(scope, now) == len(expected)
            assert expected == list(range(len(expected)))
            assert buffers.is_open(scope) == (not past.keys() & set(scope))
            agents = {level for level, flip in past.items() if any(episode >= flip for episode in expected)}
            assert buffers.acted(scope, now) == agents | set(scope)


def looks_of(gate, level, **wanted):
    return [look for look in gate.looks if look.level == level and all(getattr(look, key) == wanted[key] for key in wanted)]


def test_looks_go_on_after_a_flip_on_a_buffer_that_no_longer_grows():
    world = WithMargins.of(world_of(f_a=2.0), inner=-1e3, meta=1e3)
    gate = published(world, world.legacy("uniform"), stride=10, refresh=10, rewards="scaled")
    gate.advance(41)
    (flip,) = flips(gate)
    assert (flip.level, flip.episode) == ("inner", 10)
    inner = looks_of(gate, "inner")
    assert [(look.episode, look.units, look.decides) for look in inner] == [
        (10, 10, True),
        *[(k, 10, False) for k in (20, 30, 40)],
    ]
    assert len({look.bound for look in inner}) == 4  # the posterior goes on
    assert all("decides nothing" in look.words for look in inner[1:])
    assert [(look.units, look.decides) for look in looks_of(gate, "meta")] == [(k, True) for k in (10, 20, 30, 40)]


@pytest.mark.parametrize("frozen", [False, True])
def test_a_frozen_buffer_speaks_of_the_full_legacy_and_one_that_grows_of_the_hybrid(frozen):
    world = WithMargins.of(world_of(f_a=2.0), inner=-1e3, meta=1e3)
    gate = published(world, world.legacy("uniform"), stride=10, refresh=10, rewards="scaled", freeze_at_first_flip=frozen)
    gate.advance(31)
    (look,) = looks_of(gate, "meta", episode=30)
    assert look.decides
    assert look.units == (10 if frozen else 30)
    assert gate.learned == 30
    plan = gate._plans.planner.plan(gate.belief, gate.host.rule, ["meta"] if frozen else LEVELS, 30)
    again, _ = gate.algorithm.judge(["meta"], 30, plan, gate.belief.kl(["meta"]), gate._episodes(0, look.units))
    assert again == look


def test_a_level_can_still_be_handed_over_on_its_frozen_buffer():
    world = WithMargins.of(world_of(f_a=2.0), inner=-1e3, meta=0.0)
    gains = []
    for margin in (9.0, None):
        plant = WithMargins.of(world.plant, inner=-1e3, meta=min(gains[1:]) - 1e-9 if margin is None else margin)
        gate = published(plant, plant.legacy("uniform"), stride=10, refresh=10, freeze_at_first_flip=True, rewards="scaled")
        gate.advance(41)
        width = gate.algorithm.measure.width
        gains = gains or [look.gain * width for look in looks_of(gate, "meta")]
    later = [flip for flip in flips(gate) if flip.level == "meta"]
    assert len(later) == 1
    assert later[0].units == 10


# ---- the published numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scope", "cut", "kind", "eta"),
    [
        (("inner",), 1.0, "raw", 0.05),
        (("meta",), 2.0, "scaled", 0.05),
        (("inner",), 3.0, "scaled", 0.3),
        (("meta", "inner"), 1.0, "raw", 0.05),
        (("meta", "inner"), 2.0, "scaled", 0.2),
    ],
)
def test_a_look_computes_what_the_paper_writes(scope, cut, kind, eta):
    world = world_of(f_a=2.0)
    gate = published(
        world, world.legacy("uniform"), largest_weight=cut, rewards=kind, stride=30, eta=eta, joint=True, levels=LEVELS
    )
    gate.advance(61)
    assert not gate.deployed
    batch, measure = gate._episodes(0, 60), gate.algorithm.measure
    rewards = measure.scaled(batch.reward) if kind == "scaled" else batch.reward
    plan = gate._plans.planner.plan(gate.belief, gate.host.rule, scope, 60)
    highest, unit = (1.0, 1.0) if kind == "scaled" else (measure.high, measure.width)
    gain, bound = naive_look(batch, plan, scope, rewards, highest, gate.belief.kl(scope), gate.settings)
    (look,) = [look for look in gate.looks if look.level == " + ".join(scope) and look.episode == 60]
    assert look.gain == pytest.approx(gain / unit, rel=1e-9)
    assert look.bound == pytest.approx(bound / unit, rel=1e-9)
    assert look.bound < look.gain
    assert look.units == 60
    assert "not a certificate" in look.words


def test_if_the_joint_scope_passes_every_level_flips_at_once():
    world = world_of(f_a=2.0)
    shared = {"stride": 30, "joint": True, "rewards": "scaled"}
    first = published(world, world.legacy("uniform"), **shared)
    first.advance(31)
    width = first.algorithm.measure.width
    inner, meta, both = (first.looks[place].gain * width for place in range(3))
    above = (both - inner - meta) / 4  # both levels stay below their margins, together they are above the sum
    assert above > 0
    plant = WithMargins.of(world, inner=inner + above, meta=meta + above)
    gate = published(plant, plant.legacy("uniform"), **shared)
    gate.advance(61)
    assert [(flip.level, flip.episode, flip.gain_lower) for flip in flips(gate)] == [
        ("inner", 30, pytest.approx(both / width)),
        ("meta", 30, pytest.approx(both / width)),
    ]
    assert [(look.level, look.units, look.decides) for look in gate.looks[3:]] == [
        ("inner", 30, False),
        ("meta", 30, False),
        ("meta + inner", 30, False),
    ]
    alone = published(plant, plant.legacy("uniform"), stride=30, rewards="scaled")
    alone.advance(31)
    assert not flips(alone)


def test_after_a_flip_the_joint_scope_decides_nothing():
    plant = WithMargins.of(world_of(f_a=2.0), inner=-1e3, meta=500.0)  # together: -500, reached by any gain
    gate = published(plant, plant.legacy("uniform"), stride=10, refresh=10, joint=True, levels=LEVELS, rewards="scaled")
    gate.advance(11)
    assert {flip.level for flip in flips(gate)} == {"inner", "meta"}
    high = WithMargins.of(world_of(f_a=2.0), inner=-1e3, meta=2e3)
    gate = published(high, high.legacy("uniform"), stride=10, refresh=10, joint=True, rewards="scaled")
    gate.advance(31)
    assert [flip.level for flip in flips(gate)] == ["inner"]
    joint = looks_of(gate, "meta + inner")
    assert [(look.episode, look.units, look.decides) for look in joint] == [(10, 10, True), (20, 10, False), (30, 10, False)]


def test_the_joint_scope_needs_all_levels():
    world = world_of()
    with pytest.raises(SettingError, match="'joint' hands over all levels at once, but 'levels' names inner"):
        published(world, world.legacy("uniform"), joint=True, levels=("inner",))


def test_episodes_without_a_decision_are_left_out():
    world = world_of(f_a=2.0)
    gate = published(world, world.legacy("uniform"), stride=30, rewards="scaled")
    gate.advance(31)
    batch, plan = gate._episodes(0, 30), gate._plans.planner.plan(gate.belief, gate.host.rule, ["inner"], 30)
    inner = batch.levels["inner"]
    kept = batch.episode_of("inner") != 7  # episode 7 has no inner decision
    fewer = replace(
        batch,
        levels={**batch.levels, "inner": inner.take(np.flatnonzero(kept), inner.parent[kept])},
        **{name: getattr(batch, name)[kept] for name in ("reward", "observed", "outcome")},
    )
    whole = gate.algorithm.judge(["inner"], 30, plan, 1.0, batch.take_episodes(np.flatnonzero(np.arange(30) != 7)))[0]
    assert gate.algorithm.judge(["inner"], 30, plan, 1.0, fewer)[0].gain == whole.gain


def test_where_values_are_too_far_below_zero_the_estimate_does_not_exist_and_nothing_is_handed_over():
    world = world_of(f_a=0.5)
    gate = published(world, world.legacy("uniform"), stride=60, levels=("inner",))
    gate.advance(61)
    (look,) = gate.looks
    assert look.gain is None
    assert "does not exist" in look.words


def test_weights_that_are_not_cut_take_the_largest_seen_for_b():
    world = world_of(f_a=0.5)
    gate = published(world, world.legacy("uniform"), largest_weight=None, rewards="scaled", stride=30)
    gate.advance(31)
    assert "B is the largest weight observed" in gate.looks[0].words


def test_one_over_root_k_instead_of_lambda_star_waits_until_it_is_defined():
    world, shared = world_of(f_a=0.5), {"rewards": "scaled", "largest_weight": 8.0, "levels": ("inner",)}
    gains = {}
    for optimal in (True, False):
        gate = published(world, world.legacy("uniform"), optimal_lambda=optimal, **shared)
        gate.advance(101)
        gains[optimal] = [look.gain for look in gate.looks]
    assert gains[False][0] is None  # K has to be above B^2 = 64
    assert None not in gains[True]
    assert gains[False][1] != gains[True][1]


# ---- settings --------------------------------------------------------------------------------------------------------


def test_n_mc_is_the_number_of_draws_of_theta_and_of_contexts_of_models_that_are_not_linear():
    usual, some = PublishedSettings(), PublishedSettings(n_mc=5)
    assert usual.look_rule(Thompson(8)) == Thompson(8)
    assert some.look_rule(Thompson(8)) == Thompson(5)
    assert with_draws(ByLevel(Ids(8), Lcb(draws=3)), 5) == ByLevel(Ids(5), Lcb(draws=5))
    assert with_draws(Greedy(), 5) == Greedy()
    linear, fourier = ModelSettings(), ModelSettings(features="fourier")
    assert usual.integration(COARSE, fourier) == COARSE
    assert some.integration(COARSE, linear) == replace(COARSE, samples=5)
    assert some.integration(COARSE, fourier) == replace(COARSE, method="monte_carlo", samples=5)


def test_n_mc_reaches_the_looks_and_what_acts():
    world = WithMargins.of(world_of(f_a=2.0), inner=-1e3)
    host = CausalHost("mine", Thompson(8), {"mine": ModelSettings(features="fourier", count=16)})
    for draws, acting, judged in ((None, 16, 8), (5, 5, 5)):
        gate = published(world, world.legacy("uniform"), stride=10, refresh=10, n_mc=draws, rewards="scaled", host=host)
        gate.advance(11)
        assert gate.acting.choice.theta.count == acting
        assert gate.acting.integration == (COARSE if draws is None else replace(COARSE, method="monte_carlo", samples=5))
        rules = []

        def plan(rule, levels, gate=gate, rules=rules):
            rules.append(rule)
            return gate._plans.planner.plan(gate.belief, rule, levels, 10)

        gate.algorithm.looks([(level,) for level in LEVELS], gate.buffers, 10, gate.belief, gate._episodes(0, 10), plan)
        assert rules == [Thompson(judged)] * 2


def test_without_a_model_named_it_is_the_host_s_own_if_it_has_one():
    own = ModelSettings(features="fourier", count=16)
    host = CausalHost("mine", Thompson(2), {"mine": own})
    assert PublishedSettings().model_of(host) is own
    assert PublishedSettings(model="linear").model_of(host) is MODELS["linear"]
    assert PublishedSettings().model_of(HOSTS["ncts"]()) is MODELS["linear"]
    world = world_of()
    assert PublishedSettings().model_of(ExternalHost(world.legacy("uniform"))) is MODELS["linear"]
    gate = published(world, world.legacy("uniform"), host=host)
    assert gate._plans.model is own
    assert not any(mechanism.affine for mechanism in gate.belief.mechanisms.values())


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"stride": 0}, "'stride' should be greater than or equal to 1"),
        ({"stride": 50, "refresh": 7}, "'refresh' divides 'stride'"),
        ({"largest_weight": 0.0}, "'largest_weight' should be greater than 0"),
        ({"positivity": 1.0}, "'positivity'"),
        ({"delta": 1.5}, "'delta'"),
        ({"rewards": "rew"}, "'rewards' should be 'raw' or 'scaled'"),
        ({"model": "liner"}, "did you mean 'linear'"),
        ({"strides": 3}, "did you mean 'stride'"),
        ({"eta": 1.0}, "'eta'"),
        ({"eta": 0.0}, "'eta'"),
        ({"n_mc": 0}, "'n_mc'"),
        ({"joint": 1}, "'joint'"),
        ({"freeze_at_first_flip": "yes"}, "'freeze_at_first_flip'"),
    ],
)
def test_bad_settings_are_refused(settings, says):
    with pytest.raises(SettingError, match=says):
        PublishedSettings.of(settings)


def test_every_setting_is_on_the_page_with_its_default():
    page = (Path(__file__).parents[2] / "docs" / "handover.md").read_text(encoding="utf-8")
    section = page.split("**`published`**")[1].split("\n## ")[0]
    words = {"None": "null", "True": "true", "False": "false", "()": "all"}
    for name, info in PublishedSettings.model_fields.items():
        row = re.search(rf"^\| [^|]*`{name}`[^|]* \| ([^|]+) \|", section, flags=re.M)
        assert row is not None, name
        default = f"{info.default:g}" if isinstance(info.default, float) else str(info.default)
        assert words.get(default, default) in row[1].strip().split(", "), name


def test_unless_asked_otherwise_a_gate_is_that_of_the_demonstration():
    """All three switches on, a look every 50 episodes, the lever uniform in one of twenty, weights cut at 1."""
    usual = PublishedSettings()
    assert usual.risk_adjust_inner and usual.optimal_lambda and usual.progressive_handover
    assert (usual.stride, usual.positivity, usual.largest_weight, usual.refresh) == (50, 0.05, 1.0, 1)
    assert not usual.joint and not usual.freeze_at_first_flip and 0 < usual.eta < 1


def test_lambda_star_is_at_its_limit_in_the_first_looks_of_the_gate(monkeypatch):
    """Not small against 1/B, where the closed form is derived: the divergence is large and the episodes are few."""
    temperatures = []

    def recorded(*args, **settings):
        bound = published_bound(*args, **settings)
        temperatures.append((len(args[0]), bound.lam * bound.largest, bound.lam_from))
        return bound

    monkeypatch.setattr(published_looks, "published_bound", recorded)
    world = world_of(f_a=2.0)
    gate = published(world, world.legacy("uniform"), levels=("inner",), rewards="scaled", stride=25, n_mc=4)
    gate.advance(151)
    assert [units for units, *_ in temperatures] == [25, 50, 75, 100, 125, 150]
    assert temperatures[0][1] == pytest.approx(0.95) and "at its limit" in temperatures[0][2]
    assert min(product for _, product, _ in temperatures) > 0.3  # never << 1


def test_settings_survive_as_plain_data():
    settings = PublishedSettings(stride=20, refresh=5, levels=("inner",), eta=0.1, n_mc=4, model="linear")
    assert PublishedSettings.of(json.loads(json.dumps(settings.plain()))) == settings


def test_a_reward_that_is_never_above_zero_has_no_b():
    plant = CounterExample()
    gate = published(plant, plant.legacy, stride=10)
    gate.advance(10)
    algorithm = replace(gate.algorithm, measure=type(gate.algorithm.measure)("earned", -9.0, -1.0, "maximise"))
    plan = gate._plans.planner.plan(gate.belief, gate.host.rule, [LEVEL], 10)
    look, hands_over = algorithm.judge([LEVEL], 10, plan, 1.0, gate._episodes(0, 10))
    assert look.gain is None
    assert "B is not defined" in look.words
    assert not hands_over
