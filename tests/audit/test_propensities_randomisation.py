"""Randomisation: draws within clusters, deterministic decisions and rounded propensities."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from audit_cases import audited, logged, taken_only, with_taken
from fault_logs import base
from interference_logs import problem_of, table_of

from aegis.audit import Auditor, audit_log
from aegis.audit.checks.calibration import ClusterDraws
from aegis.logs import Source
from aegis.problem import Problem, Propensity
from aegis.rng import stream

WRONG = "miscalibrated-propensities"


def drawn(run: int, sizes: list[int], chance: float, held: bool) -> pa.Table:
    """Return a log of clusters that claims even odds: one draw for each cluster, or one for each episode."""
    rng = stream(run, "draws in clusters")
    day = np.repeat(np.arange(len(sizes)), sizes)
    action = (rng.random(len(sizes))[day] if held else rng.random(day.size)) < chance
    reward = 0.4 + 0.2 * action + 0.1 * rng.normal(size=len(sizes))[day] + 0.1 * rng.normal(size=day.size)
    table = table_of(action[:, None].astype(np.int64), reward[:, None], day=day)
    return table.append_column("p", pa.array(np.full(day.size, 0.5)))


def without_whole(problem: Problem, least: float | None) -> Problem:
    level = problem.levels[0]
    return replace(problem, levels=(replace(level, propensity=Propensity(column="p", least=least)),))


def refused(table: pa.Table, problem: Problem) -> bool:
    return WRONG in audit_log(Source(table, problem)).codes("refused")


@pytest.mark.parametrize(("runs", "most"), [(6, 0), pytest.param(20, 1, marks=pytest.mark.ci)])
@pytest.mark.parametrize("form", ["whole", "taken", "least"])
@pytest.mark.parametrize("uneven", [False, True])
def test_held_draws_that_are_logged_as_drawn_are_not_refused(form: str, uneven: bool, runs: int, most: int) -> None:
    problem = problem_of("cluster: day")
    problem = problem if form == "whole" else without_whole(problem, 0.5 if form == "least" else None)
    sizes = [1 + 40 * (place % 3 == 0) for place in range(40)] if uneven else [20] * 30
    assert sum(refused(drawn(run, sizes, 0.5, held=True), problem) for run in range(runs)) <= most


@pytest.mark.parametrize("form", ["whole", "taken", "least"])
def test_wrong_propensities_are_refused_in_clusters(form: str) -> None:
    problem = problem_of("cluster: day")
    problem = problem if form == "whole" else without_whole(problem, 0.5 if form == "least" else None)
    assert sum(refused(drawn(run, [10] * 150, 0.8, held=True), problem) for run in range(6)) >= 4
    assert sum(refused(drawn(run, [10] * 40, 0.65, held=False), problem) for run in range(6)) >= 5


def test_a_cluster_in_several_batches_is_one_bet() -> None:
    problem = problem_of("cluster: day")
    bad = 0
    for run in range(8):
        batch = next(iter(Source(drawn(run, [20] * 30, 0.5, held=True), problem).batches()))
        auditor = Auditor(problem)
        for turn in range(5):  # every fifth episode, so that each batch holds a part of every cluster
            auditor.add(batch.take_episodes(np.arange(turn, len(batch), 5)))
        bad += WRONG in auditor.result().codes()
        assert auditor._checks["propensities"].levels["act"].draws.batches(0.0) == 5
    assert bad <= 1


def test_draws_of_their_own_are_bets_of_their_own() -> None:
    problem = problem_of("cluster: day")
    auditor = Auditor(problem)
    auditor.add(next(iter(Source(drawn(0, [10] * 60, 0.5, held=False), problem).batches())))
    assert auditor._checks["propensities"].levels["act"].draws.batches(0.0) is None
    assert ClusterDraws().batches(0.0) is None


def test_forced_decisions_are_not_deterministic() -> None:
    problem, batch = taken_only(*base())
    table = batch.levels["inner"]
    available = np.ones((len(table), 11), dtype=bool)
    available[::5] = False
    available[np.arange(len(table)), table.action] = True
    taken = np.where(np.arange(len(table)) % 5 == 0, 1.0, table.mu_taken)
    masked = batch.with_level("inner", replace(table, available=available, mu_taken=taken))
    assert audited(problem, masked).verdict == "fit"


@pytest.mark.parametrize("propensity", [0.1, 0.5, 1 / 11, 0.03])
def test_exact_propensities_are_not_rounded_ones(propensity: float) -> None:
    problem, batch = taken_only(*base())
    audit = audited(problem, with_taken(batch, "inner", np.full(len(batch.levels["inner"]), propensity)))
    assert "rounded-propensities" not in audit.codes()


def test_an_action_that_is_not_available_is_not_expected() -> None:
    problem, batch = taken_only(*logged("clinic", "uniform", 800, 4))
    mask = batch.levels["dose"].available
    assert mask is not None and not mask.all()
    assert audited(problem, batch).verdict == "fit"
