"""A sample of the fault campaign on each store; `make soak` runs a thousand faults."""

from __future__ import annotations

from pathlib import Path

import pytest
from fault_campaign import STORES, Summary, missing_for, result_lines, run_campaign
from fault_kinds import faults_for


@pytest.mark.ci
@pytest.mark.parametrize("store", STORES)
def test_nothing_is_lost_or_done_twice_under_faults(store: str, tmp_path: Path) -> None:
    reason = missing_for(store)
    if reason is not None:
        pytest.skip(reason)
    summary = run_campaign(store, 10, 5, tmp_path)
    assert summary.wrong == []
    assert sum(summary.faults.values()) == 10
    assert summary.counts["acknowledged"] > 200 and summary.counts["client decisions"] > 20
    assert summary.counts["counted"] > 20 and summary.counts["freezes"] > 0


def test_every_fault_has_a_weight_and_a_description() -> None:
    for store in STORES:
        assert all(weight > 0 and fault.__doc__ for fault, weight in faults_for(store).values())
    assert set(faults_for("sqlite")) < set(faults_for("postgres"))


def test_the_result_is_two_tables() -> None:
    summary = Summary("sqlite", wrong=[("lost", "one"), ("flip", "another")], health=(1.23, "A.1"), decisions=[0.0123])
    summary.faults["writer killed"] = 10**6  # more than any that was recorded
    lines = result_lines([summary])
    cells = next([cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line.startswith("| SQLite |"))
    assert cells == ["SQLite", "1000000", "0", "1", "0", "1", "0", "0", "12", "0", "0", "0", "0", "0", "1.2"]
    assert "| SQLite: writer killed | 1000000 |" in lines
