"""The table of bounds: every entry on units with a known mean, against what the bound is by itself."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.errors import ModelError
from aegis.evidence import (
    Bound,
    BoundOrigin,
    bca_bootstrap,
    central_limit,
    empirical_bernstein,
    hoeffding,
    lower_path,
    percentile_bootstrap,
    published_bound,
    published_gain,
    value_grid,
)
from aegis.problem import Array
from aegis.rng import stream
from aegis.validation import BOUNDS
from aegis.validation.bound_table import RESAMPLES, BoundSample
from aegis.validation.bound_traces import LookTrace, look_counts

NEVER = {
    "PRISM, lambda* and largest weight",
    "PRISM, gain as published",
    "PRISM, gate of Algorithm 2",
    "Student t",
    "central limit",
    "bootstrap, percentile",
    "bootstrap, BCa",
}
FIXED = {"PRISM, lambda 1/sqrt(K)", "LS, lambda 1/sqrt(K)", "Hoeffding", "empirical Bernstein"}


def sample(what: str, units: int = 300, largest: float = 2.0, run: int = 0, particles: int = 1) -> BoundSample:
    """Two-valued weights 0 or 2 and rewards that are higher where the candidate goes: the value is 0.6, the gain 0.1."""
    rng = stream(3, "bounds table", run)

    def draw(size: int) -> tuple[Array, Array]:
        weights = 2.0 * rng.integers(0, 2, size)
        return weights, np.clip(0.4 + 0.1 * weights + rng.normal(0, 0.1, size), 0, 1)

    (weights, rewards), (prior_weights, prior_rewards) = draw(units), draw(100)
    earned, prior_earned = weights * rewards, prior_weights * prior_rewards
    values = earned if what == "value" else earned - rewards
    prior = prior_earned if what == "value" else prior_earned - prior_rewards
    split = np.stack([values] * particles, axis=1)
    shares = np.full(particles, 1.0 / particles)
    return BoundSample(
        what,
        values,
        earned,
        weights,
        split,
        shares,
        prior,
        prior_earned,
        largest,
        0.05,
        look_counts(units),
        stream(1, "draws", run),
    )


def trace(name: str, given: BoundSample) -> LookTrace:
    found = BOUNDS[name].trace(given)
    assert isinstance(found, LookTrace)
    return found


CASES = [(name, what) for name, entry in BOUNDS.items() for what in entry.claims]


@pytest.mark.parametrize(("name", "what"), CASES)
def test_every_bound_says_what_it_is_and_follows_the_units(name: str, what: str) -> None:
    given = sample(what)
    found = trace(name, given)
    assert found.last.certificate == (name not in NEVER)
    assert (found.last.validity == "fixed time") == (name in FIXED)
    assert found.last.units == 300 and found.counts[-1] == 300
    assert found.values[-1] == pytest.approx(found.last.value, abs=1e-12)
    assert (np.diff(found.counts) > 0).all()
    truth = 0.6 if what == "value" else 0.1
    assert truth - 0.8 < found.last.value < truth + 0.06
    shorter = trace(name, sample(what, 100))
    if name in ("Hoeffding", "empirical Bernstein"):
        assert shorter.last.value < found.last.value


@pytest.mark.parametrize(("name", "what"), [case for case in CASES if case[0] not in NEVER])
def test_certificates_are_seldom_above_the_truth(name: str, what: str) -> None:
    truth = 0.6 if what == "value" else 0.1
    runs = [trace(name, sample(what, 60, run=run)) for run in range(40)]
    wrong = [found.last.value > truth if name in FIXED else found.above(truth) is not None for found in runs]
    assert sum(wrong) <= 7  # 8 of 40 at 5 % have a probability of 0.0005


def test_entries_are_the_bounds_of_the_evidence_room() -> None:
    value, gain = sample("value"), sample("gain")
    assert trace("Hoeffding", gain).last == hoeffding(gain.values, 0.05, (-1.0, 1.0))
    assert trace("Hoeffding", value).last == hoeffding(value.values, 0.05, (0.0, 2.0))
    assert trace("empirical Bernstein", gain).last == empirical_bernstein(gain.values, 0.05, (-1.0, 1.0))
    assert trace("central limit", gain).last == central_limit(gain.values, 0.05)
    path = lower_path(gain.values + 1.0, value_grid(gain.centre), 0.05, 2.0) - 1.0
    assert trace("betting path", gain).values == pytest.approx(path)
    observed = published_bound(value.earned, 0.05, "closed form", 2.0, reading=BoundOrigin(largest_from="observed"))
    assert trace("PRISM, lambda* and largest weight", value).last == observed
    assert trace("PRISM, lambda 1/sqrt(K)", value).last == published_bound(value.earned, 0.05, "root", 2.0)
    spread = float(np.square(2.0 - value.prior_earned).mean())
    lam = np.sqrt(2 * np.log(1 / 0.05) / (300 * spread))  # the closed form for 300 units that spread as the prior ones
    given = published_bound(value.earned, 0.05, float(lam), 2.0)
    assert lam < 0.45 and trace("PRISM, lambda fixed", value).last.value == pytest.approx(given.value)
    as_published = published_gain(
        gain.earned, gain.legacy, 0.05, "closed form", 2.0, reading=BoundOrigin(largest_from="observed")
    )
    assert trace("PRISM, gain as published", gain).last == as_published
    gate = trace("PRISM, gate of Algorithm 2", gain).last
    assert gate.value == pytest.approx(observed_estimate(gain) - float(gain.legacy.mean()))
    assert len(gate.unmet) == 4
    rng = stream(1, "draws", 0)
    means = [percentile_bootstrap(value.values[:count], 0.05, rng, RESAMPLES).value for count in value.counts]
    assert trace("bootstrap, percentile", sample("value")).values == pytest.approx(means)
    rng = stream(1, "draws", 0)
    means = [bca_bootstrap(value.values[:count], 0.05, rng, RESAMPLES).value for count in value.counts]
    assert trace("bootstrap, BCa", sample("value")).values == pytest.approx(means)


def observed_estimate(given: BoundSample) -> float:
    return published_bound(given.earned, 0.05, "closed form", 2.0).estimate


def test_equal_particles_are_one_and_different_ones_cost() -> None:
    one, four = trace("PAC-Bayes, particles", sample("gain")), trace("PAC-Bayes, particles", sample("gain", particles=4))
    assert four.last.value == pytest.approx(one.last.value, abs=1e-6)
    assert one.last.value == pytest.approx(trace("betting path", sample("gain")).last.value, abs=2e-3)
    given = sample("value", particles=2)
    apart = np.stack([0.5 * given.values, 1.5 * given.values], axis=1)
    object.__setattr__(given, "particles", apart)
    assert trace("PAC-Bayes, particles", given).last.value < trace("PAC-Bayes, particles", sample("value")).last.value - 0.005


def test_what_is_not_defined_is_left_out() -> None:
    assert BOUNDS["PRISM, lambda 1/sqrt(K)"].trace(sample("value", 60, largest=8.0)) is None  # K is not above B^2
    half = trace("PRISM, lambda 1/sqrt(K)", sample("value", 300, largest=8.0))
    assert half.counts[0] > 64 and half.counts[-1] == 300
    given = sample("value")
    object.__setattr__(given, "weights", np.zeros(300))
    assert BOUNDS["PRISM, lambda* and largest weight"].trace(given) is None


def test_a_bootstrap_without_spread_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def picky(values: Array, *rest: object) -> Bound:
        if values.size < 100:
            raise ModelError("all resampled means lie on one side of the mean")
        return central_limit(values, 0.05)

    monkeypatch.setattr("aegis.validation.bound_table.bca_bootstrap", picky)
    assert trace("bootstrap, BCa", sample("gain")).counts[0] >= 100
    assert BOUNDS["bootstrap, BCa"].trace(sample("gain", 60)) is None


def test_looks() -> None:
    assert look_counts(20).tolist() == [10, 13, 17, 20]
    assert look_counts(13).tolist() == [10, 13]
    assert look_counts(7).tolist() == [7]
    assert look_counts(500, only_end=True).tolist() == [500]
    found = LookTrace(trace("Hoeffding", sample("gain")).last, np.array([10, 13, 17]), np.array([0.1, 0.3, 0.2]))
    assert (found.above(0.05), found.above(0.1), found.above(0.25), found.above(0.3)) == (10, 13, 13, None)
