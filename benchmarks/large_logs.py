"""What it costs to certify a large log, against a bare scan of its columns: `python benchmarks/large_logs.py`.

Every measurement is made in a process of its own, which scans the log before and after; times are compared within it. Hashing the
file, which names the data a certificate speaks of, is measured apart and then left out. Writes a section of RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from aegis.agents import CandidateSettings, Learned, learn
from aegis.certificate import Candidate, certify
from aegis.certificate.data import DataDigest
from aegis.engine import one_thread
from aegis.logs import Source, Split, required_columns
from aegis.mechanisms import ModelSettings
from aegis.policies import TargetColumns
from aegis.problem import Array, Batch, Policy
from big_log import TARGETS, big_problem, scan, write_big_log
from results import record, table

FOLDER = Path(__file__).parents[1] / "build"
EPISODES = (50_000, 500_000)  # of about 20 rows
TASKS = {
    "columns": ("target columns", EPISODES),
    "linear": ("learned, greedy, linear models", EPISODES),
    "learned": ("learned, greedy, models as `aegis learn` chooses them", EPISODES[:1]),  # 160 s for 10^6 rows, all its own
}
LEARNING = 2_000  # episodes of the log, of the same law, that the policy is learned from
RUNS = {"columns": 5, "linear": 3, "learned": 1}  # of certify, each between scans; the median counts
Result = TypeVar("Result")


@dataclass(slots=True)
class Clock:
    """Seconds of CPU (all threads of the process) and of the wall."""

    cpu: float = 0.0
    wall: float = 0.0

    def time(self, work: Callable[[], Result]) -> Result:
        """Do some work and add what it took."""
        cpu, wall = time.process_time(), time.perf_counter()
        result = work()
        self.cpu += time.process_time() - cpu
        self.wall += time.perf_counter() - wall
        return result


class Asked:
    """Adds up the time in which policies of a class are asked; CPU of the asking thread only, since others read meanwhile.

    The class itself is watched: a policy wrapped in another would be code to `certify`, whose behaviour it would have to record.
    """

    def __init__(self, kind: type[Policy]) -> None:
        self.cpu, self.wall, self.depth = 0.0, 0.0, 0
        for name in ("taken", "full"):
            setattr(kind, name, self._timed(getattr(kind, name)))

    def _timed(self, method: Callable[..., Array]) -> Callable[..., Array]:
        def timed(policy: Policy, level: str, batch: Batch) -> Array:
            if self.depth:  # one asks the other
                return method(policy, level, batch)
            self.depth += 1
            cpu, wall = time.thread_time(), time.perf_counter()
            try:
                return method(policy, level, batch)
            finally:
                self.depth -= 1
                self.cpu += time.thread_time() - cpu
                self.wall += time.perf_counter() - wall

        return timed


def learned(path: Path, task: str) -> Learned:
    """Learn a greedy policy from a small log: with linear models, the quickest there is, or with what `aegis learn` chooses."""
    models = {"linear": ModelSettings()} if task == "linear" else None
    return learn(Source(path, big_problem()), Split(), CandidateSettings("greedy"), models=models)


def measure(task: str, path: Path, small: Path) -> dict[str, Any]:
    """Scan, certify and scan again, in this process; task: one of TASKS."""
    problem = big_problem()
    columns = list(dict.fromkeys([column.name for column in required_columns(problem)]))
    if task == "columns":
        columns += TARGETS
        policy: Policy = TargetColumns(problem, {"recipe": TARGETS[0], "dose": TARGETS[1]})
        candidate = Candidate(policy, "target columns", columns=TARGETS)
    else:
        found = learned(small, task)
        policy = found.policy
        candidate = Candidate(policy, "greedy policy", record=found.record, rewards=found.rewards)
    asked = Asked(type(policy))
    digest, scans, runs, peak = Clock(), [Clock(), Clock()], [], 0.0
    rows = [clock.time(lambda: scan(path, columns)) for clock in scans][-1]
    named = digest.time(lambda: DataDigest.of(Source(path, problem)))
    DataDigest.of = lambda source: named  # type: ignore[method-assign]
    for _ in range(RUNS[task]):
        runs.append(Clock())
        certificate = runs[-1].time(lambda: certify(Source(path, problem), candidate, ledger=False))
        peak = peak or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000  # of one run, as users have it
        scans.append(Clock())
        scans[-1].time(lambda: scan(path, columns))
    return {
        "task": task,
        "rows": rows,
        "columns": len(columns),
        "scan": _medians(scans),
        "scans": [[round(clock.cpu, 3), round(clock.wall, 3)] for clock in scans],
        "digest": [digest.cpu, digest.wall],
        "certify": _medians(runs),
        "runs": [[round(clock.cpu, 3), round(clock.wall, 3)] for clock in runs],
        "policy": [asked.cpu / len(runs), asked.wall / len(runs)],
        "megabytes": peak,
        "verdict": certificate.verdict.sentence,
    }


def _medians(clocks: list[Clock]) -> list[float]:
    return [statistics.median(getattr(clock, kind) for clock in clocks) for kind in ("cpu", "wall")]


def in_own_process(*arguments: str) -> dict[str, Any]:
    """Run this script with other arguments in a fresh process and return what it prints."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def write(results: list[dict[str, Any]]) -> None:
    """Record the results."""
    lines = [
        "A Parquet log of ragged episodes (1 to 3 recipes of 1 to 19 doses, about 20 rows), text ids, twelve columns, "
        "propensities of the actions taken only. `certify` with all scopes, gain and value, and the audit. The scan reads the "
        "same columns with `ParquetFile.iter_batches` and does nothing with them. Medians of runs (5 with target columns) "
        "and of the scans around them. Seconds of CPU over all threads / of the wall; hashing the file is not in them. "
        "'Policy' is the time inside the candidate's own probability calls (CPU of the calling thread).",
        "",
        *table(
            [
                "candidate",
                "rows",
                "scan",
                "hashing",
                "policy",
                "certify",
                "certify : scan",
                "certify : (scan + policy)",
                "peak MB",
            ],
            [_row(found) for found in results],
        ),
        "",
        *_memory(results),
    ]
    record("Large logs", "python benchmarks/large_logs.py", lines)


