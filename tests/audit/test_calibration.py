"""Calibration: sums against plain loops, leans to contexts, and the prior mass of slices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from audit_cases import GRID, logged, taken_only
from hostile_logs import certified, codes_of, one_level, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from aegis.audit.batch_view import ActionHalves, BatchView
from aegis.audit.checks.calibration import ContextLeans, LevelCalibration, SliceEvidence, SliceShares, _turned
from aegis.audit.slices import Cut
from aegis.logs import Source
from aegis.problem import LevelTable, Problem, augmented_context, parse_problem
from aegis.rng import stream

INTERVAL = """
episode: k
reward: {column: r, range: [0, 1]}
levels:
  - name: dose
    context: [x, flow]
    action: {column: a, interval: [0, 10], bandwidth: 1}
    propensity: {column: d, density: true}
"""


def log(problem: Problem, seed: int, lean: float, count: int = 1500) -> Source:
    """Return a log whose context `flow` was measured after the action: `lean` times the action, and noise."""
    rng = stream(seed, "leans")
    interval = problem.level("dose").actions.continuous
    action = rng.uniform(0, 10, count) if interval else rng.integers(1, 6, count)
    columns: dict[str, Any] = {"k": np.arange(count), "x": rng.random(count), "a": action, "d": np.full(count, 0.1)}
    columns["flow"] = lean * action + rng.normal(size=count)
    columns["r"] = np.clip(0.8 + 0.1 * rng.normal(size=count), 0, 1)
    return Source(pa.table(columns), problem)


def codes(source: Source) -> set[str]:
    from aegis.audit import audit_log

    return set(audit_log(source).codes("refused"))


@pytest.mark.parametrize(("text", "lean"), [(INTERVAL, 0.1), (GRID, 0.2)], ids=["interval", "grid"])
def test_a_context_that_was_measured_after_the_action_is_found(text: str, lean: float) -> None:
    problem = parse_problem(text, "lean.yaml")
    found = [codes(log(problem, seed, lean)) for seed in range(4)]
    assert sum("miscalibrated-propensities" in item for item in found) >= 3
    in_order = [codes(log(problem, 100 + seed, 0.0)) for seed in range(12)]
    refused = sum(bool(item) for item in in_order)
    assert stats.binomtest(refused, 12, 0.01, alternative="greater").pvalue > 0.001


@pytest.mark.parametrize("form", ["taken", "full", "available"])
def test_weights_of_halves_and_sides_are_those_of_plain_loops(form: str) -> None:
    rng = stream(3, "halves", form)
    problem = parse_problem(GRID, "grid.yaml")
    halves = ActionHalves.of(problem.level("dose"))
    assert halves is not None and halves.several and halves.level.actions.values == ("1 ... 2", "3 ... 5")
    n, actions = 40, 5
    full = rng.dirichlet(np.ones(actions), n)
    action = np.array([rng.choice(actions, p=row) for row in full], dtype=np.int32)
    open_ = (rng.random((n, actions)) < 0.7) | (np.arange(actions) == action[:, None])
    upper = rng.random(n) < 0.5
    table = LevelTable(
        np.arange(n, dtype=np.int32),
        {},
        action,
        full[np.arange(n), action],
        full if form == "full" else None,
        open_ if form == "available" else None,
    )
    found = halves.table(table)
    sides = _turned(found, upper)
    for row in range(n):
        half = 0 if action[row] < 2 else 1
        members = [place for place in range(actions) if (place < 2) == (half == 0)]
        if form == "full":
            chance = sum(full[row, place] for place in members)
        else:
            number = sum(bool(open_[row, place]) for place in members) if form == "available" else len(members)
            chance = number * full[row, action[row]]
        assert found.action[row] == half and found.mu_taken[row] == pytest.approx(chance)
        side = half if not upper[row] else 1 - half
        assert sides.action[row] == side and sides.mu_taken[row] == found.mu_taken[row]
        if form == "full":
            assert sides.mu_full is not None and sides.mu_full[row, side] == pytest.approx(chance)
        if form == "available":
            assert sides.available is not None and sides.available[row, side]


def test_parts_of_a_log_add_up() -> None:
    problem = parse_problem(GRID, "grid.yaml")
    (batch,) = log(problem, 1, 0.2, 300).batches()
    view = BatchView.of(problem, batch, None)
    cuts = BatchView.of(problem, batch, None).cuts
    halves = ActionHalves.of(problem.level("dose"))
    assert halves is not None
    whole, first, second = (ContextLeans(halves, cuts.context["dose"]) for _ in range(3))
    table, looks, fresh = batch.levels["dose"], view.looks("dose"), view.fresh_at("dose")
    whole.add(table, looks, fresh)
    for part, rows in ((first, np.arange(100)), (second, np.arange(100, 300))):
        part.add(table.take(rows, table.parent[rows]), {name: values[rows] for name, values in looks.items()}, fresh[rows])
    first.merge(second)
    assert [part.words for part in whole.slices()] == [part.words for part in first.slices()]
    for one, other in zip(whole.slices(), first.slices(), strict=True):
        assert one.log_evidence == pytest.approx(other.log_evidence) and one.decisions == other.decisions
    assert {part.where.split()[0] for part in whole.slices()} == {"x", "flow"}


def part(where: str, log: float) -> SliceEvidence:
    return SliceEvidence("dose", "a = 1", where, log, 10.0, 5.0, 5.0, 1.0, 0.1)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 4), st.integers(0, 200))
def test_shares_add_up_to_one(wholes: int, parts: int) -> None:
    slices = [part("", 0.0)] * wholes + [part("x up to 0", 0.0)] * parts
    shares = SliceShares(slices)
    assert shares.mean_log(slices) == pytest.approx(0.0, abs=1e-9) if slices else shares.mean_log(slices) == -math.inf
    if wholes and parts:
        assert shares.mean_log(slices[:wholes]) == pytest.approx(math.log(0.5))


def test_what_is_left_out_counts_as_nothing() -> None:
    slices = [part("", math.log(30.0)), part("x up to 0", math.log(8.0)), part("x above 0", 0.0)]
    shares = SliceShares(slices)
    assert shares.mean_log(slices) == pytest.approx(math.log(0.5 * 30 + 0.25 * 8 + 0.25))
    assert shares.mean_log(slices[1:2]) == pytest.approx(math.log(2.0))


def test_taken_sums_equal_the_product_over_decisions() -> None:
    problem, batch = taken_only(*logged("clinic", "natural", 80, 5))
    level, table = problem.level("dose"), batch.levels["dose"]
    calibration = LevelCalibration(level, ())
    calibration.add(table, augmented_context(problem, batch, "dose"), np.ones(len(table), dtype=bool))
    mask = table.available
    assert mask is not None
    for action, found in enumerate(calibration.slices()):
        weights = np.where(table.action == action, 1.0 / table.mu_taken, 0.0)[mask[:, action]]
        factors = [np.log1p(stake * (weights - 1)).sum() for stake in (0.5, 0.125, 2.0**-5, 2.0**-8)]
        assert found.log_evidence == pytest.approx(np.logaddexp.reduce(factors) - np.log(4))
        assert found.mean_weight == pytest.approx(weights.mean())


def test_full_sums_count_what_was_expected() -> None:
    problem, batch = logged("clinic", "natural", 80, 6)
    table = batch.levels["dose"]
    cut = Cut("level", "level", edge=0.1)
    calibration = LevelCalibration(problem.level("dose"), (cut,))
    fresh = np.arange(len(table)) >= 10
    calibration.add(table, augmented_context(problem, batch, "dose"), fresh)
    slices = {(part.action, part.where): part for part in calibration.slices()}
    assert len(slices) == 4 * 3 and table.mu_full is not None
    above = fresh & (table.context["level"] > 0.1)
    values = problem.level("dose").actions.values
    for place, value in enumerate(values):
        part = slices[f"dose = {value}", cut.labels[1]]
        assert part.taken == (table.action[above] == place).sum()
        assert part.expected == pytest.approx(table.mu_full[above, place].sum())
        assert slices[f"dose = {value}", ""].expected == pytest.approx(table.mu_full[:, place].sum())


@pytest.mark.parametrize("fault", ["exclusive or", "both ends"])
def test_a_fault_in_an_interaction_or_in_the_middle_is_refused(fault: str) -> None:
    problem = one_level(context="x, y")
    rng = stream(3, fault)
    x, y = rng.normal(size=(2, 2500))
    there = (x > 0) ^ (y > 0) if fault == "exclusive or" else np.abs(x) > 0.67
    action = (rng.random(2500) < np.where(there, 0.8, 0.2)).astype(np.int64)
    table = rows_of(action, (rng.random(2500) < np.where(there, 0.8, 0.3)).astype(float), x=x, y=y)
    found = certified(problem, table)
    assert found.verdict.verdict == "refused" and codes_of(found) == {"miscalibrated-propensities"}
