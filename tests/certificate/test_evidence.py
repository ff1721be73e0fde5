"""What is collected from parts of a log and put together is what is collected from all of it, bit for bit."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.certificate import Claim, ClaimEvidence, EvidencePart, next_station
from aegis.certificate.candidate import CodeBehaviour
from aegis.certificate.evidence import UnitMoments
from aegis.evidence import Sketch, gain_grid, value_grid
from aegis.ope import ClusterUnits, Measure, WeightSpread, reward_measure
from aegis.problem import Scope
from aegis.worlds import make_world

PROBLEM = make_world("additive").problem
CUTS = st.lists(st.integers(0, 60), max_size=4).map(sorted)
SEEDS = st.integers(0, 10**6)


def pieces(count: int, cuts: list[int]) -> list[slice]:
    """Return a log of so many units in pieces."""
    ends = [0, *(min(cut, count) for cut in cuts), count]
    return [slice(start, stop) for start, stop in itertools.pairwise(ends)]


def nothing(*_: Any) -> Any:
    """Stand for a computation that nobody asks for here."""
    raise AssertionError


def claim(kind: str) -> Claim:
    """Return a claim about the gain with one part of a kind."""
    measure: Measure = reward_measure(PROBLEM)
    return Claim(0, Scope("inner"), "gain", measure, 0.0, 0.05, (EvidencePart("part", kind, 1.0, nothing),))


def evidence(kind: str) -> ClaimEvidence:
    """Return no evidence yet."""
    return ClaimEvidence.start(claim(kind), (value_grid(0) if kind == "values" else gain_grid(0.5),), PROBLEM)


def sums(sketches: tuple[Sketch, ...]) -> list[tuple[int, tuple[int | None, ...]]]:
    """Return what sketches hold."""
    return [(sketch.count, sketch.sums) for sketch in sketches]


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, cuts=CUTS, kind=st.sampled_from(["values", "gain"]))
def test_evidence(seed: int, cuts: list[int], kind: str) -> None:
    rng = np.random.default_rng(seed)
    whole = evidence(kind)
    bets = whole.grids[0].bets.size
    units = rng.exponential(size=60) if kind == "values" else rng.uniform(0.2, 2.0, (60, bets))
    whole.add([units], None)
    found = evidence(kind)
    for piece in pieces(60, cuts):
        part = evidence(kind)
        part.add([units[piece]], None)
        before = 0 if not found.running else found.running[0].count
        reached = len(found.stations)
        found.merge(part)
        if not before:  # the path of the first units is kept
            assert [sums(station) for station in found.stations] == [sums(station) for station in part.stations]
            continue
        grown = before + len(units[piece]) >= next_station(before)
        assert len(found.stations) - reached == int(grown)
        if grown:
            assert sums(found.stations[-1]) == sums(found.sketches)
    assert sums(found.sketches) == sums(whole.sketches)


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, cuts=CUTS, far=st.booleans())
def test_clusters(seed: int, cuts: list[int], far: bool) -> None:
    rng = np.random.default_rng(seed)
    names = rng.integers(0, 9, 60)
    values = rng.normal(size=(60, 3))
    if far:
        values[rng.integers(60)] = np.inf
    whole, found = (ClusterUnits(np.full(3, 0.5), None, "cluster") for _ in range(2))
    whole.add(names, values)
    for piece in pieces(60, cuts):
        part = ClusterUnits(np.full(3, 0.5), None, "cluster")
        if piece.stop > piece.start:
            part.add(names[piece], values[piece])
        found.merge(part)
    order = [found.rows[key] for key in whole.rows]
    np.testing.assert_array_equal(found.units()[order], whole.units())
    assert sorted(found.rows) == sorted(whole.rows)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, cuts=CUTS, clustered=st.booleans())
def test_moments(seed: int, cuts: list[int], clustered: bool) -> None:
    rng = np.random.default_rng(seed)
    series, names = rng.normal(size=(60, 2)), rng.integers(0, 9, 60)

    def start() -> UnitMoments:
        return UnitMoments(("a", "b"), ClusterUnits(np.zeros(2), None, "cluster") if clustered else None)

    whole, found = start(), start()
    whole.add(series, names)
    for piece in pieces(60, cuts):
        part = start()
        part.add(series[piece], names[piece])
        found.merge(part)
    for item in (whole, found):
        item.close()
    assert (found.count, found.sums) == (whole.count, whole.sums)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, cuts=CUTS, infinite=st.booleans())
def test_spread(seed: int, cuts: list[int], infinite: bool) -> None:
    weights = np.random.default_rng(seed).exponential(size=60)
    weights[::7] = 0.0
    if infinite:
        weights[3] = 1e200
    whole, found = WeightSpread(), WeightSpread()
    whole.add(weights)
    for piece in pieces(60, cuts):
        part = WeightSpread()
        part.add(weights[piece])
        found.merge(part)
    assert found.plain() == whole.plain()


def test_behaviour() -> None:
    one, other = CodeBehaviour(["inner"]), CodeBehaviour(["inner"])
    one.sums, other.sums = {"inner": 2**64 - 3}, {"inner": 5}
    one.merge(other)
    assert one.plain() == {"inner": f"{2:016x}"}


def test_sketches_on_other_grids_are_not_merged() -> None:
    one, other = evidence("gain"), ClaimEvidence.start(claim("gain"), (gain_grid(0.8),), PROBLEM)
    from aegis.errors import SettingError

    with pytest.raises(SettingError, match="different grids"):
        one.merge(other)
