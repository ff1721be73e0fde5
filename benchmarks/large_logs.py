"""What it costs to certify a large log, against a bare scan of its columns: `python benchmarks/large_logs.py`.

Every measurement is made in a process of its own, which scans the log before and after; times are compared within it. Hashing the
file, which names the data a certificate speaks of, is measured apart and then left out. Writes a section of RESULTS.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aegis.agents import CandidateSettings, Learned, learn
from aegis.certificate import Candidate, Certificate, DataDigest, certify
from aegis.engine import limit_blas_threads, usable_cores
from aegis.logs import Source, Split, required_columns
from aegis.logs.formats.base import CHUNK_ROWS
from aegis.mechanisms import ModelSettings
from aegis.policies import TargetColumns
from big_log import TARGETS, big_problem, scan, write_big_log
from large_clocks import Asked, Clock, Memory
from results import record, table

FOLDER = Path(__file__).parents[1] / "build"
LEARNING = 2_000  # episodes of the log, of the same law, that the policy is learned from


@dataclass(frozen=True)
class Task:
    """A candidate, the numbers of episodes (of about 20 rows) of the logs, and how often each is certified on both cores."""

    name: str
    episodes: tuple[int, ...]
    runs: int


TASKS = {
    "columns": Task("target columns", (50_000, 500_000, 5_000_000), 3),
    "linear": Task("learned, greedy, linear models", (50_000, 500_000, 5_000_000), 1),
    "learned": Task("learned, greedy, models as `aegis learn` chooses them", (50_000,), 0),
}


def learned(path: Path, task: str) -> Learned:
    """Learn a greedy policy from a small log: with linear models, the quickest there is, or with what `aegis learn` chooses."""
    models = {"linear": ModelSettings()} if task == "linear" else None
    return learn(Source(path, big_problem()), Split(), CandidateSettings("greedy"), models=models)


def candidate_of(task: str, small: Path) -> tuple[Candidate, list[str]]:
    """Return a candidate, and the columns of the log that are read for it."""
    problem = big_problem()
    columns = list(dict.fromkeys([column.name for column in required_columns(problem)]))
    if task == "columns":
        policy = TargetColumns(problem, {"recipe": TARGETS[0], "dose": TARGETS[1]})
        return Candidate(policy, "target columns", columns=TARGETS), [*columns, *TARGETS]
    found = learned(small, task)
    return Candidate(found.policy, "greedy policy", record=found.record, rewards=found.rewards), columns


def measure(task: str, path: Path, small: Path) -> dict[str, Any]:
    """Scan, certify on both cores and scan again; task: one of TASKS."""
    problem = big_problem()
    candidate, columns = candidate_of(task, small)
    digest, scans, runs = Clock(), [Clock(), Clock()], []
    rows = [clock.time(lambda: scan(path, columns)) for clock in scans][-1]
    named = digest.time(lambda: DataDigest.of(Source(path, problem)))
    DataDigest.of = lambda source: named  # type: ignore[method-assign]

    def work() -> Certificate:
        return certify(Source(path, problem), candidate, ledger=False, workers=usable_cores())

    for _ in range(TASKS[task].runs):
        runs.append(Clock())
        certificate = runs[-1].time(work)
        scans.append(Clock())
        scans[-1].time(lambda: scan(path, columns))
    with Memory() as memory:  # in a run of its own: looking at memory takes time, and makes the processes wait
        if runs:
            work()
    return {
        "task": task,
        "rows": rows,
        "columns": len(columns),
        "bytes": path.stat().st_size,
        "scan": _medians(scans),
        "scans": [[round(clock.cpu, 3), round(clock.wall, 3)] for clock in scans],
        "digest": [digest.cpu, digest.wall],
        "runs": [[round(clock.cpu, 3), round(clock.wall, 3)] for clock in runs],
        **({"certify": _medians(runs), "megabytes": memory.peak, "verdict": certificate.verdict.sentence} if runs else {}),
    }


def calls(task: str, path: Path, small: Path) -> dict[str, Any]:
    """Certify in this process alone: seconds inside the candidate's own probability calls and in all, and memory."""
    problem = big_problem()
    candidate, _ = candidate_of(task, small)
    named, asked, clock = DataDigest.of(Source(path, problem)), Asked(type(candidate.policy)), Clock()
    DataDigest.of = lambda source: named  # type: ignore[method-assign]
    with Memory() as memory:
        clock.time(lambda: certify(Source(path, problem), candidate, ledger=False))
    alone = [clock.cpu, clock.wall]
    return {"policy": [asked.cpu, asked.wall], "alone": alone, "alone_megabytes": memory.peak}


def _medians(clocks: list[Clock]) -> list[float]:
    return [statistics.median(getattr(clock, kind) for clock in clocks) for kind in ("cpu", "wall")]


