"""The shim of the fault campaign: Python's sqlite3 and its clocks go through it, and other files do not."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fault_shim import Control, build_shim, compiler

needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler on this machine")
WORK = """
import datetime, json, os, sqlite3, sys, time
shown = {"time": time.time(), "now": datetime.datetime.now(datetime.UTC).timestamp(), "monotonic": time.monotonic()}
for name in sys.argv[1:]:
    try:
        connection = sqlite3.connect(name, isolation_level=None)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("CREATE TABLE IF NOT EXISTS t (x)")
        connection.execute("INSERT INTO t VALUES (1)")
        shown[name] = 0
    except sqlite3.Error as error:
        shown[name] = error.sqlite_errorcode & 0xFF
    file = os.open(name + ".sync", os.O_RDWR | os.O_CREAT)
    try:
        os.fsync(file)
        shown[name + ".sync"] = 0
    except OSError as error:
        shown[name + ".sync"] = error.errno
print(json.dumps(shown))
"""


@needs_compiler
def test_writes_fail_and_clocks_step_as_the_control_says(tmp_path: Path) -> None:
    bad, good = str(tmp_path / "bad" / "x.sqlite"), str(tmp_path / "good.sqlite")
    (tmp_path / "bad").mkdir()
    control = Control(build_shim(tmp_path), tmp_path / "control", [str(tmp_path / "bad")])

    def run() -> dict[str, float]:
        command = [sys.executable, "-c", WORK, bad, good]
        done = subprocess.run(command, env={**os.environ, **control.environment}, capture_output=True, text=True, check=True)
        shown: dict[str, float] = json.loads(done.stdout)
        return shown

    before = run()
    assert [before[name] for name in (bad, f"{bad}.sync", good)] == [0, 0, 0]
    control.fail(errno.ENOSPC)
    control.step_clock(-7200)
    full = run()
    assert full[bad] in (10, 13)  # SQLITE_FULL, or SQLITE_IOERR where the shared memory of the file does not fit
    assert [full[f"{bad}.sync"], full[good], full[f"{good}.sync"]] == [errno.ENOSPC, 0, 0]
    for clock in ("time", "now"):
        assert full[clock] - before[clock] == pytest.approx(-7200, abs=60)
    assert full["monotonic"] >= before["monotonic"]
    control.fail(errno.EIO)
    control.step_clock(3600)
    broken = run()
    assert [broken[bad], broken[f"{bad}.sync"], broken[good]] == [10, errno.EIO, 0]  # SQLITE_IOERR
    assert broken["time"] - before["time"] == pytest.approx(3600, abs=60)
    control.fail(0)
    assert run()[bad] == 0
