"""Gains over a stated incumbent: against a transcription in plain loops, and in expectation over all episodes of tiny problems.

The logger nu, the incumbent mu and the candidate pi are three policies (theory section 12). In every case the mean of the
evidence, over all that can happen, is at most what the true gain over mu allows, and no unit falls below its range.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from naive_evidence import ETA, Naive
from tiny_episodes import Episode, Tiny, TinyIncumbent, TinyModel, TinyPolicy, hidden

from aegis.certificate import Reach, gain_parts
from aegis.certificate.claims import CLAIM_METHODS
from aegis.errors import RefusedError
from aegis.evidence import InnerLimits, gain_grid, gain_stakes, sensitivity_factors_against, water_filled_factors
from aegis.ope import (
    CandidateView,
    Closeness,
    Comparator,
    Measure,
    RewardModels,
    both_sides,
    corrected_gains,
    filled_gains,
    filled_gains_within_error,
    guard_measures,
    joint_gains,
    nested_gains,
    plain_gains,
    reward_measure,
    scaled_gains,
    with_least_weights,
)
from aegis.problem import Array, Scope

TWO = Tiny(1, (1, 2), (2, 2), (2, 2), incumbent="mixed")
THREE = Tiny(1, (1, 1, 2), (2, 2, 2), (1, 2, 2), incumbent="mixed")
WIDE = replace(TWO, actions=(3, 3), contexts=(1, 1))
CASES = {
    "explores around the incumbent": TWO,
    "mixture": replace(TWO, particles=3),
    "masks": replace(WIDE, masks=True),
    "never logged": replace(WIDE, holes=True),
    "certain policies": replace(WIDE, most=(1, 2), sharp=True),
    "minimise": replace(TWO, goal="minimise"),
    "three levels": replace(THREE, particles=2),
    "any incumbent": replace(TWO, incumbent="free"),
    "incumbent beyond the log": replace(WIDE, holes=True, incumbent="free"),
    "certain incumbent beyond the log": replace(WIDE, most=(1, 2), holes=True, sharp=True, incumbent="free"),
}
LOST = {  # the share of rewards that are missing, of further cases
    "missing rewards": (replace(TWO, particles=2), 0.4),
    "missing rewards, incumbent beyond the log": (replace(WIDE, holes=True, masks=True, incumbent="free"), 0.4),
    "missing rewards, three levels": (THREE, 0.3),
}
ALL = {name: (tiny, 0.0) for name, tiny in CASES.items()} | LOST
BETS = gain_grid(1.0).bets[:12:2]


@dataclass(frozen=True)
class Setting:
    """All episodes of a tiny problem with its three policies."""

    tiny: Tiny
    chance: Array
    episodes: list[Episode]
    view: CandidateView
    measure: Measure
    missing: float = 0.0

    @classmethod
    def of(cls, tiny: Tiny, missing: float = 0.0, others: bool = False, products: float | None = None) -> Setting:
        listed = tiny.episodes()
        episodes = [episode for _, episode in listed]
        measure = reward_measure(tiny.problem)
        models = RewardModels(rewards={measure.column: TinyModel(tiny)})
        for outer, inner in itertools.combinations(tiny.names, 2):
            models.below[measure.column, Scope((outer, inner))] = TinyModel(tiny, "below", scaled=True)
        most = {} if tiny.incumbent == "free" else dict.fromkeys(tiny.names, 1 / (1 - tiny.explored))
        comparator = Comparator(
            TinyIncumbent(tiny),
            Scope(tiny.names),
            ratios=most,
            products={} if products is None else dict.fromkeys(tiny.names, products),
            others=others,
        )
        batch = hidden(tiny, tiny.batch(episodes), episodes, missing)
        view = CandidateView(tiny.problem, batch, TinyPolicy(tiny), models, comparator)
        return cls(tiny, np.array([p for p, _ in listed]), episodes, view, measure, missing)

    def naive(self, scope: Scope, others: bool = False) -> Naive:
        return Naive(self.tiny, scope, TinyModel(self.tiny), TinyModel(self.tiny, "below"), self.missing, others)

    @property
    def known(self) -> bool:
        """Say whether a bound of mu / nu is known."""
        return bool(self.view.comparator.ratios)

    def singles(self) -> list[Scope]:
        return [Scope(name) for name in self.tiny.names]

    def several(self) -> list[Scope]:
        names = self.tiny.names
        return [Scope(part) for size in range(2, len(names) + 1) for part in itertools.combinations(names, size)]

    def inner(self, scope: Scope) -> tuple[InnerLimits, InnerLimits]:
        """Return how close the candidate stays to the incumbent at the inner level of two: by its cap, and by its step.

        Both hold in every context that an action can lead to, also where the log never goes.
        """
        name = [name for name in self.tiny.names if name in scope][-1]
        everywhere = replace(self.tiny, holes=False)
        batch = everywhere.batch([episode for _, episode in everywhere.episodes()])
        pi, (mu,) = TinyPolicy(self.tiny).full(name, batch), TinyIncumbent(self.tiny).full(name, batch)
        with np.errstate(divide="ignore", invalid="ignore"):
            caps = np.where(mu > 0, pi / mu, np.where(pi > 0, np.inf, 0.0))
            steps = np.where(mu > 0, 1.0 - pi / mu, 0.0)
        return InnerLimits(cap=float(caps.max()) * (1 + 1e-9)), InnerLimits(step=min(1.0, float(steps.max()) + 1e-9))


@pytest.fixture(scope="module", params=list(ALL))
def setting(request: pytest.FixtureRequest) -> Setting:
    return Setting.of(*ALL[request.param])


def agrees(setting: Setting, found: Array, naive: Callable[[Episode], float]) -> None:
    """Compare some of the episodes; all would take long."""
    rows = range(0, len(setting.episodes), max(1, len(setting.episodes) // 6))
    expected = [naive(setting.episodes[row]) for row in rows]
    np.testing.assert_allclose(found[list(rows)], expected, rtol=1e-9, atol=1e-9)


# ---- against the transcription ---------------------------------------------------------------------------------------------


def test_plain(setting: Setting) -> None:
    for scope in [*setting.singles(), *setting.several()]:
        naive = setting.naive(scope)
        sides = both_sides(setting.view, scope, setting.measure)
        agrees(setting, sides, naive.both_sides)
        assert sides.min() >= 0
        if setting.known:
            gains = plain_gains(setting.view, scope, setting.measure)
            agrees(setting, gains, lambda e, n=naive: n.plain(e, True))
            assert gains.min() >= -setting.view.comparator.ratio(scope) * (1 + 1e-12)


def test_scaled_robust(setting: Setting) -> None:
    if not setting.known:
        return
    for scope, c in itertools.product(setting.singles(), (1.0, 1.5)):
        own, naive = c * setting.view.comparator.ratio(scope), setting.naive(scope)
        gains = scaled_gains(setting.view, scope, setting.measure, own)
        agrees(setting, gains, lambda e, n=naive, c=own: n.scaled(e, c, True))
        assert gains.min() >= -own * (1 + 1e-12)


def test_nested_robust(setting: Setting) -> None:
    for scope, cut in itertools.product([*setting.singles(), *setting.several()], (0.25, 1.0)):
        gains, naive = nested_gains(setting.view, scope, setting.measure, cut), setting.naive(scope)
        agrees(setting, gains, lambda e, n=naive, cut=cut: n.nested_sides(e, cut))
        assert gains.min() >= -(1 + 2 * cut * len(scope)) - 1e-9


def test_water_filled(setting: Setting) -> None:
    for scope in setting.singles():
        gains, naive = filled_gains(setting.view, scope, setting.measure, BETS), setting.naive(scope)
        assert gains.min() >= ETA * (1 - 1e-12)
        for j in range(0, BETS.size, 3):
            agrees(setting, gains[:, j], lambda e, n=naive, bet=BETS[j]: n.filled(e, bet, True))


def test_water_filled_at_two_levels(setting: Setting) -> None:
    for scope in setting.several():
        if len(scope) != 2:
            continue
        for inner in setting.inner(scope):
            gains = joint_gains(setting.view, scope, setting.measure, inner, BETS)
            assert np.nanmin(gains) >= ETA * (1 - 1e-12)
            naive = setting.naive(scope)
            for j in range(0, BETS.size, 3):
                agrees(setting, gains[:, j], lambda e, n=naive, b=BETS[j], i=inner: n.joint(e, b, i.cap, i.step))


@pytest.mark.parametrize("factor", [1.0, 1.3])
def test_doubted(setting: Setting, factor: float) -> None:
    for scope in setting.singles():
        gains, naive = filled_gains_within_error(setting.view, scope, setting.measure, BETS, factor), setting.naive(scope)
        for j in range(0, BETS.size, 3):
            agrees(setting, gains[:, j], lambda e, n=naive, b=BETS[j]: n.doubted(e, b, factor))
        if factor == 1.0:
            np.testing.assert_allclose(gains, filled_gains(setting.view, scope, setting.measure, BETS), atol=1e-9)


CORRECTED = [name for name, (tiny, _) in ALL.items() if tiny.incumbent == "mixed"]


@pytest.mark.parametrize("case", CORRECTED)
def test_other_levels_are_corrected_to_the_incumbent(case: str) -> None:
    tiny, missing = ALL[case]
    setting = Setting.of(tiny, missing, others=True)
    ratios = dict(setting.view.comparator.ratios)
    for scope in setting.singles():
        gain, naive = tiny.gain_of(scope, others=True), setting.naive(scope, others=True)
        most = math.prod(ratios[name] for name in tiny.names if name not in scope)
        bets = BETS / most
        found = corrected_gains(setting.view, scope, setting.measure, most, bets)
        assert found.min() > 0
        for j in range(0, bets.size, 3):
            agrees(setting, found[:, j], lambda e, n=naive, bet=bets[j]: n.corrected(e, bet, ratios))
        average = setting.chance @ found
        assert (average <= 1 + bets * gain + 1e-9).all()
        agrees(setting, plain_gains(setting.view, scope, setting.measure), lambda e, n=naive: n.plain(e, True))
        agrees(setting, both_sides(setting.view, scope, setting.measure), naive.both_sides)
        assert setting.chance @ plain_gains(setting.view, scope, setting.measure) <= gain + 1e-9
        assert setting.chance @ both_sides(setting.view, scope, setting.measure) <= 1 + gain + 1e-9
        if not tiny.holes and not missing:
            np.testing.assert_allclose(average, 1 + bets * gain, atol=1e-9)


# ---- in expectation --------------------------------------------------------------------------------------------------------


def averages(setting: Setting) -> list[tuple[str, float, float]]:
    """Return the mean of every form of evidence, and what it may be at most."""
    view, measure, chance = setting.view, setting.measure, setting.chance
    found: list[tuple[str, float, float]] = []
    for scope in [*setting.singles(), *setting.several()]:
        gain = setting.tiny.gain_of(scope)
        found += [("both sides", chance @ both_sides(view, scope, measure), 1 + gain)]
        found += [("nested", chance @ nested_gains(view, scope, measure, cut), gain) for cut in (0.25, 1.0)]
        if setting.known:
            found += [("plain", chance @ plain_gains(view, scope, measure), gain)]
        if len(scope) == 1:
            if setting.known:
                ranges = [c * view.comparator.ratio(scope) for c in (1.0, 2.0)]
                found += [("scaled", chance @ scaled_gains(view, scope, measure, c), gain) for c in ranges]
            factors = chance @ filled_gains(view, scope, measure, BETS)
            found += [("filled", factor, 1 + bet * gain) for factor, bet in zip(factors, BETS, strict=True)]
            factors = chance @ filled_gains_within_error(view, scope, measure, BETS, 1.3)
            found += [("doubted", factor, 1 + bet * gain) for factor, bet in zip(factors, BETS, strict=True)]
        if len(scope) == 2:
            for inner in (*setting.inner(scope), InnerLimits()):
                factors = chance @ joint_gains(view, scope, measure, inner, BETS)
                alive = np.isfinite(factors)  # rounding may kill the largest bet of a candidate that keeps no cap
                assert alive[1:].all(), inner
                found += [("joint", factor, 1 + bet * gain) for factor, bet in zip(factors[alive], BETS[alive], strict=True)]
    return found


def test_no_evidence_grows_faster_than_the_gain_over_the_incumbent(setting: Setting) -> None:
    covered = not setting.tiny.holes and not setting.missing
    for name, average, most in averages(setting):
        assert average <= most + 1e-9, name
        if covered and name != "doubted":
            assert average == pytest.approx(most, abs=1e-9), name


@settings(max_examples=25, deadline=None)
@example(880, (2, 2), True, True, "free", 0.5)  # both act where the log never does, and differ there only
@given(
    st.integers(0, 10**6),
    st.sampled_from([(2, 2), (3, 2), (2, 3)]),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["mixed", "free"]),
    st.floats(0.05, 0.9),
)
def test_whatever_the_rewards_and_policies(
    seed: int, actions: tuple[int, int], holes: bool, sharp: bool, incumbent: str, explored: float
) -> None:
    tiny = Tiny(seed, (1, 1), actions, (1, 2), holes=holes, sharp=sharp, incumbent=incumbent, explored=explored)
    for name, average, most in averages(Setting.of(tiny)):
        assert average <= most + 1e-9, (name, tiny)


def test_guards_are_compared_with_the_incumbent(setting: Setting) -> None:
    (guard,) = guard_measures(setting.tiny.problem)
    for scope in setting.singles():
        gain = setting.tiny.gain_of(scope, setting.tiny.unit_guard)
        assert setting.chance @ both_sides(setting.view, scope, guard) <= 1 + gain + 1e-9
        factors = setting.chance @ filled_gains(setting.view, scope, guard, BETS)
        assert (factors <= 1 + BETS * gain + 1e-9).all()


# ---- decisions that carry over, rewards of whole episodes ------------------------------------------------------------------


CARRYING = {
    "one particle": replace(TWO, carry=True),
    "mixture": replace(TWO, carry=True, particles=3),
    "certain incumbent": replace(TWO, carry=True, most=(1, 2), sharp=True),
    "never logged": replace(WIDE, carry=True, most=(1, 2), holes=True),
    "any incumbent": replace(TWO, carry=True, incumbent="free"),
    "incumbent beyond the log": replace(WIDE, carry=True, most=(1, 2), holes=True, incumbent="free"),
}


@pytest.mark.parametrize("case", CARRYING)
def test_carry_over(case: str) -> None:
    """With 'max_product' declared the bets use G^mu; without it what both sides earn is enough."""
    tiny = CARRYING[case]
    most = (1 / (1 - tiny.explored)) ** 6
    setting = Setting.of(tiny, products=None if tiny.incumbent == "free" else most)
    for scope in setting.singles():
        gain, naive = tiny.gain_of(scope), setting.naive(scope)
        sides = both_sides(setting.view, scope, setting.measure)
        agrees(setting, sides, naive.both_sides)
        assert sides.min() >= 0 and setting.chance @ sides <= 1 + gain + 1e-9
        if tiny.incumbent == "free":
            continue
        bets = gain_grid(most).bets[:12:2]
        factors = filled_gains(setting.view, scope, setting.measure, bets)
        assert factors.min() >= ETA * (1 - 1e-12)
        average = setting.chance @ factors
        assert (average <= 1 + bets * gain + 1e-9).all()
        if not tiny.holes:
            np.testing.assert_allclose(average, 1 + bets * gain, atol=1e-9)
        agrees(setting, factors[:, 2], lambda e, n=naive, bet=bets[2]: n.filled(e, bet, True))


def test_a_product_larger_than_declared_is_refused() -> None:
    setting = Setting.of(replace(TWO, carry=True, seed=3), products=1.01)
    with pytest.raises(RefusedError, match="more than 'max_product'"):
        filled_gains(setting.view, Scope("fast"), setting.measure, BETS)


@pytest.mark.parametrize("incumbent", ["mixed", "free"])
def test_rewards_of_whole_episodes(incumbent: str) -> None:
    tiny = replace(TWO, per="episode", incumbent=incumbent, particles=2)
    setting = Setting.of(tiny)
    for scope in [*setting.singles(), *setting.several()]:
        gain, naive = tiny.gain_of(scope), setting.naive(scope)
        gains = plain_gains(setting.view, scope, setting.measure)
        agrees(setting, gains, naive.whole)
        sides = both_sides(setting.view, scope, setting.measure)
        assert sides.min() >= 0
        assert setting.chance @ sides == pytest.approx(1 + gain, abs=1e-9)
        assert setting.chance @ gains == pytest.approx(gain, abs=1e-9)


@pytest.mark.parametrize(
    ("per", "carry", "others"),
    [
        ("episode", False, False),
        ("slow", False, False),
        ("decision", True, False),
        ("slow", False, True),
        ("episode", False, True),
    ],
)
def test_bounds_of_one_ratio_are_not_taken_for_bounds_of_products(per: str, carry: bool, others: bool) -> None:
    """Where several decisions lead to a reward, what they multiply to exceeds sup mu/nu: evidence stays above 0 all the same."""
    for seed in (1, 2):
        tiny = Tiny(seed, (1, 2), (2, 2), (2, 2), incumbent="mixed", per=per, carry=carry, sharp=seed == 1)
        setting = Setting.of(tiny, others=others)
        for scope in [*setting.singles(), *setting.several()]:
            reach = Reach(True, tuple(Closeness() for _ in scope), setting.view.comparator)
            gain = tiny.gain_of(scope, others=others)
            for method, part in (
                (m, p) for m in CLAIM_METHODS for p in gain_parts(tiny.problem, scope, setting.measure, reach, m)
            ):
                bets = gain_grid(part.largest).bets[:6:2]
                found = part.compute(setting.view, bets, 1.0)
                assert found.min() >= 0, (method, part.name)
                if part.kind == "values":
                    assert setting.chance @ found <= part.offset + gain + 1e-9, (method, part.name)
                else:
                    assert (setting.chance @ found <= 1 + bets * gain + 1e-9).all(), (method, part.name)


# ---- one decision: every reward and every true propensity ------------------------------------------------------------------


def shares(size: int, least: float = 0.0) -> st.SearchStrategy[Array]:
    own = st.floats(max(least, 1e-6), 1.0)
    chances = st.lists(own if least else st.one_of(st.just(0.0), own), min_size=size, max_size=size)
    return chances.filter(lambda found: sum(found) > 0.1).map(lambda found: np.array(found) / sum(found))


SIZE = 4


@settings(max_examples=60, deadline=None)
@given(shares(SIZE), shares(SIZE), shares(SIZE), st.lists(st.floats(0, 1), min_size=SIZE, max_size=SIZE), st.floats(0.02, 1))
def test_one_decision_for_every_reward(pi: Array, mu: Array, nu: Array, guess: list[float], bold: float) -> None:
    """Factors are at least eta for every reward, and their mean is at most 1 + bet gain for every mean reward of the actions."""
    stakes = gain_stakes(pi[None], mu[None], nu[None])
    largest = float(stakes.worst[0])
    assume(largest > 1e-6)
    bets = bold * gain_grid(largest).bets[:3]
    predicted = np.array([guess])

    def factors(action: int, reward: float) -> Array:
        return water_filled_factors(stakes, nu[None], predicted, np.array([action]), np.array([reward]), bets)[0]

    logged = [a for a in range(SIZE) if nu[a] > 0]
    ends = {(a, r): factors(a, r) for a in logged for r in (0.0, 1.0)}
    assert min(found.min() for found in ends.values()) >= ETA * (1 - 1e-12)
    for means in itertools.product((0.0, 1.0), repeat=SIZE):  # linear in the mean rewards: corners are enough
        average = sum(nu[a] * ends[a, means[a]] for a in logged)
        assert (average <= 1 + bets * float((pi - mu) @ np.array(means)) + 1e-9 * (1 + bets)).all()


@settings(max_examples=40, deadline=None)
@given(
    shares(SIZE), shares(SIZE), shares(SIZE, 0.02), st.lists(st.floats(0, 1), min_size=SIZE, max_size=SIZE),
    st.floats(1.0, 3.0), st.lists(st.floats(-1, 1), min_size=SIZE, max_size=SIZE),
)  # fmt: skip
def test_one_decision_with_doubtful_propensities(
    pi: Array, mu: Array, nu: Array, guess: list[float], factor: float, errors: list[float]
) -> None:
    """The logged nu is wrong by up to the factor: under every true one the mean is at most 1 + bet gain."""
    true = nu * factor ** np.array(errors)
    true = true / true.sum()
    assume(((true <= factor * nu) & (true >= nu / factor)).all())
    worst = float(np.maximum(mu - pi, 0.0).sum())
    assume(worst > 1e-6)
    bets, predicted = gain_grid(worst).bets[:6:2], np.array([guess])

    def factors(action: int, reward: float) -> Array:
        args = (np.array([action]), np.array([reward]), bets, factor)
        return sensitivity_factors_against(pi[None], mu[None], nu[None], predicted, *args)[0]

    ends = {(a, r): factors(a, r) for a in range(SIZE) for r in (0.0, 1.0)}
    assert min(found.min() for found in ends.values()) >= ETA * (1 - 1e-12)
    for means in itertools.product((0.0, 1.0), repeat=SIZE):
        average = sum(true[a] * ends[a, means[a]] for a in range(SIZE))
        assert (average <= 1 + bets * float((pi - mu) @ np.array(means)) + 1e-9 * (1 + bets)).all()


@pytest.mark.parametrize("case", ["explores around the incumbent", "incumbent beyond the log", "three levels"])
def test_both_sides_with_the_least_weights(case: str) -> None:
    """A logged probability that is too small makes weights too large; the least weights stay below under every true one."""
    tiny = CASES[case]
    setting, factor = Setting.of(tiny), 1.5
    for scope in setting.singles():
        (name,) = scope
        lowered = with_least_weights(setting.view, {name: factor})
        found = both_sides(lowered, scope, setting.measure)
        plainly = both_sides(setting.view, scope, setting.measure)
        assert (found <= plainly + 1e-12).all() and (found >= plainly / factor - 1e-12).all()
        assert found.min() >= 0
        assert setting.chance @ found <= 1 + tiny.gain_of(scope) + 1e-9


# ---- how close candidates stay ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_steps_bound_what_joint_bets_need(seed: int) -> None:
    """With pi >= (1 - s) mu at both levels no bet up to T_max = 1 - (1 - s1)(1 - s2) is broken, and validity is untouched."""
    setting = Setting.of(replace(TWO, seed=seed))
    scope = Scope(setting.tiny.names)
    steps = []
    for name in setting.tiny.names:
        pi, mu = setting.view.full(name, setting.view.batch)[0], setting.view.comparing(name)
        steps.append(min(1.0, float((1.0 - pi / mu).max()) + 1e-9))
    reach = Reach(True, tuple(Closeness(step=step) for step in steps))
    assert reach.total_variation() == pytest.approx(1 - (1 - steps[0]) * (1 - steps[1]))
    grid = gain_grid(reach.total_variation())
    factors = joint_gains(setting.view, scope, setting.measure, reach.inner, grid.bets)
    assert np.isfinite(factors).all() and factors.min() >= ETA * (1 - 1e-12)
    assert (setting.chance @ factors <= 1 + grid.bets * setting.tiny.gain_of(scope) + 1e-9).all()


@pytest.mark.parametrize("seed", range(4))
def test_caps_against_the_incumbent_bound_what_joint_bets_need(seed: int) -> None:
    setting = Setting.of(replace(TWO, seed=seed))
    caps = []
    for name in setting.tiny.names:
        pi, mu = setting.view.full(name, setting.view.batch)[0], setting.view.comparing(name)
        caps.append(float((pi / mu).max()) * (1 + 1e-9))
    reach = Reach(True, tuple(Closeness(cap=cap) for cap in caps))
    assert reach.total_variation() == pytest.approx(1 - 1 / math.prod(caps))
    grid = gain_grid(reach.total_variation())
    factors = joint_gains(setting.view, Scope(setting.tiny.names), setting.measure, reach.inner, grid.bets)
    assert np.isfinite(factors).all() and factors.min() >= ETA * (1 - 1e-12)


def test_max_product_does_not_cover_what_is_never_logged() -> None:
    """Histories that the log never shows drop out of the incumbent's weight: its worst case would be understated."""
    tiny = Tiny(40, (1, 1), (3, 3), (1, 2), carry=True, holes=True, incumbent="free")
    measure = reward_measure(tiny.problem)
    comparator = Comparator(TinyIncumbent(tiny), Scope(tiny.names), products=dict.fromkeys(tiny.names, 1e3))
    batch = tiny.batch([episode for _, episode in tiny.episodes()])
    view = CandidateView(tiny.problem, batch, TinyPolicy(tiny), RewardModels({measure.column: TinyModel(tiny)}), comparator)
    with pytest.raises(RefusedError, match="an action here that the log never takes"):
        filled_gains(view, Scope("fast"), measure, gain_grid(50.0).bets[:1])