def _row(found: dict[str, Any]) -> list[str]:
    scanned, asked, done = found["scan"], found["policy"], found["certify"]
    alone = [own / other for own, other in zip(done, scanned, strict=True)]
    both = [own / (other + more) for own, other, more in zip(done, scanned, asked, strict=True)]
    return [
        TASKS[found["task"]][0],
        f"{found['rows']:,}",
        *[_pair(pair) for pair in (scanned, found["digest"], asked, done, alone, both)],
        f"{found['megabytes']:.0f}",
    ]


def _pair(pair: list[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in pair)


def _memory(results: list[dict[str, Any]]) -> list[str]:
    lines = []
    for task, (name, _) in TASKS.items():
        peaks = [found["megabytes"] for found in results if found["task"] == task]
        rows = [found["rows"] for found in results if found["task"] == task]
        if len(peaks) > 1:
            lines.append(f"Peak memory ({name}) from {rows[0]:,} to {rows[-1]:,} rows: {peaks[-1] / peaks[0] - 1:+.1%}.")
    return lines


def main() -> None:
    """Write the logs that are not there yet, measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--measure", nargs=3, metavar=("TASK", "LOG", "SMALL"), help="one measurement, in this process")
    options.add_argument("--write", nargs=2, metavar=("LOG", "EPISODES"), help="write a log")
    options.add_argument("--no-table", action="store_true", help="print only")
    given = options.parse_args()
    one_thread()
    if given.measure:
        task, log, small = given.measure
        print(json.dumps(measure(task, Path(log), Path(small))))
        return
    if given.write:
        print(json.dumps({"rows": write_big_log(Path(given.write[0]), int(given.write[1]))}))
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    logs = {episodes: FOLDER / f"large-{episodes}.parquet" for episodes in (LEARNING, *EPISODES)}
    for episodes, path in logs.items():
        if not path.exists():
            in_own_process("--write", str(path), str(episodes))
    results = []
    for task, (_, sizes) in TASKS.items():
        for episodes in sizes:
            results.append(in_own_process("--measure", task, str(logs[episodes]), str(logs[LEARNING])))
            print(json.dumps(results[-1]), flush=True)
    if not given.no_table:
        write(results)


if __name__ == "__main__":
    main()
