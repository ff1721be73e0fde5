"""A spool on a disk that is really full, by the shim of `fault_shim.c`: a control system that is restarted there starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from fault_shim import ERRORS, Control, build_shim, compiler

WORK = """
import sys
from aegis.service.client.spool import Spool
spool = Spool(sys.argv[1])
spool.put("/v1/results", sys.argv[2], {"items": []}, "e")
print(len(spool))
spool.close()
"""


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler on this machine")
@pytest.mark.parametrize("before", [False, True])
def test_a_control_system_starts_on_a_full_disk(tmp_path: Path, before: bool) -> None:
    (tmp_path / "disk").mkdir()
    control = Control(build_shim(tmp_path), tmp_path / "control", [str(tmp_path / "disk")])

    def run(key: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WORK, str(tmp_path / "disk" / "spool"), key]
        return subprocess.run(command, env={**os.environ, **control.environment}, capture_output=True, text=True, check=True)

    if before:
        assert run("first").stdout == "1\n"
    control.fail(ERRORS["ENOSPC"])
    full = run("second")
    assert full.stdout == "1\n" and "kept in memory" in full.stderr
    control.fail(0)
    assert run("third").stdout == ("2\n" if before else "1\n")  # what was written before is still there
