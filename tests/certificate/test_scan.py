"""Evidence as it is collected: the same in whatever blocks it comes, and on grids that only prior units have placed."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_logs import better_policy, make_table, problem_of, replaced, source_of

from aegis.agents import CandidateSettings, learn
from aegis.certificate import Candidate, DataDigest, Request, UnitSplit, learned_splits, next_station, scan_log
from aegis.certificate.evidence import FIRST_STATION, STATION_STEP
from aegis.certificate.scan import ScanResult
from aegis.certificate.unit_split import placing_split
from aegis.logs import Source, Split
from aegis.policies import Capped, Logged, Mixture
from aegis.problem import Problem

GUARD = "guards: [{column: scrap, range: [0, 1], max_worsening: 0.05}]"


def learned_candidate(source: Source, kind: str) -> Candidate:
    learned = learn(source, Split("hash", "mine", 0.5), CandidateSettings(kind, 2.0, 3, 1))
    return Candidate(learned.policy, kind, record=learned.record, rewards=learned.fitted.rewards)


def candidates(source: Source) -> dict[str, Candidate]:
    problem = source.problem
    capped = learned_candidate(source, "capped")
    return {
        "function": Candidate(better_policy(problem), "function"),
        "capped": capped,
        "planned mixture": learned_candidate(source, "planned"),
        "mixture": Candidate(Mixture([better_policy(problem), Capped(problem, capped.rewards, Logged(problem), 2.0)]), "mixture"),
    }


def run(source: Source, candidate: Candidate, rows: int, method: str = "auto", by: tuple[str, ...] = ()) -> ScanResult:
    request = Request.of(source.problem, candidate, method=method, by=by)
    sides = UnitSplit(learned_splits(source, [candidate], False, DataDigest.of(source)))
    return scan_log(request, source.batches(request.columns, rows=rows), sides)


def sums(found: ScanResult) -> list[object]:
    return [(sketch.count, sketch.sums, sketch.grid.digest) for item in found.evidence for sketch in item.sketches]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return make_table(110)


@pytest.fixture(scope="module")
def known(table: pa.Table) -> dict[str, Candidate]:
    return candidates(source_of(table, problem_of(head=GUARD)))


@pytest.mark.parametrize(
    ("name", "method"),
    [("function", "auto"), ("function", "robust"), ("capped", "auto"), ("planned mixture", "auto"), ("mixture", "robust")],
)
def test_sums_do_not_depend_on_blocks(table: pa.Table, known: dict[str, Candidate], name: str, method: str) -> None:
    source = source_of(table, problem_of(head=GUARD))
    whole = sums(run(source, known[name], 10**6, method))
    assert sums(run(source, known[name], 97, method)) == whole


def test_stations_do_not_depend_on_blocks(table: pa.Table, known: dict[str, Candidate]) -> None:
    source = source_of(table, problem_of(head=GUARD))
    paths = []
    for rows in (10**6, 31):
        found = run(source, known["function"], rows, by=("task",))
        paths.append([[blend.sketches for blend in item.path()] for item in found.evidence])
        for item in found.evidence:
            counts = [blend.count for blend in item.path()]
            assert counts == sorted(set(counts)) and all(count in stations() for count in counts)
    assert [[tuple((s.count, s.sums) for s in step) for step in path] for path in paths[0]] == [
        [tuple((s.count, s.sums) for s in step) for step in path] for path in paths[1]
    ]


def stations() -> set[int]:
    return {round(FIRST_STATION * STATION_STEP**step) for step in range(60)}


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**7))
def test_the_next_station_is_the_first_one_above(count: int) -> None:
    found = next_station(count)
    assert found > count and found in stations()
    assert not any(count < station < found for station in stations())


def test_the_first_stations() -> None:
    listed, count = [], 0
    while len(listed) < 5:
        count = next_station(count)
        listed.append(count)
    assert listed == [10, 13, 17, 22, 29]


@pytest.mark.parametrize("cluster", ["", "cluster: line"])
@pytest.mark.parametrize("method", ["auto", "robust", "plain"])
def test_grids_and_models_never_look_at_certified_units(table: pa.Table, cluster: str, method: str) -> None:
    """Other rewards, and other actions, on the certified side change the evidence, and nothing that was fixed before it."""
    problem = problem_of(head=f"{GUARD}\n{cluster}")
    candidate = Candidate(better_policy(problem), "function")
    before = run(source_of(table, problem), candidate, 10**6, method)
    units = 28 if cluster else 110
    certified = ids_certified(table, problem, placing_split(units))
    rewards = table["margin"].to_numpy().copy()
    rewards[certified] = rewards[certified][::-1]
    scrap = table["scrap"].to_numpy().copy()
    scrap[certified] = 1.0 - scrap[certified]
    changed = replaced(replaced(table, "margin", rewards), "scrap", scrap)
    after = run(source_of(changed, problem), candidate, 10**6, method)
    assert after.sides == before.sides
    for one, other in zip(before.evidence, after.evidence, strict=True):
        assert [grid.digest for grid in one.grids] == [grid.digest for grid in other.grids]
        assert [s.sums for s in one.sketches] != [s.sums for s in other.sketches]
    assert before.models[0].guess == after.models[0].guess
    batch = source_of(table, problem).read()
    for column, model in before.models[0].rewards.items():
        for level in problem.names:
            np.testing.assert_array_equal(model.predict(level, batch), after.models[0].rewards[column].predict(level, batch))


def ids_certified(table: pa.Table, problem: Problem, split: Split) -> np.ndarray:
    batch = source_of(table, problem).read()
    kept = split.on_side("certify", problem, batch)
    assert 0 < kept.sum() < len(batch)
    return np.isin(table["batch"].to_numpy(zero_copy_only=False), np.array(batch.episode)[kept])


def test_rewards_of_prior_units_do_move_the_grids(table: pa.Table) -> None:
    problem = problem_of()
    candidate = Candidate(better_policy(problem), "function")
    prior = ~ids_certified(table, problem, placing_split(110))
    rewards = table["margin"].to_numpy().copy()
    rewards[prior] = 1.0 - rewards[prior]
    one, other = (run(source_of(t, problem), candidate, 10**6) for t in (table, replaced(table, "margin", rewards)))
    assert any(a.grids[0].digest != b.grids[0].digest for a, b in zip(one.evidence, other.evidence, strict=True) if a.claim.parts)


def test_clusters_are_the_units(table: pa.Table) -> None:
    problem = problem_of(head="cluster: line")
    found = run(source_of(table, problem), Candidate(better_policy(problem), "function"), 31)
    units = {sketch.count for item in found.evidence for sketch in item.sketches}
    assert len(units) == 1 and units.pop() < 28
    whole = run(source_of(table, problem), Candidate(better_policy(problem), "function"), 10**6)
    for one, other in zip(found.evidence, whole.evidence, strict=True):
        for a, b in zip(one.sketches, other.sketches, strict=True):
            assert a.count == b.count
            np.testing.assert_allclose(
                [x for x in a.sums if x is not None], [x for x in b.sums if x is not None], rtol=1e-6, atol=1e4
            )


def test_missing_rewards_lower_every_bound(table: pa.Table) -> None:
    problem = problem_of()
    rewards = table["margin"].to_numpy().copy()
    rewards[::7] = np.nan
    holes = replaced(table, "margin", pa.array(rewards, from_pandas=True))
    for method in ("auto", "robust", "plain"):
        one, other = (
            run(source_of(t, problem), Candidate(better_policy(problem), "function"), 10**6, method) for t in (table, holes)
        )
        for a, b in zip(one.evidence, other.evidence, strict=True):
            if a.blend is None or b.blend is None or a.claim.what == "guard":
                continue
            low, high = a.claim.bracket
            assert b.blend.lower(0.05, low, high) <= a.blend.lower(0.05, low, high) + 1e-9
            assert math.isfinite(b.blend.log_wealth(0.0))
