"""PRISM as published: its equations, and which conditions make it a certificate."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import RefusedError, SettingError
from aegis.evidence import BoundOrigin, largest_observed, published_bound
from aegis.evidence.bounds.prism import closed_form_lam, ls_estimate, root_lam
from aegis.rng import stream

SHARES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def plain_estimate(values, lam, largest, q):
    """B + 1/(lam K) sum_k sum_n q_n log(1 - lam (B - L_kn))."""
    total = 0.0
    for row in values:
        for weight, value in zip(q, row, strict=True):
            total += weight * math.log(1 - lam * (largest - value))
    return largest + total / (lam * len(values))


@settings(max_examples=60, deadline=None)
@given(SHARES, st.floats(0.1, 20), st.floats(0.01, 0.99), st.integers(1, 4), st.integers(0, 5))
def test_estimate_and_bound_are_the_equations(shares, largest, share, particles, seed):
    rng = stream(seed, "published")
    values = largest * np.array(shares)[:, None] * rng.random(particles)
    q = rng.dirichlet(np.ones(particles))
    lam = share / largest
    expected = plain_estimate(values, lam, largest, q)
    assert ls_estimate(values, lam, largest, q) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    bound = published_bound(values, 0.05, lam, largest, kl=1.7, weights=q)
    assert bound.value == pytest.approx(expected - (1.7 + math.log(20)) / (lam * len(shares)), rel=1e-9, abs=1e-9)
    assert bound.value < bound.estimate <= largest
    assert bound.certificate and bound.label == "certificate"


@settings(max_examples=60, deadline=None)
@given(SHARES, st.floats(0.1, 20), st.floats(0, 200), st.integers(0, 5))
def test_closed_form_is_the_equation_and_stays_below_its_limit(shares, largest, kl, seed):
    values = np.tile(largest * np.array(shares)[:, None] * stream(seed, "closed").random(3), (200, 1))
    square = sum(sum((largest - v) ** 2 for v in row) / 3 for row in values) / len(values)
    cost = kl + math.log(20)
    expected = min(0.95 / largest, math.sqrt(2 * cost / (len(values) * square)))
    assert closed_form_lam(values, largest, cost) == pytest.approx(expected, rel=1e-9)
    bound = published_bound(values, 0.05, "closed form", largest, kl)
    assert bound.lam == pytest.approx(expected, rel=1e-9)
    assert ("limit" in bound.lam_from) == (bound.lam == 0.95 / largest)


@pytest.mark.parametrize("eta", [0.01, 0.05, 0.5])
def test_the_margin_of_the_closed_form_can_be_set(eta):
    values = np.full(20, 3.0)  # S^2 = 0: the closed form is at its limit
    assert closed_form_lam(values, 3.0, 3.0, eta=eta) == (1 - eta) / 3.0
    bound = published_bound(values, 0.05, "closed form", 3.0, eta=eta)
    assert (bound.lam, bound.lam_from) == ((1 - eta) / 3.0, "closed form, at its limit (1 - eta)/B")
    free = math.sqrt(2 * (0.3 + math.log(20)) / (20 * 2.0**2))  # 0.287, above the limit for the largest margin alone
    other = published_bound(np.full(20, 1.0), 0.05, "closed form", 3.0, kl=0.3, eta=eta)
    assert other.lam == pytest.approx(min(free, (1 - eta) / 3.0))
    assert ("limit" in other.lam_from) == (eta == 0.5)


@pytest.mark.parametrize("eta", [0.0, 1.0, -0.1, math.nan])
def test_a_margin_outside_of_0_and_1_is_refused(eta):
    with pytest.raises(SettingError, match="eta"):
        closed_form_lam(np.ones(4), 2.0, 3.0, eta=eta)


def test_closed_form_is_near_the_best_lam_when_lam_b_is_small():
    values = stream(1, "near").random(20_000)
    best = max(published_bound(values, 0.05, lam, 1.0).value for lam in np.geomspace(1e-3, 0.9, 400))
    assert published_bound(values, 0.05, "closed form", 1.0).value == pytest.approx(best, abs=2e-4)


def test_root_is_one_over_the_root_of_the_units():
    values = stream(1, "root").random(400) * 3
    bound = published_bound(values, 0.05, "root", 3.0)
    assert bound.lam == pytest.approx(0.05)
    assert bound.certificate
    assert bound.validity == "fixed time"
    assert bound.label == "certificate at one number of units, fixed beforehand"
    with pytest.raises(SettingError, match="more than B\\^2 = 9 units, found 9"):
        root_lam(9, 3.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lam": "closed form"}, "lam was chosen on the certified units"),
        ({"reading": BoundOrigin(largest_from="observed")}, "largest weight observed"),
        ({"reading": BoundOrigin(particles="draws")}, "Monte-Carlo average of frozen draws"),
        ({"reading": BoundOrigin(logging="own")}, "on-policy variant is biased"),
        ({"reading": BoundOrigin(prior_fixed=False)}, "prior p0 saw"),
        ({"largest": 0.9}, "values lie in"),
    ],
)
def test_each_broken_condition_takes_the_certificate_away(change, words):
    values = np.array([[0.2, 0.4], [0.9, 1.0], [0.5, 0.3]])
    right = {"lam": 0.3, "largest": 1.0}
    assert published_bound(values, 0.05, **right).certificate
    bound = published_bound(values, 0.05, **(right | change))
    assert not bound.certificate
    assert bound.label.startswith("not a certificate: ")
    assert words in bound.label
    assert len(bound.unmet) == 1
    assert len(bound.met) + len(bound.unmet) == 7
    assert bound.plain()["label"] == bound.label


def test_draws_of_a_single_particle_need_no_average():
    assert published_bound(np.array([0.2, 0.4]), 0.05, 0.3, 1.0, reading=BoundOrigin(particles="draws")).certificate


def test_the_estimate_alone_is_never_a_certificate():
    values = np.array([0.2, 0.4, 0.9])
    estimate = published_bound(values, 0.05, 0.3, 1.0).estimate_alone()
    assert estimate.value == estimate.estimate == ls_estimate(values, 0.3, 1.0)
    assert estimate.label == "not a certificate: KL and log(1/delta) are not subtracted"


def test_mixed_data_speak_of_an_average():
    bound = published_bound(np.array([0.2, 0.4]), 0.05, 0.3, 1.0, reading=BoundOrigin(logging="adaptive"))
    assert bound.certificate
    assert "average over the logged episodes" in bound.claim


def test_gain_subtracts_the_mean_of_the_legacy_and_log_two_over_delta_and_is_no_certificate():
    values, legacy = np.array([0.9, 0.8, 1.1]), np.array([0.5, 0.6])
    gain = published_bound(values, 0.05, 0.4, 1.2, kl=0.5).gain_over(legacy)
    expected = plain_estimate(values[:, None], 0.4, 1.2, [1.0]) - 0.55 - (0.5 + math.log(40)) / (0.4 * 3)
    assert gain.value == pytest.approx(expected)
    assert not gain.certificate
    assert "without an upper bound" in gain.label


def test_gate_compares_the_estimate_with_the_mean_of_the_legacy():
    values, legacy = np.full(50, 0.9), np.full(50, 0.7)
    gate = published_bound(values, 0.05, "closed form", 1.0).algorithm_2(legacy)
    assert gate.value == ls_estimate(values, gate.lam, 1.0) - legacy.mean() > 0
    assert "without an upper bound" in gate.label and "not subtracted" in gate.label


def test_b_from_the_largest_observed_weight():
    assert largest_observed(np.array([0.5, 3.0])) == 3.0
    with pytest.raises(SettingError, match="above 0"):
        largest_observed(np.zeros(3))


def test_what_cannot_be_used_is_refused_by_name():
    with pytest.raises(SettingError, match=r"below 1/B = 0\.5, found 0\.5"):
        ls_estimate(np.ones(3), 0.5, 2.0)
    with pytest.raises(RefusedError, match="unit 1: the estimate needs"):
        ls_estimate(np.array([1.0, -9.0]), 0.3, 2.0)
    with pytest.raises(RefusedError, match="unit 2: a unit's value is a finite number"):
        published_bound(np.array([1.0, 0.5, np.nan]), 0.05, 0.3, 2.0)
    with pytest.raises(SettingError, match="sum to one"):
        ls_estimate(np.ones((3, 2)), 0.3, 2.0, np.array([0.9, 0.9]))
    with pytest.raises(SettingError, match="one weight per particle"):
        ls_estimate(np.ones((3, 2)), 0.3, 2.0, np.array([1.0]))
    with pytest.raises(SettingError, match="divergence"):
        published_bound(np.ones(3), 0.05, 0.3, 2.0, kl=-1.0)
    with pytest.raises(SettingError, match="by unit"):
        published_bound(np.zeros(0), 0.05, 0.3, 2.0)
    with pytest.raises(SettingError, match="found 'close form'"):
        published_bound(np.ones(3), 0.05, "close form", 2.0)
    with pytest.raises(SettingError, match="delta is a risk"):
        published_bound(np.ones(3), 1.5, 0.3, 2.0)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.lists(st.floats(0, 1), min_size=1, max_size=6), min_size=1, max_size=8),
    st.floats(0.1, 20),
    st.floats(0.01, 0.95),
)
def test_averaging_before_the_log_is_tighter(episodes, largest, share):
    """Jensen: the estimate from episode means is never below the mean of the logs of single samples, and equal without spread."""
    lam = share / largest
    samples = [[largest * value for value in episode] for episode in episodes]
    before = ls_estimate(np.array([np.mean(episode) for episode in samples]), lam, largest)
    logs = [np.mean([math.log(1 - lam * (largest - value)) for value in episode]) for episode in samples]
    after = largest + float(np.mean(logs)) / lam
    assert before >= after - 1e-9 * largest
    if max(np.ptp(episode) for episode in samples) > 0.1 * largest and share > 0.1:
        assert before > after
    flat = [[np.mean(episode)] * len(episode) for episode in samples]
    logs = [np.mean([math.log(1 - lam * (largest - value)) for value in episode]) for episode in flat]
    assert before == pytest.approx(largest + float(np.mean(logs)) / lam, rel=1e-9, abs=1e-9)


def test_with_lam_of_one_over_root_k_the_bound_is_within_one_over_root_k_of_the_mean():
    """The same values over and over: the price is cost / sqrt(K), and the gap to the mean falls to half from K to 4 K."""
    some = stream(3, "rate").random(100)
    gaps = {}
    for times in (4, 16, 64, 256):
        bound = published_bound(np.tile(some, times), 0.05, "root", 1.0, kl=2.0)
        assert bound.estimate - bound.value == pytest.approx((2.0 + math.log(20)) / math.sqrt(100 * times))
        gaps[times] = some.mean() - bound.value
    for times in (4, 16, 64):
        assert gaps[times] / gaps[4 * times] == pytest.approx(2.0, rel=0.02)


def test_the_worse_the_legacy_the_larger_the_gain_and_the_price_does_not_know_it():
    bound = published_bound(np.array([0.9, 0.8, 1.1]), 0.05, 0.4, 1.2, kl=0.5)
    gains = [bound.gain_over(np.array([legacy])).value for legacy in (0.1, 0.4, 0.7)]
    assert np.diff(gains) == pytest.approx([-0.3, -0.3])


def test_the_closed_form_is_not_the_best_lam_at_its_limit():
    """lambda B << 1 fails where few units or a large divergence drive lambda* to (1 - eta)/B: smaller ones have better bounds."""
    values = stream(2, "limit").random(50)
    bound = published_bound(values, 0.05, "closed form", 1.0, kl=60.0)
    assert bound.lam == 0.95 and "limit" in bound.lam_from
    few = published_bound(values[:8], 0.05, "closed form", 1.0)
    assert few.lam == 0.95
    best = max(published_bound(values[:8], 0.05, lam, 1.0).value for lam in np.linspace(0.05, 0.94, 90))
    assert best > few.value + 0.05
