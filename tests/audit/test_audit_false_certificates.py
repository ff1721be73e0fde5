"""Logs from which a certificate used to be wrong are refused, and the same logs without the fault are not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hostile_logs import always_high, one_level, rows_of, steps

from aegis.certificate import Certificate, certify
from aegis.errors import LogError
from aegis.logs import Source
from aegis.problem import Problem
from aegis.rng import stream

ALPHA = 0.001


def certified(problem: Problem, table: pa.Table, delta: float = 0.05) -> Certificate:
    return certify(Source(table, problem), always_high(problem), what=("gain",), delta=delta, ledger=False)


def codes(found: Certificate) -> set[str]:
    return {str(item["code"]) for item in found.findings}


@pytest.mark.parametrize("timed", [False, True])
def test_actions_that_are_held_over_episodes_are_refused(timed: bool) -> None:
    problem = one_level("time: t" if timed else "")
    for run in range(6):
        rng = stream(run, "held")
        machine = np.repeat(np.arange(100), 20)
        action, reward = rng.permutation(np.arange(100) % 2)[machine], rng.integers(0, 2, 100)[machine].astype(float)
        table = rows_of(action, reward, x=rng.normal(size=2000), t=np.arange(2000))
        if timed:
            table = table.take(pa.array(rng.permutation(2000)))
        found = certified(problem, table)
        assert found.verdict.verdict == "refused" and "actions-held" in codes(found)
        assert "cluster" in found.verdict.next_step


def test_a_cluster_makes_up_for_actions_that_are_held() -> None:
    rng = stream(1, "held in clusters")
    machine = np.repeat(np.arange(200), 10)
    table = rows_of(
        rng.integers(0, 2, 200)[machine], rng.integers(0, 2, 200)[machine].astype(float), x=rng.normal(size=2000), m=machine
    )
    assert certified(one_level("cluster: m"), table).verdict.verdict == "not yet"


@pytest.mark.parametrize("order", ["log", "newest first", "shuffled"])
def test_the_order_of_rows_does_not_decide_what_carries_over(order: str) -> None:
    rng = stream(5, "steps")
    table = steps(rng, 1500, 3)
    rows = {"log": np.arange(4500), "newest first": np.arange(4500)[::-1], "shuffled": rng.permutation(4500)}[order]
    found = certified(one_level("time: t\ncarry_over: within"), table.take(pa.array(rows)))
    assert found.verdict.verdict == "not yet"
    assert found.levels[0].estimate == pytest.approx(-0.025, abs=0.05)
    with pytest.raises(LogError, match=r"column 'a': level 'dose' has several decisions .* 'decision' column .* 'time' column"):
        certified(one_level("carry_over: within"), table.take(pa.array(rows)))


def test_a_file_that_was_copied_is_refused() -> None:
    problem = one_level()
    refused = 0
    for run in range(4):
        rng = stream(run, "copied")
        table = rows_of(rng.integers(0, 2, 300), rng.integers(0, 2, 300).astype(float), x=rng.normal(size=300))
        assert "duplicated-episodes" not in codes(certified(problem, table))
        again = table.set_column(0, "id", pa.array(np.arange(5000, 5300)))
        found = certified(problem, pa.concat_tables([table, again]))
        refused += found.verdict.verdict == "refused" and "duplicated-episodes" in codes(found)
    assert refused == 4


@pytest.mark.parametrize("fault", ["exclusive or", "both ends"])
def test_a_fault_in_an_interaction_or_in_the_middle_is_refused(fault: str) -> None:
    problem = one_level(context="x, y")
    rng = stream(3, fault)
    x, y = rng.normal(size=(2, 2500))
    there = (x > 0) ^ (y > 0) if fault == "exclusive or" else np.abs(x) > 0.67
    action = (rng.random(2500) < np.where(there, 0.8, 0.2)).astype(np.int64)
    table = rows_of(action, (rng.random(2500) < np.where(there, 0.8, 0.3)).astype(float), x=x, y=y)
    found = certified(problem, table)
    assert found.verdict.verdict == "refused" and codes(found) == {"miscalibrated-propensities"}


def test_refusals_come_first() -> None:
    rng = stream(4, "order of findings")
    action = np.repeat(rng.integers(0, 2, 100), 10)
    table = rows_of(action, np.linspace(0.0, 0.1, 1000) * rng.random(1000), x=np.linspace(0, 1, 1000))
    severities = [item["severity"] for item in certified(one_level(), table).findings]
    assert severities[0] == "refused" and "warning" in severities
    assert severities == sorted(severities, key=["refused", "warning", "note"].index)
