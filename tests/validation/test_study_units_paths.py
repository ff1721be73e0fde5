"""Traces of bounds along the units: the wealth after every unit, looks, and bounds that are not defined everywhere."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from validation_cases import Study, null

from aegis.certificate import Candidate, Request, UnitSplit, scan_log
from aegis.errors import ModelError
from aegis.evidence import BOUNDS, Bound, BoundMethod, PublishedSample, UnitSample, hoeffding
from aegis.ope import CandidateView
from aegis.policies import Legacy, Uniform
from aegis.rng import stream
from aegis.validation import crossing, wealth_path
from aegis.validation.study_units import LookTrace, look_counts, trace_bound
from aegis.worlds import make_world

WORLD = make_world("additive", inner_steps=3)


@pytest.mark.parametrize("method", ["auto", "robust", "plain"])
@pytest.mark.parametrize("clustered", [False, True])
def test_a_path_passes_through_the_evidence_of_the_certificate(method: str, clustered: bool) -> None:
    study = Study(WORLD, "sign:epsilon=0.3", null((0.4, -0.4)), 120, clustered=clustered)
    log = study.log(WORLD.legacy(study.legacy), 3)
    candidate, sides = study.learner(study.problem, log, 3)
    request = Request.of(study.problem, candidate, None, 0.05, method)
    found = scan_log(request, iter([log]), sides)
    kept = log.take_episodes(found.sides.certified(study.problem, log))
    view = CandidateView(study.problem, kept, candidate.policy, found.models[0], request.comparator)
    for item in found.evidence:
        path = wealth_path(item, view, 0.05)
        blend = item.blend
        assert blend is not None and len(path) == blend.count > 50
        assert len(item.path()) > 5 or item.claim.what != "gain"
        for station in [*item.path(), blend]:
            above = path[station.count - 1] - station.log_wealth(0.05)
            assert -1e-6 < above < 1e-6 + 2e-6 * station.count  # sums are rounded down, never up


def test_dead_bets_stay_dead() -> None:
    """A candidate that breaks the cap it promises loses every bet that relied on it, and the path shows it from there on."""
    legacy = Legacy(WORLD.problem, {"meta": Uniform(), "inner": Uniform()})
    log = WORLD.episodes(0, 60, legacy, 1)
    candidate = Candidate(null((-2.0, 2.0))(WORLD.problem, log, 0)[0].policy)
    found = scan_log(Request.of(WORLD.problem, candidate, [["inner"]], 0.05, "auto", ("gain",)), iter([log]), UnitSplit(()))
    (item,) = found.evidence
    view = CandidateView(WORLD.problem, log, candidate.policy, found.models[0])
    factors = item.compute(view)
    factors[0][30:, :] = np.nan

    class Broken:
        claim, grids, clusters = item.claim, item.grids, ()

        def compute(self, view: CandidateView) -> list[np.ndarray]:
            return factors

    path = wealth_path(Broken(), view, 0.0)  # type: ignore[arg-type]
    assert np.isfinite(path[:30]).all()
    assert (path[30:] == -math.inf).all()


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30), st.floats(0.01, 0.5))
def test_the_first_crossing(path: list[float], delta: float) -> None:
    values = np.array(path)
    found = crossing(values, delta)
    if found is None:
        assert (values < math.log(1 / delta)).all()
    else:
        assert values[found - 1] >= math.log(1 / delta)
        assert (values[: found - 1] < math.log(1 / delta)).all()


def sample(units: int = 200) -> UnitSample:
    values = stream(2, "traces").random(units)
    return UnitSample(
        what="value",
        values=values,
        particles=values[:, None],
        shares=np.ones(1),
        delta=0.05,
        rng=stream(3, "traces"),
        published=PublishedSample(values, values, np.ones(units), 1.0),
        range=(0.0, 1.0),
    )


def test_looks_are_stations_and_the_end() -> None:
    assert look_counts(20).tolist() == [10, 13, 17, 20]
    assert look_counts(13).tolist() == [10, 13]
    assert look_counts(7).tolist() == [7]
    assert look_counts(500, only_end=True).tolist() == [500]
    last = hoeffding(np.ones(3), 0.05, (0.0, 1.0))
    trace = LookTrace(last, np.array([10, 13, 17]), np.array([0.1, 0.3, 0.2]))
    assert (trace.above(0.05), trace.above(0.1), trace.above(0.25), trace.above(0.3)) == (10, 13, 13, None)


def test_a_bound_is_traced_at_the_looks_and_a_sequence_after_every_unit() -> None:
    units, counts = sample(), look_counts(200)
    trace = trace_bound(BOUNDS["Hoeffding"], units, counts)
    assert trace is not None and trace.counts.tolist() == counts.tolist()
    assert trace.values.tolist() == [hoeffding(units.values[:count], 0.05, (0.0, 1.0)).value for count in counts]
    assert trace.last.value == trace.values[-1]
    path = trace_bound(BOUNDS["betting, plain values"], units, counts)
    assert path is not None and path.counts.tolist() == list(range(1, 201)) and path.values[-1] == path.last.value


def test_a_bound_that_is_not_defined_is_left_out() -> None:
    def from_hundred(units: UnitSample, count: int) -> Bound:
        if count < 100:
            raise ModelError("all resampled means lie on one side of the mean")
        return hoeffding(units.values[:count], units.delta, units.declared_range)

    method = BoundMethod(from_hundred)
    trace = trace_bound(method, sample(), look_counts(200))
    assert trace is not None and trace.counts[0] >= 100 and trace.counts[-1] == 200
    assert trace_bound(method, sample(60), look_counts(60)) is None
    assert trace_bound(BOUNDS["Hoeffding"], replace(sample(), range=None), look_counts(200)) is None