def in_own_process(*arguments: str) -> dict[str, Any]:
    """Run this script with other arguments in a fresh process and return what it prints.

    Not as a main module: that would be imported again by every process it starts, as it is not when the command starts them.
    """
    program = "from large_logs import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def write(results: list[dict[str, Any]]) -> None:
    """Record the results."""
    lines = [
        "A Parquet log of ragged episodes (1 to 3 recipes of 1 to 19 doses, about 20 rows), text ids, twelve columns, "
        "propensities of the actions taken only. `certify` as the command runs it, on both cores, with all scopes, gain and "
        "value, and the audit. The scan reads the same columns with `ParquetFile.iter_batches` and does nothing with them. "
        f"Medians of runs ({TASKS['columns'].runs} with target columns) and of the scans around them. Seconds of CPU over all "
        "processes / of the wall; hashing the file is not in them. 'Policy' is the time inside the candidate's own "
        "probability calls in a pass of one process. Memory is the sum over all processes, pages that they share counted once, "
        "looked at in a run that is not timed.",
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
                "one process, MB",
            ],
            [_row(found) for found in results],
        ),
        "",
        *_growth(results),
        *_beyond([found for found in results if found["task"] == "columns"]),
    ]
    record("Large logs", "python benchmarks/large_logs.py", lines)


def _row(found: dict[str, Any]) -> list[str]:
    scanned, asked, done = found["scan"], found["policy"], found["certify"]
    alone = [own / other for own, other in zip(done, scanned, strict=True)]
    both = [own / (other + more) for own, other, more in zip(done, scanned, asked, strict=True)]
    return [
        TASKS[found["task"]].name,
        f"{found['rows']:,}",
        *[_pair(pair) for pair in (scanned, found["digest"], asked, done, alone, both)],
        f"{found['megabytes']:.0f}",
        f"{found['alone_megabytes']:.0f}",
    ]


def _pair(pair: list[float]) -> str:
    return " / ".join(f"{value:.2f}" for value in pair)


def _growth(results: list[dict[str, Any]]) -> list[str]:
    lines = []
    for task, asked in TASKS.items():
        own = [found for found in results if found["task"] == task]
        if len(own) < 2:
            continue
        first, last = own[0], own[-1]
        lines.append(
            f"{asked.name}, from {first['rows']:,} to {last['rows']:,} rows: peak memory "
            f"{last['alone_megabytes'] / first['alone_megabytes'] - 1:+.1%} in one process, "
            f"{last['megabytes'] / first['megabytes'] - 1:+.1%} as the command runs it (one process below "
            f"{2 * CHUNK_ROWS:,} rows, then three)."
        )
        steps = [
            (more["certify"][0] - less["certify"][0]) / (more["rows"] - less["rows"]) for less, more in itertools.pairwise(own)
        ]
        lines.append(f"CPU for each further row, by step: {', '.join(f'{1e9 * step:.0f} ns' for step in steps)}.")
    return lines


def _beyond(results: list[dict[str, Any]]) -> list[str]:
    """Return what larger logs would take, by the costs of each further row."""
    if len(results) < 2:
        return []
    less, more = results[-2:]
    rows = more["rows"] - less["rows"]
    row = (more["certify"][0] - less["certify"][0]) / rows
    size, hashed = more["bytes"] / more["rows"], more["bytes"] / more["digest"][1]
    lines = [
        "",
        f"A row takes {size:.0f} bytes; hashing does {hashed / 1e9:.2f} GB a second. By the costs of each further row:",
        "",
    ]
    wanted = {"a terabyte": 1e12 / size, "10^12 rows": 1e12}
    return [
        *lines,
        *table(
            ["log", "rows", "terabytes", "hours of CPU", "minutes on 100 cores", "hours of hashing, one process"],
            [
                [
                    name,
                    f"{count:.2g}",
                    f"{count * size / 1e12:.3g}",
                    f"{count * row / 3600:.3g}",
                    f"{count * row / 6000:.3g}",
                    f"{count * size / hashed / 3600:.2g}",
                ]
                for name, count in wanted.items()
            ],
        ),
    ]


def main() -> None:
    """Write the logs that are not there yet, measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--measure", nargs=3, metavar=("TASK", "LOG", "SMALL"), help="one measurement, in this process")
    options.add_argument("--calls", nargs=3, metavar=("TASK", "LOG", "SMALL"), help="the candidate's own calls, in this process")
    options.add_argument("--write", nargs=2, metavar=("LOG", "EPISODES"), help="write a log")
    options.add_argument("--most", type=int, default=5_000_000, help="episodes of the largest log to measure")
    options.add_argument("--task", action="append", choices=sorted(TASKS), help="only these")
    options.add_argument("--no-table", action="store_true", help="print only")
    given = options.parse_args()
    limit_blas_threads()
    for work, asked in ((measure, given.measure), (calls, given.calls)):
        if asked:
            print(json.dumps(work(asked[0], Path(asked[1]), Path(asked[2]))))
            return
    if given.write:
        print(json.dumps({"rows": write_big_log(Path(given.write[0]), int(given.write[1]))}))
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    chosen = [(task, size) for task in given.task or TASKS for size in TASKS[task].episodes if size <= given.most]
    logs = {size: FOLDER / f"large-{size}.parquet" for size in (LEARNING, *[size for _, size in chosen])}
    for episodes, path in logs.items():
        if not path.exists():
            in_own_process("--write", str(path), str(episodes))
    results = []
    for task, episodes in chosen:
        where = (task, str(logs[episodes]), str(logs[LEARNING]))
        alone = in_own_process("--calls", *where)
        beside = {"certify": alone["alone"], "megabytes": alone["alone_megabytes"]}  # where both cores were not asked for
        results.append(beside | alone | in_own_process("--measure", *where))
        print(json.dumps(results[-1]), flush=True)
    if not given.no_table:
        write(results)


if __name__ == "__main__":
    main()
