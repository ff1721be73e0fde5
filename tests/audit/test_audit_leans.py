"""Contexts that lean to the side of the action: halves of the actions, and sides, against plain loops, and what they find."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from aegis.audit.action_bins import ActionHalves, bin_batch, bin_problem
from aegis.audit.batch_view import BatchView
from aegis.audit.checks.calibration import ContextLeans, _turned
from aegis.logs import Source
from aegis.problem import LevelTable, Problem, parse_problem
from aegis.rng import stream
from aegis.worlds import make_world

INTERVAL = """
episode: k
reward: {column: r, range: [0, 1]}
levels:
  - name: dose
    context: [x, flow]
    action: {column: a, interval: [0, 10], bandwidth: 1}
    propensity: {column: d, density: true}
"""
GRID = """
episode: k
reward: {column: r, range: [0, 1]}
levels:
  - name: dose
    context: [x, flow]
    action: {column: a, values: [1, 2, 3, 4, 5]}
    propensity: {shares: [0.2, 0.2, 0.2, 0.2, 0.2]}
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


def test_halves_of_an_interval_leave_its_atoms_alone_and_average_one() -> None:
    world = make_world("dosing", ends="clip", natural_sd=4.0)
    batch = bin_batch(world.problem, world.episodes(0, 6000, world.legacy("natural"), 5))
    level = bin_problem(world.problem).level("dose")
    halves = ActionHalves.of(level, atoms=2)
    assert halves is not None and halves.level.actions.values[2:] == ("exactly 0", "exactly 10")
    table = halves.table(batch.levels["dose"])
    for place in range(4):
        weight = np.where(table.action == place, 1.0 / table.mu_taken, 0.0)
        assert abs(weight.mean() - 1.0) < 5 * weight.std() / np.sqrt(weight.size)


def test_what_has_no_order_has_no_halves_and_two_actions_need_none() -> None:
    level = parse_problem(GRID, "grid.yaml").level("dose")
    from dataclasses import replace

    from aegis.problem import Actions

    def labelled(*names: str) -> ActionHalves | None:
        return ActionHalves.of(replace(level, actions=Actions("a", names, "labels"), propensity=None))

    assert labelled("a", "b", "c", "d") is None
    two = labelled("no", "yes")
    assert two is not None and not two.several and two.level.actions.values == ("no", "yes")


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
