"""A gate that is killed at any moment under load: nothing that was acknowledged is lost, nothing is done twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from load_service import load
from served_gate import Helper


@pytest.mark.ci
def test_killed_under_load(helper: Helper, tmp_path: Path) -> None:
    found = load(helper, str(tmp_path / "gate.sqlite"), tmp_path, 3, 11)
    assert found["writers"] == 4
    assert found["acknowledged"] > 20
    assert found["counted"] > 0 and found["freezes"] > 0 and found["flips"] > 0


@pytest.mark.soak
def test_killed_two_hundred_times(helper: Helper, store: str, tmp_path: Path) -> None:
    found = load(helper, store, tmp_path, 200, 12)
    assert found["writers"] == 201
    assert found["acknowledged"] > 1000
    assert found["freezes"] > 10 and found["flips"] > 3 and found["by agents"] > 50
