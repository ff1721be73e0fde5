"""Values, gains and factors: against a transcription in plain loops, and in expectation over all episodes of tiny problems."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from naive_evidence import ETA, Naive
from tiny_episodes import Episode, Tiny, TinyModel, TinyPolicy, hidden

from aegis.evidence import InnerLimits, Sketch, gain_grid
from aegis.ope import (
    CandidateView,
    Measure,
    RewardModels,
    filled_gains,
    filled_values,
    joint_gains,
    nested_gains,
    nested_values,
    plain_gains,
    plain_values,
    reward_measure,
    scaled_gains,
    scaled_values,
)
from aegis.problem import Array, Scope

TWO = Tiny(1, (1, 2), (2, 2), (2, 2))
THREE = Tiny(1, (1, 1, 2), (2, 2, 2), (1, 2, 2))
CASES = {
    "two levels": (TWO, 0.0),
    "mixture": (replace(TWO, particles=3), 0.0),
    "three actions, masks": (replace(TWO, actions=(3, 3), contexts=(1, 1), masks=True), 0.0),
    "never logged": (replace(TWO, actions=(3, 2), contexts=(1, 1), holes=True), 0.0),
    "certain candidate": (replace(TWO, actions=(3, 4), contexts=(1, 1), most=(1, 2), sharp=True), 0.0),
    "minimise": (replace(TWO, goal="minimise"), 0.0),
    "missing rewards": (replace(TWO, particles=2), 0.4),
    "never logged, masks, missing": (replace(TWO, actions=(3, 3), contexts=(1, 1), masks=True, holes=True, particles=2), 0.4),
    "three levels": (replace(THREE, particles=2), 0.0),
    "three levels, missing": (THREE, 0.3),
}
BETS = gain_grid(1.0).bets[:12:2]  # of a candidate without a cap


@dataclass(frozen=True)
class Setting:
    """All episodes of a tiny problem with a candidate, as the library sees them and as the transcription does."""

    tiny: Tiny
    chance: Array
    episodes: list[Episode]
    view: CandidateView
    measure: Measure
    missing: float

    @classmethod
    def of(cls, tiny: Tiny, missing: float = 0.0) -> Setting:
        listed = tiny.episodes()
        episodes = [episode for _, episode in listed]
        measure = reward_measure(tiny.problem)
        models = RewardModels(rewards={measure.column: TinyModel(tiny)})
        for outer, inner in itertools.combinations(tiny.names, 2):
            models.below[measure.column, Scope((outer, inner))] = TinyModel(tiny, "below", scaled=True)
        batch = hidden(tiny, tiny.batch(episodes), episodes, missing)
        chance = np.array([p for p, _ in listed])
        return cls(tiny, chance, episodes, CandidateView(tiny.problem, batch, TinyPolicy(tiny), models), measure, missing)

    def naive(self, scope: Scope) -> Naive:
        return Naive(self.tiny, scope, TinyModel(self.tiny), TinyModel(self.tiny, "below"), self.missing)

    def gain(self, scope: Scope) -> float:
        return self.tiny.value_of(scope) - self.tiny.value_of(Scope())

    def singles(self) -> list[Scope]:
        return [Scope(name) for name in self.tiny.names]

    def several(self) -> list[Scope]:
        names = self.tiny.names
        return [Scope(part) for size in range(2, len(names) + 1) for part in itertools.combinations(names, size)]

    def inner_cap(self, scope: Scope) -> float:
        """Return the largest ratio of candidate and logging policy at the inner level of a scope of two."""
        inner = [name for name in self.tiny.names if name in scope][-1]
        full, nu = self.view.full(inner, self.view.batch), self.view.logging(inner)
        if ((full > 0) & (nu == 0)).any():
            return math.inf
        return float((full / np.where(nu > 0, nu, 1.0)).max()) * (1 + 1e-9)


@pytest.fixture(scope="module", params=list(CASES))
def setting(request: pytest.FixtureRequest) -> Setting:
    return Setting.of(*CASES[request.param])


def agrees(setting: Setting, found: Array, naive: Callable[[Episode], float]) -> None:
    """Compare some of the episodes; all would take long."""
    rows = range(0, len(setting.episodes), max(1, len(setting.episodes) // 6))
    expected = [naive(setting.episodes[row]) for row in rows]
    np.testing.assert_allclose(found[list(rows)], expected, rtol=1e-9, atol=1e-9)


def test_plain(setting: Setting) -> None:
    for scope in [*setting.singles(), *setting.several()]:
        naive = setting.naive(scope)
        agrees(setting, plain_values(setting.view, scope, setting.measure), lambda e, n=naive: n.plain(e, False))
        agrees(setting, plain_gains(setting.view, scope, setting.measure), lambda e, n=naive: n.plain(e, True))


def test_scaled_robust(setting: Setting) -> None:
    for scope in setting.singles():
        naive = setting.naive(scope)
        for c in (1.0, 1.5):
            agrees(setting, scaled_gains(setting.view, scope, setting.measure, c), lambda e, n=naive, c=c: n.scaled(e, c, True))
        for c in (0.25, 1.0):
            agrees(setting, scaled_values(setting.view, scope, setting.measure, c), lambda e, n=naive, c=c: n.scaled(e, c, False))


def test_nested_robust(setting: Setting) -> None:
    for scope in setting.several():
        naive = setting.naive(scope)
        for cut in (0.25, 1.0):
            gains = nested_gains(setting.view, scope, setting.measure, cut)
            values = nested_values(setting.view, scope, setting.measure, cut)
            agrees(setting, gains, lambda e, n=naive, cut=cut: n.nested_robust(e, cut, True))
            agrees(setting, values, lambda e, n=naive, cut=cut: n.nested_robust(e, cut, False))
            assert values.min() >= -cut * len(scope) - 1e-9
            assert gains.min() >= -(1 + cut * len(scope)) - 1e-9


def test_water_filled(setting: Setting) -> None:
    for scope in setting.singles():
        naive = setting.naive(scope)
        gains = filled_gains(setting.view, scope, setting.measure, BETS)
        values = filled_values(setting.view, scope, setting.measure, 8.0 * BETS)
        assert min(gains.min(), values.min()) >= ETA * (1 - 1e-12)
        for j in range(0, BETS.size, 3):
            agrees(setting, gains[:, j], lambda e, n=naive, bet=BETS[j]: n.filled(e, bet, True))
            agrees(setting, values[:, j], lambda e, n=naive, bet=8.0 * BETS[j]: n.filled(e, bet, False))


def test_water_filled_at_two_levels(setting: Setting) -> None:
    for scope in setting.several():
        if len(scope) != 2:
            continue
        cap = setting.inner_cap(scope)
        gains = joint_gains(setting.view, scope, setting.measure, InnerLimits(cap), BETS)
        assert np.nanmin(gains) >= ETA * (1 - 1e-12)
        naive = setting.naive(scope)
        for j in range(0, BETS.size, 3):
            agrees(setting, gains[:, j], lambda e, n=naive, bet=BETS[j], cap=cap: n.joint(e, bet, cap))


def test_no_evidence_grows_faster_than_the_truth(setting: Setting) -> None:
    """With probability one every unit is above its range, and on average none is above what it stands for."""
    view, measure, exact = setting.view, setting.measure, not setting.tiny.holes and not setting.missing
    found: list[tuple[str, float, float]] = []
    for scope in [*setting.singles(), *setting.several()]:
        value, gain = setting.tiny.value_of(scope), setting.gain(scope)
        found += [("value", setting.chance @ plain_values(view, scope, measure), value)]
        found += [("gain", setting.chance @ plain_gains(view, scope, measure), gain)]
        if len(scope) == 1:
            found += [("scaled", setting.chance @ scaled_gains(view, scope, measure, c), gain) for c in (1.0, 2.0)]
            found += [("scaled value", setting.chance @ scaled_values(view, scope, measure, c), value) for c in (0.25, 1.0)]
            factors = setting.chance @ filled_gains(view, scope, measure, BETS)
            found += [("filled", factor, 1 + bet * gain) for factor, bet in zip(factors, BETS, strict=True)]
            factors = setting.chance @ filled_values(view, scope, measure, BETS * 16)
            found += [("filled value", factor, 1 + bet * value) for factor, bet in zip(factors, BETS * 16, strict=True)]
        else:
            found += [("nested", setting.chance @ nested_gains(view, scope, measure, cut), gain) for cut in (0.25, 1.0)]
            found += [("nested value", setting.chance @ nested_values(view, scope, measure, cut), value) for cut in (0.25, 1.0)]
        if len(scope) == 2:
            for cap in (setting.inner_cap(scope), math.inf):
                factors = setting.chance @ joint_gains(view, scope, measure, InnerLimits(cap), BETS)
                assert np.isfinite(factors).all()
                found += [("joint", factor, 1 + bet * gain) for factor, bet in zip(factors, BETS, strict=True)]
    for name, average, truth in found:
        assert average <= truth + 1e-9, name
        if exact:
            assert average == pytest.approx(truth, abs=1e-9), name


CARRYING = {
    "one particle": replace(TWO, carry=True),
    "mixture": replace(TWO, carry=True, particles=3),
    "per slow": replace(TWO, carry=True, per="slow"),
    "never logged": replace(TWO, carry=True, actions=(3, 2), contexts=(1, 1), holes=True),
    "three levels": replace(THREE, carry=True, particles=2),
}


@pytest.mark.parametrize("case", CARRYING)
def test_water_filled_with_carry_over(case: str) -> None:
    setting = Setting.of(CARRYING[case])
    for scope in setting.singles():
        if case == "per slow" and scope == Scope("fast"):
            continue  # several decisions lead to a reward: product weights only
        value, gain = setting.tiny.value_of(scope), setting.gain(scope)
        gains = filled_gains(setting.view, scope, setting.measure, BETS)
        values = filled_values(setting.view, scope, setting.measure, BETS)
        for average, truth in ((setting.chance @ gains, 1 + BETS * gain), (setting.chance @ values, 1 + BETS * value)):
            assert (average <= truth + 1e-9).all()
            if not setting.tiny.holes:
                np.testing.assert_allclose(average, truth, atol=1e-9)
        naive = setting.naive(scope)
        agrees(setting, gains[:, 2], lambda e, n=naive: n.filled(e, BETS[2], True))
        agrees(setting, values[:, 4], lambda e, n=naive: n.filled(e, BETS[4], False))


@pytest.mark.parametrize("c", [1.0, 1.25, 1.5, 2.0])
def test_scaled_gains_stay_above_their_range_at_every_action_and_reward(c: float) -> None:
    for seed in range(6):
        tiny = Tiny(seed, (6,), (4,), (1,), holes=seed % 2 == 0, sharp=seed > 2)
        setting = Setting.of(tiny)
        episodes = len(setting.episodes)
        doubled = setting.view.batch.take_episodes(np.tile(np.arange(episodes), 2))
        extreme = replace(doubled, reward=np.repeat([-2.0, 3.0], episodes))
        view = CandidateView(tiny.problem, extreme, TinyPolicy(tiny), setting.view.models)
        assert scaled_gains(view, Scope("fast"), setting.measure, c).min() >= -c * (1 + 1e-12)
        assert scaled_values(view, Scope("fast"), setting.measure, c / 4).min() >= -c / 4 * (1 + 1e-12)


def test_a_broken_cap_kills_the_bets_that_rely_on_it() -> None:
    setting = Setting.of(replace(TWO, seed=2))
    for scope in setting.singles():
        (name,) = scope
        full, nu = setting.view.full(name, setting.view.batch)[0], setting.view.logging(name)
        variation = np.maximum(nu - full, 0.0).sum(axis=1)
        too_small = 0.6 * float(variation.max())  # as if the candidate kept closer to the legacy than it does
        grid = gain_grid(too_small)
        factors = filled_gains(setting.view, scope, setting.measure, grid.bets)
        broken = grid.bets * variation.max() > 0.95
        assert broken.any() and not broken.all()
        assert np.isnan(factors[:, broken]).any(axis=0).all() and np.isfinite(factors[:, ~broken]).all()
        sketch = Sketch.empty(grid).add_factors(factors)
        assert [total is None for total in sketch.sums] == broken.tolist()
        assert [total is None for total in sketch.add_factors(np.ones((3, grid.bets.size))).sums] == broken.tolist()


def test_a_broken_inner_cap_kills_joint_bets() -> None:
    setting = Setting.of(replace(TWO, seed=2))
    scope = Scope(setting.tiny.names)
    cap = setting.inner_cap(scope)
    assert np.isfinite(joint_gains(setting.view, scope, setting.measure, InnerLimits(cap), BETS)).all()
    cheated = joint_gains(setting.view, scope, setting.measure, InnerLimits(1 + 0.2 * (cap - 1)), BETS / 0.3)
    assert np.isnan(cheated).any()
