"""A job under two profilers, one after the other: py-spy, which sees stacks, and perf, if there, which counts libraries."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peer_envs import python_of
from profile_stacks import Profile, read

HERE = Path(__file__).parent
RATE = 40  # samples of stacks a second: each stops the process, and more of them would measure the stopping
OFTEN = 499  # samples of perf a second
STARTS = 0.5  # seconds that perf is given to start
INTERPRETER = re.compile(r"^\s*([0-9.]+)%\s+(libpython|python)\S*\s*$", flags=re.M)


def profiled(job: str, seconds: float) -> Profile:
    """Run a job in a process of its own and return its profile."""
    command = [sys.executable, str(HERE / "profile_jobs.py"), job, str(seconds)]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child,
    ):
        if child.stdout is None or child.stdout.readline() != "ready\n":
            raise SystemExit(f"the job '{job}' did not start")
        found = _stacks(child, Path(folder))
        found.perf = _interpreter(child, Path(folder)) if shutil.which("perf") else None
    return found


def _stacks(child: subprocess.Popen[str], folder: Path) -> Profile:
    """Let the job run under py-spy."""
    stacks, said = folder / "stacks", folder / "said"
    spy = str(python_of("py_spy").parent / "py-spy")
    options = ["--native", "--rate", str(RATE), "--format", "raw", "--output", str(stacks), "--pid", str(child.pid)]
    with said.open("w") as told:
        watcher = subprocess.Popen([spy, "record", *options], stdout=told, stderr=told)
        while "Sampling process" not in said.read_text():
            if watcher.poll() is not None:
                raise SystemExit(f"py-spy cannot look at another process here: {said.read_text().strip()}")
            time.sleep(0.05)
        taken = _go(child)
        watcher.send_signal(signal.SIGINT)
        watcher.wait()
    found = read(stacks.read_text(encoding="utf-8"))
    found.taken = taken
    return found


def _interpreter(child: subprocess.Popen[str], folder: Path) -> float | None:
    """Let the job run under perf; return the share of its samples in the interpreter's own library, None if perf may not."""
    data = str(folder / "perf")
    options = ["-q", "-F", str(OFTEN), "-p", str(child.pid), "-o", data]
    watcher = subprocess.Popen(["perf", "record", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(STARTS)
    if watcher.poll() is not None:
        return None
    _go(child)
    watcher.send_signal(signal.SIGINT)
    watcher.wait()
    report = ["perf", "report", "-i", data, "--no-children", "--stdio", "--sort", "dso"]
    shown = subprocess.run(report, capture_output=True, text=True, check=False).stdout
    return sum(float(share) for share, _ in INTERPRETER.findall(shown)) / 100


def _go(child: subprocess.Popen[str]) -> dict[str, Any]:
    """Let the job run once more and return what it took."""
    if child.stdin is None or child.stdout is None:
        raise SystemExit("the job cannot be asked")
    child.stdin.write("go\n")
    child.stdin.flush()
    taken: dict[str, Any] = json.loads(child.stdout.readline())
    return taken
