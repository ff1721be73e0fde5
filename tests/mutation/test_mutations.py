"""The tests of the equations can fail: a wrong sign or index planted in the code makes them fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.skipif(not hasattr(os, "fork"), reason="mutants run in forks, which this system does not have")
def test_every_planted_mutation_is_caught(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "mutants.py"), str(HERE.parents[1]), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    codes = json.loads(done.stdout)
    assert codes.pop("nothing at all") == 0
    assert len(codes) >= 25
    assert codes == dict.fromkeys(codes, 1)
