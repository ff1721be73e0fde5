"""Copies of decisions on an interval are known again by their exact numbers; new decisions in the same contexts are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from scipy.special import ndtr

from aegis.audit import COARSE_LATTICE
from aegis.certificate import REFUSED, Candidate, Certificate, certify
from aegis.certificate.contamination import CONTAMINATION_ALPHA, SeenDecisions, repeats
from aegis.logs import Source, Split, learning_record
from aegis.policies import Function
from aegis.problem import Actions, Array, Batch, LevelTable, Problem, TraceCollector, Traces, nearest_points, parse_problem
from aegis.rng import stream

TEXT = """
episode: id
reward: {column: r, range: [0, MOST]}
levels:
  - name: dose
    context: [x0, x1, x2]
    action: {column: a, interval: [0, 10], bandwidth: 0.2, points: 3}
    propensity: {column: density, density: true}
"""


def log(seed: int, sd: float, rows: int = 800) -> dict[str, Array]:
    """Rewards are noise: nobody gains anything."""
    rng = stream(seed, "copied", str(sd))
    numbers = {f"x{k}": rng.normal(size=rows) for k in range(3)}
    middle = 5.0 + 0.5 * numbers["x0"]
    dose = middle + sd * rng.normal(size=rows)
    density = np.exp(-0.5 * ((dose - middle) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    return {"id": np.arange(rows), **numbers, "a": dose, "density": density, "r": rng.integers(0, 2, rows).astype(float)}


def problem_of(most: float = 1.0) -> Problem:
    return parse_problem(TEXT.replace("MOST", f"{most}"))


def memorised(table: dict[str, Array]) -> Candidate:
    """A policy that takes what was taken where it went well, and half a window off elsewhere; its record says what it saw."""
    problem = problem_of()
    order = np.argsort(table["x0"])
    known, off = table["x0"][order], np.where(table["r"] > 0, 0.0, 0.7)[order]

    def dose(level: object, rows: dict[str, Array]) -> Array:
        place = np.minimum(np.searchsorted(known, rows["x0"] - 1e-3), known.size - 1)
        later = np.minimum(place + 1, known.size - 1)
        best = np.where(np.abs(known[later] - rows["x0"]) < np.abs(known[place] - rows["x0"]), later, place)
        return np.clip(table["a"][order][best] + off[best], 0.0, 10.0)

    record = learning_record(Source(pa.table(table), problem), Split(fraction=0.999))
    return Candidate(Function(problem, dose, ["dose"]), "memory", record=record)


def judged(table: dict[str, Array], candidate: Candidate, most: float = 1.0) -> Certificate:
    return certify(Source(pa.table(table), problem_of(most)), candidate, fresh=True, ledger=False)


@pytest.mark.parametrize("sd", [1.0, 0.4, 0.15])
@pytest.mark.parametrize("digits", [None, 3])
def test_a_copy_with_new_ids_and_other_rewards_is_refused(sd: float, digits: int | None) -> None:
    for seed in range(3):
        table = log(seed, sd)
        copy = {**table, "id": table["id"] + 10**6, "r": 25.0 + 50.0 * table["r"]}
        if digits is not None:
            copy["a"] = np.round(copy["a"], digits)
        found = judged(copy, memorised(table), 100.0)
        assert found.verdict.verdict == REFUSED and "of the certified decisions have the contexts" in found.verdict.sentence


@pytest.mark.parametrize("sd", [1.0, 0.15])
def test_new_doses_in_the_same_contexts_are_not_refused(sd: float) -> None:
    """Contexts come again by design, the doses were drawn anew."""
    for seed in range(2):
        table = log(seed, sd)
        fresh, middle = stream(seed, "drawn anew", str(sd)).normal(size=800), 5.0 + 0.5 * table["x0"]
        density = np.exp(-0.5 * fresh**2) / (sd * np.sqrt(2 * np.pi))
        new = {**table, "id": table["id"] + 10**6, "a": middle + sd * fresh, "density": density}
        assert judged(new, memorised(table)).verdict.verdict != REFUSED


ACTIONS = Actions.interval("dose", 0.0, 6.0, 0.5, 13, atoms=(0.0, 6.0))


def drawn(rng: np.random.Generator, sd: Array, step: float = 0.0) -> LevelTable:
    """Doses of a Gaussian around 4 that clips to [0, 6], rounded to multiples of a step if there is one."""
    raw = 4.0 + sd * rng.normal(size=sd.size)
    raw = np.where((raw > 0) & (raw < 6) & (step > 0), step * np.round(raw / (step or 1.0)), raw)
    mu = np.exp(-0.5 * ((raw - 4.0) / sd) ** 2) / (sd * np.sqrt(2 * np.pi))
    mu = np.where(raw <= 0, ndtr(-4.0 / sd), np.where(raw >= 6, ndtr(-2.0 / sd), mu))
    dose, rows = np.clip(raw, 0, 6), np.arange(sd.size, dtype=np.int32)
    return LevelTable(rows, {"x": rows * 1.0}, nearest_points(ACTIONS, dose), mu, value=dose)


def test_pays_against_a_naive_transcription() -> None:
    rng = stream(1, "pays")
    table = drawn(rng, np.full(300, 1.5))
    seen = np.where(rng.random(300) < 0.5, table.value, table.value + rng.uniform(-0.01, 0.01, 300)).clip(0, 6)
    points = nearest_points(ACTIONS, seen).astype(np.int64)
    found = repeats(table, ACTIONS, points, seen, 1.2)
    edges = [0.0, *np.arange(0.25, 6.0, 0.5), 6.0]
    for row in range(300):
        a, v, mu = table.value[row], seen[row], table.mu_taken[row]
        if v in (0.0, 6.0):
            expected = 1 / min(1.0, 1.2 * mu) if a == v else 0.0
        elif a in (0.0, 6.0):
            expected = 0.0
        else:
            cell = next(k for k in range(13) if edges[k + 1] >= v)
            narrow = float(abs(a - v) <= 0.005) / (0.015 * 1.2 * mu)
            wide = float(edges[cell] < a <= edges[cell + 1]) / ((edges[cell + 1] - edges[cell]) * 1.2 * mu)
            expected = (narrow + wide) / 2
        assert found.pays[row] == pytest.approx(expected, rel=1e-9), row
        assert found.same[row] == (a == v if v in (0.0, 6.0) or a in (0.0, 6.0) else abs(a - v) <= 0.005)


@pytest.mark.parametrize("sd", [3.0, 0.3, 0.02])
@pytest.mark.parametrize("step", [0.0, 0.005, 0.004, 0.001])
def test_bets_pay_at_most_their_stake_on_average(sd: float, step: float) -> None:
    """Whatever number was seen, and whether doses are rounded as finely as the audit lets pass or not at all."""
    assert 2 * COARSE_LATTICE * 0.5 == 0.005
    rng = stream(2, "fair", str(sd), str(step))
    for v in (0.0, 6.0, 4.0, 4.0025, 4.0 + 0.7 * sd if sd < 2 else 1.3):
        table = drawn(rng, np.full(100_000, sd), step)
        seen = np.full(100_000, v)
        pays = repeats(table, ACTIONS, nearest_points(ACTIONS, seen).astype(np.int64), seen).pays
        assert pays.mean() <= 1.0 + 4.0 * pays.std() / np.sqrt(pays.size) + 1e-12


def traced(table: LevelTable) -> Traces:
    tracing = TraceCollector("c")
    tracing.add(Batch(table.parent, {"dose": table}))
    return tracing.done()


@pytest.mark.parametrize("step", [0.0, 0.005])
def test_false_alarms_stay_below_their_level(step: float) -> None:
    """400 pairs of logs in the same contexts: at a hundred times the level hardly one is above it (4 expected at most)."""
    rng, high = stream(3, "alarms", str(step)), 0
    for _ in range(400):
        sd = np.exp(rng.uniform(np.log(0.01), np.log(3.0), 150))
        found = SeenDecisions(traced(drawn(rng, sd, step)), actions={"dose": ACTIONS})
        new = drawn(rng, sd, step)
        found.add(Batch(new.parent, {"dose": new}), np.ones(150, dtype=bool))
        assert not found.beyond_chance and found.compared > 100
        high += float(np.exp(found.wealth).mean()) >= 0.01 / CONTAMINATION_ALPHA
    assert high <= 10


@pytest.mark.parametrize("sd", [3.0, 0.3, 0.05])
def test_copies_are_known_with_and_without_exact_numbers(sd: float) -> None:
    """Records of earlier versions hold points alone, and know a copy where densities are wider than the cells."""
    table = drawn(stream(4, "known", str(sd)), np.full(120, sd))
    batch, traces = Batch(table.parent, {"dose": table}), traced(table)
    old = replace(traces, levels={"dose": tuple(replace(kept, values=None) for kept in traces.levels["dose"])})
    known = []
    for item in (traces, old):
        found = SeenDecisions(Traces.of(item.plain()), actions={"dose": ACTIONS})
        found.add(batch, np.ones(120, dtype=bool))
        known.append(found.beyond_chance)
    assert known == [True, sd > 0.1]
