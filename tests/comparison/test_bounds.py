"""Bounds on unit values: published ones against plain loops, and what may be called a certificate, over all variants."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from comparison_cases import random_case
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.comparison.bounds import (
    LARGEST_OBSERVED,
    SMOOTHING,
    BoundCase,
    BoundCollection,
    WeightLimit,
    add_bound,
    evidence_bounds,
)
from aegis.comparison.published_bounds import on_policy_bound
from aegis.evidence import BETTING, BOUNDS, MATCHED, REWEIGHED, SHARP, BoundOrigin, published_bound, sharp_grid_bound, value_grid
from aegis.ope import Measure

LOG = math.log(20)
RANGED = {name for name, method in BOUNDS.items() if method.needs == "range"}
APPROXIMATE = {"Student t", "central limit", "bootstrap, percentile", "bootstrap, BCa"}
NEVER = ("gain", "estimate of Algorithm 2", "on-policy", "lam*", "posterior Q")


def all_published(case: BoundCase, **changes: object) -> BoundCollection:
    found = BoundCollection()
    posterior = replace(case.posterior, **changes)
    for name, method in BOUNDS.items():
        if "compare" in method.commands and method.published:
            add_bound(name, method.claims[0], case, posterior, found)
    on_policy_bound(case, posterior.kl_by_mechanism, "made up", found)
    return found


def prior_lam(case: BoundCase, **changes: object) -> float:
    sample = case.sample("value", replace(case.posterior, **changes), "")
    return sample.published.prior_lam(case.delta)


def plain_estimate(values, shares, lam, largest):
    total = 0.0
    for row in values:
        for share, value in zip(shares, row, strict=True):
            total += share * math.log(1 - lam * (largest - value))
    return largest + total / (lam * len(values))


def plain_lam(values, shares, largest, cost, count):
    square = sum(share * (largest - v) ** 2 for row in values for share, v in zip(shares, row, strict=True)) / len(values)
    return min(0.95 / largest, math.sqrt(2 * cost / (count * square)))


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 100), st.integers(30, 60), st.integers(1, 4), st.integers(0, 20), st.floats(0, 30))
def test_published_numbers_are_the_equations(seed, count, particles, prior, kl):
    case = random_case(seed, count, particles, limit=4.0, prior=prior, spread=3.0)
    found = {item.method: item for item in all_published(case, kl_by_mechanism={"R": kl / 3, "Y": 2 * kl / 3}).bounds}
    values, shares, legacy = case.units["particles"], case.weights, case.units["legacy"]
    peak = case.units.peaks["weight"]
    used = {
        "lam*, B observed": (plain_lam(values, shares, peak, kl + LOG, count), peak),
        "lam*, B declared": (plain_lam(values, shares, 4.0, kl + LOG, count), 4.0),
        "1/sqrt(K), B declared": (count**-0.5, 4.0),
        "prior lam, B declared": (
            plain_lam(case.prior["particles"], shares, 4.0, kl + LOG, count) if prior else 0.125,
            4.0,
        ),
    }
    for name, (lam, largest) in used.items():
        bound = found[f"PRISM: {name}"]
        expected = plain_estimate(values, shares, lam, largest) - (kl + LOG) / (lam * count)
        assert bound.value == pytest.approx(expected, rel=1e-7, abs=1e-9), name
        assert found[f"PRISM: {name}"].provenance["lam"] == pytest.approx(lam)
    lam, largest = used["lam*, B observed"]
    estimate = plain_estimate(values, shares, lam, largest)
    assert found["PRISM: estimate of Algorithm 2"].value == pytest.approx(estimate, rel=1e-7, abs=1e-9)
    gain = estimate - sum(legacy) / count - (kl + math.log(40)) / (lam * count)
    assert found["PRISM: gain, lam*, B observed"].value == pytest.approx(gain, rel=1e-7, abs=1e-9)
    own = plain_lam(legacy[:, None], [1.0], 1.0, kl + LOG, count)
    expected = plain_estimate(legacy[:, None], [1.0], own, 1.0) - (kl + LOG) / (own * count)
    assert found["PRISM on-policy: lam*"].value == pytest.approx(expected, rel=1e-7, abs=1e-9)
    assert found[MATCHED].value >= found["PRISM: prior lam, B declared"].value - 1e-9


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 100),
    st.integers(2, 60),
    st.integers(1, 3),
    st.sampled_from([1.0, 2.5, 6.0, math.inf]),
    st.integers(0, 10),
    st.sampled_from([0.5, 2.0]),
    st.sampled_from(
        [BoundOrigin(), BoundOrigin(particles="draws"), BoundOrigin(logging="adaptive"), BoundOrigin(prior_fixed=False)]
    ),
    st.sampled_from([(), ("made up",)]),
    st.floats(0, 20),
)
def test_nothing_chosen_on_certified_data_is_called_a_certificate(
    seed, count, particles, limit, prior, spread, reading, unmet, kl
):
    case = random_case(seed, count, particles, limit, prior, spread)
    found = all_published(case, kl_by_mechanism={"R": kl}, reading=reading, unmet=unmet)
    evidence_bounds(case, found)
    values = case.units["particles"]
    for shown in found.bounds:
        told = shown.provenance
        assert shown.certificate == (shown.label.startswith("certificate"))
        assert shown.certificate == (not shown.label.startswith("not a certificate"))
        if not shown.certificate:
            continue
        assert shown.unmet == () and shown.validity != "approximate"
        assert not any(word in shown.method for word in NEVER)
        assert "certified units" not in told.get("lam_from", "") and told.get("B_from") != LARGEST_OBSERVED
        if shown.method.startswith("PRISM"):
            assert told["B"] == limit and values.max() <= limit
            before = prior_lam(case, kl_by_mechanism={"R": kl})
            assert any(told["lam"] == pytest.approx(lam) for lam in (count**-0.5, before))
        if "PRISM" in shown.method:
            assert not unmet and reading.prior_fixed
            assert reading.particles == "policy" or particles == 1
        if shown.method in RANGED:
            low, high = told["range"]
            assert math.isfinite(limit) and low <= case.units[shown.what].min() and case.units[shown.what].max() <= high
    if math.isinf(limit):
        assert not any(item.method in RANGED or "declared" in item.method for item in found.bounds)
        assert {*RANGED, MATCHED} <= {item.method for item in found.missing}


def test_what_the_theorem_allows_is_called_a_certificate():
    case = random_case(1, 80, 2, limit=2.0, prior=10, spread=1.5)
    found = all_published(case)
    evidence_bounds(case, found)
    good = {item.method for item in found.bounds if item.certificate}
    assert good == {
        "PRISM: 1/sqrt(K), B declared", "PRISM: prior lam, B declared", MATCHED, BETTING, SHARP, REWEIGHED,
        SMOOTHING,
        *RANGED,
    }  # fmt: skip
    pairs = {(item.method, item.what) for item in found.bounds if item.certificate}
    assert {(method, what) for method in (BETTING, SHARP, REWEIGHED, SMOOTHING, *RANGED) for what in ("value", "gain")} <= pairs
    assert {item.method for item in found.bounds if item.validity == "approximate"} == APPROXIMATE


def test_every_reason_is_given():
    case = random_case(1, 80, 2, limit=2.0, prior=10, spread=1.5)
    found = {item.method: " ".join(item.unmet) for item in all_published(case, reading=BoundOrigin(particles="draws")).bounds}
    reasons = {
        "B observed": "B is the largest weight observed",
        "lam*": "lam was chosen on the certified units",
        "gain": "without an upper bound",
        "Algorithm 2": "are not subtracted",
        "on-policy": "on-policy variant is biased",
    }
    for method, unmet in found.items():
        for word, reason in reasons.items():
            if word == "Algorithm 2" or word in method:
                assert (reason in unmet) == (word in method), (method, word)
        assert ("frozen draws" in unmet) == ("on-policy" not in method), method


def test_lam_is_not_moved_by_certified_units():
    case = random_case(2, 50, 1, limit=3.0, prior=20)
    other = replace(case, units=random_case(3, 50, 1, limit=3.0, prior=0, spread=2.9).units)
    assert prior_lam(case) == prior_lam(other)
    less = replace(case, prior=random_case(4, 0, 1, limit=3.0, prior=20, spread=2.9).prior)
    assert prior_lam(less) != prior_lam(case)


def test_root_needs_enough_units_and_says_so():
    case = random_case(5, 8, 1, limit=4.0, prior=3)
    found = all_published(case)
    (reason,) = [item.reason for item in found.missing if item.method == "PRISM: 1/sqrt(K), B declared"]
    assert "16" in reason and "found 8" in reason


def test_a_gain_lies_between_minus_one_and_the_largest_weight_less_one():
    case = random_case(6, 100, 1, limit=3.0, prior=0, spread=2.5)
    found = BoundCollection()
    evidence_bounds(case, found)
    for item in found.bounds:
        if item.method == "Hoeffding":
            expected = case.units[item.what].mean() - 3.0 * math.sqrt(math.log(1 / case.delta) / 200)
            assert item.value == pytest.approx(expected)
            assert item.provenance["range"] == ([-1.0, 2.0] if item.what == "gain" else [0.0, 3.0])


def test_gains_are_lifted_and_taken_down_again():
    case = random_case(6, 300, 1, limit=2.0, prior=30, spread=1.5)
    shifted = replace(
        case,
        units=replace(case.units, series={**case.units.series, "value": case.units["gain"] + 1.0}),
        prior=replace(case.prior, series={**case.prior.series, "value": case.prior["gain"] + 1.0}),
    )
    found, lifted = BoundCollection(), BoundCollection()
    evidence_bounds(case, found)
    evidence_bounds(shifted, lifted)
    for method in (BETTING, SMOOTHING, "Student t"):
        gain = next(item for item in found.bounds if item.method == method and item.what == "gain")
        value = next(item for item in lifted.bounds if item.method == method and item.what == "value")
        assert gain.value == pytest.approx(value.value - 1.0, abs=2e-3), method
        assert gain.value < case.units["gain"].mean()


def test_sharp_bound_of_a_single_policy_is_the_grid_bound():
    case = random_case(7, 60, 1, limit=2.0, prior=0)
    found = BoundCollection()
    evidence_bounds(case, found)
    sharp = next(item for item in found.bounds if item.method == SHARP and item.what == "value")
    assert sharp.value == pytest.approx(sharp_grid_bound(case.units["value"], value_grid(0), case.delta).value, abs=1e-6)
    assert [item.method for item in found.missing] == [REWEIGHED]


def test_paths_end_at_their_bound_and_best_weights_are_no_worse():
    case = random_case(8, 200, 4, limit=2.0, prior=20)
    found = BoundCollection()
    evidence_bounds(case, found)
    for what in ("value", "gain"):
        own = {item.method: item for item in found.bounds if item.what == what}
        path = own[BETTING].provenance["path_scaled"]
        assert path[-1] == [200, pytest.approx(own[BETTING].value)]
        assert own[REWEIGHED].value >= own[SHARP].value
        assert "weighed" in own[REWEIGHED].claim


def test_a_goal_to_minimise_turns_values_and_keeps_gains():
    case = random_case(9, 100, 1, limit=2.0, prior=10)
    shown = {}
    for goal in ("maximise", "minimise"):
        found = BoundCollection()
        evidence_bounds(replace(case, measure=Measure("r", 0.0, 10.0, goal)), found)
        shown[goal] = {item.what: item.value for item in found.bounds if item.method == SHARP}
    scaled = BoundCollection()
    evidence_bounds(case, scaled)
    assert shown["maximise"]["value"] == pytest.approx(10.0 - shown["minimise"]["value"])
    gain = next(item.value for item in scaled.bounds if item.method == SHARP and item.what == "gain")
    assert shown["minimise"]["gain"] == pytest.approx(10 * gain)


def test_a_broken_promise_is_no_certificate():
    case = random_case(10, 100, 1, limit=1.0, prior=10, spread=3.0)
    assert case.units["value"].max() > 1
    found = all_published(case)
    evidence_bounds(case, found)
    bad = [item for item in found.bounds if (item.method in RANGED and item.what == "value") or "B declared" in item.method]
    assert bad and not any(item.certificate for item in bad)
    expected = published_bound(case.units["particles"], 0.05, "root", 1.0)
    assert not expected.certificate


def test_limits_say_who_promised_them():
    assert WeightLimit(3.0, "x").known and not WeightLimit(math.inf, "x").known
    assert np.isfinite(random_case(1, 5, 1, 2.0, 0).limit.weight)
