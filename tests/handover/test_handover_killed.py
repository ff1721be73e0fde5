"""Handovers survive being killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="victims run in forks, which this system does not have")
@pytest.mark.ci
@pytest.mark.parametrize("points", [20])
def test_killed_at_random_points_and_resumed_a_handover_equals_an_uninterrupted_one(tmp_path: Path, points: int) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "killed_handovers.py"), str(tmp_path), str(points)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["unequal"] == []
    assert found["kills"] >= points
    assert found["flips"] >= 1
    assert {"events.jsonl", "log.parquet", "summary.json", "policies/inner/policy.json"} <= set(found["files"])
