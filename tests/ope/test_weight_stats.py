"""The spread of weights against a plain histogram, and episodes that are certified without being taken out of their batch."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_logs import better_policy, make_table, problem_of, source_of

from aegis.certificate import Candidate, Request, UnitSplit, scan, scan_log
from aegis.certificate.scan import ScanResult
from aegis.certificate.unit_split import placing_split
from aegis.ope import WeightSpread
from aegis.ope.weight_stats import HIGHEST_OCTAVE, LOWEST_OCTAVE

weights = st.one_of(
    st.sampled_from([0.0, 5e-324, 1e-310, 2.0**-21, 2.0**-20, 1.0, math.nextafter(2.0, 0), 2.0, 2.0**40, 2.0**41, 1e300]),
    st.floats(0, 1e4, allow_subnormal=False),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(weights, max_size=30), st.integers(0, 30))
def test_a_spread_is_a_histogram_of_exponents(found: list[float], cut: int) -> None:
    spread = WeightSpread()
    with np.errstate(over="ignore"):
        for part in (found[:cut], found[cut:]):
            spread.add(np.array(part))
    bins = np.zeros(HIGHEST_OCTAVE - LOWEST_OCTAVE + 2)
    mass = np.zeros(bins.size)
    for weight in found:
        place = 0 if weight == 0 else min(max(math.frexp(weight)[1] - 1, LOWEST_OCTAVE), HIGHEST_OCTAVE) - LOWEST_OCTAVE + 1
        bins[place] += 1
        mass[place] += weight
    np.testing.assert_array_equal(spread.bins, bins)
    np.testing.assert_allclose(spread.mass, mass, rtol=1e-9, atol=1e-300)
    assert (spread.count, spread.largest) == (len(found), max(found, default=0.0))


def test_many_weights_are_described_by_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aegis.ope.weight_stats.MOST_WEIGHTS", 100)
    rng = np.random.default_rng(0)
    spread, every = WeightSpread(), []
    for _ in range(200):
        every.append(rng.exponential(size=50))
        spread.add(every[-1])
    weights = np.concatenate(every)
    found = spread.plain()
    assert spread.count == 100 + 12 * 50  # two batches, and then one in 16
    assert (found["decisions"], found["largest"]) == (weights.size, weights.max())
    assert found["mean"] == pytest.approx(weights.mean(), rel=0.1)
    assert found["ess_share"] == pytest.approx(weights.mean() ** 2 / (weights**2).mean(), rel=0.1)


@pytest.mark.parametrize("head", ["", "carry_over: within", "cluster: line"])
@pytest.mark.parametrize("by", [(), ("task",)])
def test_taking_certified_episodes_out_changes_nothing(head: str, by: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    source = source_of(make_table(150), problem_of(head=head))
    results = []
    for mostly in (0.0, 1.1):  # never and always taken out
        monkeypatch.setattr(scan, "MOSTLY_CERTIFIED", mostly)
        request = Request.of(source.problem, Candidate(better_policy(source.problem), "better"), by=by)
        results.append(plain(scan_log(request, source.batches(rows=97), UnitSplit((placing_split(150),)))))
    assert results[0] == results[1]


def plain(found: ScanResult) -> list[object]:
    items = [*found.evidence, *found.balances.values()]
    return [
        [(sketch.count, sketch.sums) for item in items for sketch in item.sketches],
        [(moments.count, moments.sums) for moments in found.moments.values()],
        [spread.plain() for spread in (*found.spreads.values(), *found.level_spreads.values())],
        (found.counts["certified_episodes"], found.counts["prior_episodes"]),
    ]
