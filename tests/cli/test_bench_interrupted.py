"""A bench that is stopped keeps what was done, stops its processes, and says how to go on."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from aegis.paper import ResultStore, load_bench, plan_bench

BENCH = """
title: One that is done at once, and two that take for ever
section: none
question: What is kept?
measure: offline
base: {world: {name: additive, inner_steps: 3}, agent: nested_nig}
seeds: 2
metrics: [gain]
arms:
  short: {episodes: 20}
  long: {episodes: 400000}
"""
# As `python -m aegis`, with Ctrl-C at its default: a process started in the background of a shell inherits it as ignored.
INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from aegis.cli import main; main()"


def test_stopped_it_keeps_what_was_done(tmp_path: Path) -> None:
    path, store = tmp_path / "mine.yaml", tmp_path / "store"
    path.write_text(BENCH, encoding="utf-8")
    plan = plan_bench(load_bench(str(path)), "quick")
    arguments = ["bench", "run", str(path), "--store", str(store), "--workers", "2"]
    running = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    try:
        while running.poll() is None and len(ResultStore(store).read(plan.units[0])) < 2:
            time.sleep(0.1)
        os.killpg(running.pid, signal.SIGINT)  # as Ctrl-C does: everybody gets it, and nobody but the first says anything
        out, err = running.communicate(timeout=120)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 130, err.decode()
    lines = [line for line in err.decode().splitlines() if line.strip() and not line.startswith("benches:")]
    assert lines == [f"aegis: interrupted; every part that was done is kept in {store}, and the same command goes on from there"]
    assert out == b""
    assert [len(ResultStore(store).read(unit)) for unit in plan.units] == [2, 0]
