"""The table of bounds: every entry on units with a known mean, against the bound by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from aegis.errors import ModelError, SettingError
from aegis.evidence import (
    BOUNDS,
    MATCHED,
    REWEIGHED,
    SHARP,
    Bound,
    BoundOrigin,
    BoundPath,
    PublishedSample,
    UnitSample,
    bca_bootstrap,
    central_limit,
    empirical_bernstein,
    hoeffding,
    lower_path,
    percentile_bootstrap,
    published_bound,
    value_grid,
)
from aegis.problem import Array
from aegis.rng import stream

NEVER = {
    "PRISM: lam*, B observed",
    "PRISM: lam*, B declared",
    "PRISM: gain, lam*, B observed",
    "PRISM: gain, prior lam, B declared",
    "PRISM: estimate of Algorithm 2",
    "PRISM, gate of Algorithm 2",
    "Student t",
    "central limit",
    "bootstrap, percentile",
    "bootstrap, BCa",
}
FIXED = {"PRISM: 1/sqrt(K), B declared", "logarithmic smoothing", "Hoeffding", "empirical Bernstein"}


CASES = [(name, what) for name, method in BOUNDS.items() for what in method.claims]
RESAMPLES = 300


def sample(what: str, units: int = 300, largest: float = 2.0, run: int = 0, particles: int = 1) -> UnitSample:
    """Two-valued weights 0 or 2 and rewards that are higher where the candidate goes: the value is 0.6, the gain 0.1."""
    rng = stream(3, "bounds table", run)

    def draw(size: int) -> tuple[Array, Array]:
        weights = 2.0 * rng.integers(0, 2, size)
        return weights, np.clip(0.4 + 0.1 * weights + rng.normal(0, 0.1, size), 0, 1)

    (weights, rewards), (prior_weights, prior_rewards) = draw(units), draw(100)
    earned, prior_earned = weights * rewards, prior_weights * prior_rewards
    gain = what == "gain"
    values = earned - rewards if gain else earned
    shift = 1.0 if gain else 0.0
    return UnitSample(
        what="gain" if gain else "value",
        values=values,
        particles=np.stack([values] * particles, axis=1),
        shares=np.full(particles, 1.0 / particles),
        delta=0.05,
        rng=stream(1, "draws", run),
        published=PublishedSample(earned, rewards, weights, largest, prior=prior_earned),
        shift=shift,
        prior=prior_earned - prior_rewards if gain else prior_earned,
        range=(-shift, largest - shift),
        resamples=RESAMPLES,
    )


def last(name: str, units: UnitSample) -> Bound:
    return BOUNDS[name].at(units, units.values.size)


@pytest.mark.parametrize(("name", "what"), CASES)
def test_every_bound_says_what_it_is_and_follows_the_units(name: str, what: str) -> None:
    """A conformance test: a bound entered in the table must pass."""
    particles = 2 if name == REWEIGHED else 1
    units = sample(what, particles=particles)
    bound = last(name, units)
    assert bound.certificate == (name not in NEVER)
    assert (bound.validity == "fixed time") == (name in FIXED)
    assert bound.units == 300 and bound.delta == 0.05
    truth = 0.6 if what == "value" else 0.1
    assert truth - 0.8 < bound.value < truth + 0.06
    again = BOUNDS[name].at(sample(what, particles=particles), 100)
    assert again.units == 100
    if name in ("Hoeffding", "empirical Bernstein"):
        assert again.value < bound.value
    assert isinstance(bound, BoundPath) == BOUNDS[name].sequence
    if isinstance(bound, BoundPath):
        assert bound.path.size == 300 and bound.path[-1] == bound.value
        assert bound.path[99] == pytest.approx(again.value, abs=1e-3)


@pytest.mark.parametrize(("name", "what"), [case for case in CASES if case[0] not in NEVER])
def test_certificates_are_seldom_above_the_truth(name: str, what: str) -> None:
    truth = 0.6 if what == "value" else 0.1
    bounds = [last(name, sample(what, 60, run=run, particles=2 if name == REWEIGHED else 1)) for run in range(40)]
    wrong = [(bound.path > truth).any() if isinstance(bound, BoundPath) else bound.value > truth for bound in bounds]
    assert sum(wrong) <= 7  # 8 of 40 at 5 % have a probability of 0.0005


@pytest.mark.parametrize("name", BOUNDS)
def test_what_a_bound_needs_is_what_it_cannot_do_without(name: str) -> None:
    method = BOUNDS[name]
    units = sample(method.claims[0], particles=2)
    without = {
        "range": replace(units, range=None),
        "largest": replace(units, published=replace(units.published, largest=np.inf)),
        "weights": replace(units, published=replace(units.published, peaks=np.zeros(300))),
    }
    for need, poorer in without.items():
        if need == method.needs:
            with pytest.raises(SettingError):
                last(name, poorer)
        else:
            assert last(name, poorer).units == 300
    assert set(method.commands) <= {"compare", "validate"} and method.commands


def test_entries_are_the_bounds_by_themselves() -> None:
    value, gain = sample("value"), sample("gain")
    published, compared = value.published, gain.published
    assert last("Hoeffding", gain) == hoeffding(gain.values, 0.05, (-1.0, 1.0))
    assert last("Hoeffding", value) == hoeffding(value.values, 0.05, (0.0, 2.0))
    assert last("empirical Bernstein", gain) == empirical_bernstein(gain.values, 0.05, (-1.0, 1.0))
    assert last("central limit", gain) == central_limit(gain.values, 0.05)
    paired = replace(gain, paired=gain.values - 1.0)
    assert last("central limit", paired).value == pytest.approx(last("central limit", gain).value - 1.0)
    assert last("Hoeffding", paired) == last("Hoeffding", gain)
    path = lower_path(gain.values + 1.0, value_grid(gain.centre), 0.05, 2.0) - 1.0
    betting = last("betting, plain values", gain)
    assert isinstance(betting, BoundPath) and betting.path == pytest.approx(path)
    observed = BoundOrigin(largest_from="observed")
    expected = published_bound(published.earned, 0.05, "closed form", 2.0, reading=observed)
    assert last("PRISM: lam*, B observed", value) == expected
    assert last("PRISM: lam*, B declared", value) == published_bound(published.earned, 0.05, "closed form", 2.0)
    assert last("PRISM: 1/sqrt(K), B declared", value) == published_bound(published.earned, 0.05, "root", 2.0)
    assert published.prior is not None
    spread = float(np.square(2.0 - published.prior).mean())
    lam = np.sqrt(2 * np.log(1 / 0.05) / (300 * spread))  # the closed form for 300 units that spread as the prior ones
    fixed = published_bound(published.earned, 0.05, float(lam), 2.0)
    assert lam < 0.45 and last("PRISM: prior lam, B declared", value).value == pytest.approx(fixed.value)
    assert last(MATCHED, value).value >= fixed.value
    assert replace(published, prior=None).prior_lam(0.05) == 0.25
    as_published = published_bound(compared.earned, 0.05, "closed form", 2.0, reading=observed).gain_over(compared.legacy)
    assert last("PRISM: gain, lam*, B observed", gain) == as_published
    gate, estimate = last("PRISM, gate of Algorithm 2", gain), published_bound(compared.earned, 0.05, "closed form", 2.0).estimate
    assert gate.value == pytest.approx(estimate - float(compared.legacy.mean()))
    assert len(gate.unmet) == 4
    assert last("PRISM: estimate of Algorithm 2", value).value == pytest.approx(expected.estimate)


def test_bootstraps_use_the_stream_of_the_sample() -> None:
    value = sample("value")
    percentile = percentile_bootstrap(value.values, 0.05, stream(1, "draws", 0), RESAMPLES)
    assert last("bootstrap, percentile", sample("value")) == percentile
    assert last("bootstrap, BCa", sample("value")) == bca_bootstrap(value.values, 0.05, stream(1, "draws", 0), RESAMPLES)


def test_equal_particles_are_one_and_different_ones_cost() -> None:
    one, four = last(SHARP, sample("gain")), last(SHARP, sample("gain", particles=4))
    assert four.value == pytest.approx(one.value, abs=1e-6)
    assert one.value == pytest.approx(last("betting, plain values", sample("gain")).value, abs=2e-3)
    units = sample("value", particles=2)
    apart = replace(units, particles=np.stack([0.5 * units.values, 1.5 * units.values], axis=1))
    assert last(SHARP, apart).value < last(SHARP, sample("value")).value - 0.005
    assert last(REWEIGHED, apart).value > last(SHARP, apart).value
    with pytest.raises(SettingError, match="single policy"):
        last(REWEIGHED, sample("value"))


def test_what_is_not_defined_says_so() -> None:
    with pytest.raises(SettingError, match="more than B"):
        last("PRISM: 1/sqrt(K), B declared", sample("value", 60, largest=8.0))  # K is not above B^2
    with pytest.raises(ModelError):
        last("bootstrap, BCa", replace(sample("value"), values=np.append(np.zeros(299), 1e9), resamples=2))


def test_without_prior_units_bets_lie_around_one() -> None:
    units = replace(sample("value"), prior=None)
    assert units.centre == 0 and sample("value").centre != 0
