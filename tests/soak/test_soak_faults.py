"""A thousand faults in all, half of them on each store, with freezes and handovers going on. `make soak` runs it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "service"))

from fault_campaign import STORES, missing_for, run_campaign
from soak_size import choose

pytestmark = pytest.mark.soak
FAULTS = choose(500, 15)


@pytest.mark.parametrize("store", STORES)
def test_a_gate_under_faults(store: str, tmp_path: Path) -> None:
    reason = missing_for(store)
    if reason is not None:
        pytest.skip(reason)
    summary = run_campaign(store, FAULTS, 2026, tmp_path)
    assert summary.wrong == []
    assert sum(summary.faults.values()) == FAULTS
    assert summary.counts["acknowledged"] > 20 * FAULTS
    assert summary.counts["freezes"] > 0
    assert FAULTS < 100 or (summary.counts["flips"] > 10 and summary.counts["decisions by agents"] > 100)
