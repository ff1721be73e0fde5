"""How wide every certificate is, on every world: `python benchmarks/widths.py` runs what is missing and writes the table.

One legacy and one kind of candidate on all worlds; every bound sees the same units. Runs are kept in a folder, one line each, so
that an interrupted measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from aegis.engine import Local, limit_blas_threads
from aegis.files import write_text
from aegis.validation import ValidationTrial, judge_runs, make_trial, run_tasks, stored_runs, timed_progress
from aegis.worlds import WORLDS
from results import machine, record
from widths_page import PAGE, WIDTHS, lines, rewrite_page

FOLDER = Path(__file__).parents[1] / "build" / "widths"
LEGACY, CANDIDATE = "natural:epsilon=0.3", "capped:cap=2"
SIZES = (200, 1000, 5000)
RUNS = 20
PRIOR = 100
DELTA = 0.05
JUDGED = 40_000  # the truth must be known better than the narrowest bound is wide


def trials() -> dict[str, ValidationTrial]:
    """Return all trials by name; the world comes first."""
    return {
        f"{world}, {size}": make_trial(
            world,
            LEGACY,
            CANDIDATE,
            episodes=size,
            prior=PRIOR,
            delta=DELTA,
            judged=JUDGED,
            only_end=True,
            comparator="logger",  # as the stored widths were measured
        )
        for size in SIZES
        for world in WORLDS
    }


def summarise(folder: Path, runs: int) -> dict[str, Any]:
    """Return medians by claim, bound, world and number of units, of the certificates, from the runs there are."""
    found: dict[str, Any] = {}
    least = runs
    for name, trial in trials().items():
        done = {run: result for run, result in stored_runs(name, trial.key, folder).items() if run < runs}
        if not done:
            continue
        least = min(least, len(done))
        world, size = name.split(", ")
        for row in judge_runs(done, DELTA, {}).rows:
            if row.certificate:
                widths = found.setdefault(row.claim, {}).setdefault(row.bound, {}).setdefault(world, {})
                widths[size] = {"width": round(row.width, 5), "above": row.at_end}
    about = {
        "legacy": LEGACY,
        "candidate": CANDIDATE,
        "prior": PRIOR,
        "delta": DELTA,
        "sizes": list(SIZES),
        "worlds": list(WORLDS),
    }
    return {**about, "runs": least, "made": machine(), "widths": found}


def write(content: dict[str, Any]) -> None:
    """Write the results as JSON, as a section of RESULTS.md and into the page on coverage."""
    write_text(WIDTHS, json.dumps(content, indent=1) + "\n")
    record("Widths of certificates", "python benchmarks/widths.py", lines(content))
    if PAGE.exists():
        rewrite_page()


def main() -> None:
    """Run what is missing and write the table."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=RUNS)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--folder", type=Path, default=FOLDER, help="where single runs are kept")
    options.add_argument("--table", action="store_true", help="write the table from the runs there are")
    given = options.parse_args()
    limit_blas_threads()
    if not given.table:
        run_tasks(trials(), given.runs, given.folder, Local(given.workers), timed_progress(lambda line: print(line, flush=True)))
    write(summarise(given.folder, given.runs))


if __name__ == "__main__":
    main()
