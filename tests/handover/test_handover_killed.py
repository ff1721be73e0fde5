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
def test_killed_at_twenty_random_points_and_resumed_a_handover_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "killed_handovers.py"), str(tmp_path), "20"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["unequal"] == []
    assert found["kills"] >= 20
    assert found["flips"] >= 1
    assert {"events.jsonl", "log.parquet", "summary.json", "policies/inner/policy.json"} <= set(found["files"])
