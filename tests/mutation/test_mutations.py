"""The tests of equations, bounds, weights and the gate can fail: a mistake planted in the code makes them fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.soak


@pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants run in forks, which this system does not have")
@pytest.mark.parametrize(("family", "least"), [("equations", 25), ("bounds", 10), ("weights", 6), ("gate", 7)])
def test_every_planted_mutation_is_caught(family: str, least: int, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "mutants.py"), str(HERE.parents[1]), str(tmp_path), family],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    assert codes.pop("nothing at all") == 0
    assert len(codes) >= least
    assert codes == dict.fromkeys(codes, 1)
