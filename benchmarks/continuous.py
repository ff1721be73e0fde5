"""Actions on an interval: `python benchmarks/continuous.py [--runs 1000]`: coverage, tightness against bins, and CATS.

Runs are kept in build/continuous.jsonl, one line for each, so that what was interrupted goes on; `--fresh` starts again.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

from aegis.engine import limit_blas_threads
from aegis.validation import Oracle
from continuous_cats import LOGS, SETTINGS, USUAL, compared
from continuous_runs import EPISODES, run, study_of
from coverage_study import Study
from peer_envs import MissingPeerError
from results import lines_of, record, table

FILE = Path(__file__).parents[1] / "build" / "continuous.jsonl"
STUDIES = ("cut, relearned", "clip, relearned", "null, cut", "null, clip")
STEP = 10
TITLE = "Continuous actions"


@cache
def _prepared(name: str) -> tuple[Study, Oracle]:
    limit_blas_threads()
    study = study_of(name)
    return study, study.oracle()


def some(task: tuple[str, int, int]) -> list[dict[str, Any]]:
    """Do some runs of a study."""
    name, first, count = task
    study, oracle = _prepared(name)
    return [{"study": name, **found} for number in range(first, first + count) for found in run(study, oracle, number)]


def collected(runs: int, workers: int, fresh: bool) -> list[dict[str, Any]]:
    """Return all runs of all studies, those that are kept and those that are missing."""
    if fresh:
        FILE.unlink(missing_ok=True)
    FILE.parent.mkdir(exist_ok=True)
    kept = lines_of(FILE)
    done = {(line["study"], line["run"]) for line in kept}
    tasks = [(name, first, STEP) for first in range(0, runs, STEP) for name in STUDIES if (name, first + STEP - 1) not in done]
    with ProcessPoolExecutor(workers) as pool, FILE.open("a", encoding="utf-8") as file:
        for found in pool.map(some, tasks):
            file.write("".join(json.dumps(line) + "\n" for line in found))
            file.flush()
            kept += found
    return [line for line in {(x["study"], x["run"], x["form"], x["what"]): x for x in kept}.values() if line["run"] < runs]


def of(lines: Sequence[dict[str, Any]], study: str, form: str, what: str) -> dict[int, dict[str, Any]]:
    """Return the lines of a study by run."""
    return {x["run"]: x for x in lines if (x["study"], x["form"], x["what"]) == (study, form, what)}


def coverage_rows(lines: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return one row for each study and claim."""
    rows = []
    for name in STUDIES:
        for what in ("gain",) if name.startswith("null") else ("gain", "value"):
            found = list(of(lines, name, "continuous", what).values())
            above = sum(x["above"] for x in found)
            p = binomtest(above, len(found), 0.05, alternative="greater").pvalue
            middle = [float(np.median([x[key] for x in found])) for key in ("truth", "bound", "moved")]
            rows.append([f"{name}: {what}", str(len(found)), f"{100 * above / len(found):.1f} %", f"{p:.2g}",
                         f"{middle[0]:.4f}", f"{middle[1]:.4f}", f"{middle[2]:.2f}"])  # fmt: skip
    return rows


def tightness_rows(lines: Sequence[dict[str, Any]]) -> list[list[str]]:
    """Return the medians of the bounds, continuous and binned, and how often the continuous one is at least as high."""
    rows = []
    for what in ("gain", "value"):
        own = of(lines, STUDIES[0], "continuous", what)
        for form in ("binned", "binned, all cells logged"):
            other = of(lines, STUDIES[0], form, what)
            pairs = [(own[number]["bound"], other[number]["bound"]) for number in other]
            ours, theirs = (float(np.median([pair[side] for pair in pairs])) for side in (0, 1))
            share = np.mean([one >= two for one, two in pairs])
            apart = [one - two for one, two in pairs]
            error = float(np.std(apart) / np.sqrt(len(apart)))
            rows.append(
                [what, form, f"{ours:.4f}", f"{theirs:.4f}", f"{np.mean(apart):+.4f} ± {error:.4f}", f"{100 * share:.0f} %"]
            )
    return rows


def cats_lines() -> list[str]:
    """Return the comparison with CATS; why there is none, if it cannot be had."""
    try:
        found = compared()
    except MissingPeerError as error:
        return ["", f"CATS could not be compared: {error}"]
    rows = []
    for size in dict.fromkeys(row["size"] for row in found["rows"]):
        own = [row for row in found["rows"] if row["size"] == size]
        cats = np.array([row["cats"] for row in own])
        best = cats.mean(axis=0).argmax()
        rows.append([str(size), _mean([row["aegis"] for row in own]), _mean(cats[:, USUAL]), _mean(cats[:, best]),
                     _mean([row["aegis bound"] for row in own]), _mean([row["cats bound"] for row in own])])  # fmt: skip
    head = ["episodes of the log", "aegis learn, value", "CATS, value", "CATS, best of 6 settings, value",
            "aegis learn, certified gain", "CATS, gain certified by us"]  # fmt: skip
    settings = ", ".join(f"`{options}` x {passes}" for options, passes in SETTINGS)
    return [
        "",
        f"Vowpal Wabbit {found['version']}, `--cats_pdf 16`, one pass, against `aegis learn --kind greedy`: means over {LOGS} "
        "logs of what each learned from one half of a log, both smoothed to the same width, with standard errors. The legacy "
        f"earns {found['legacy']:.4f}, the best smoothed policy {found['best']:.4f}. Settings of CATS that were tried (passes): "
        f"{settings}; the best one is chosen by the truth, in its favour. CATS gives a policy and a running average of its cost "
        "on the way, no bound; its density is certified on the other half of the log like any other target column.",
        "",
        *table(head, rows),
    ]


def _mean(values: Any) -> str:
    found = np.asarray(values, dtype=np.float64)
    return f"{found.mean():.4f} ± {found.std() / np.sqrt(found.size):.4f}"


def main() -> None:
    """Run what is missing and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--fresh", action="store_true")
    given = options.parse_args()
    started = time.perf_counter()
    lines = collected(given.runs, given.workers, given.fresh)
    head = [
        "study: claim",
        "runs",
        "ever above the truth",
        "p of 5 % or less",
        "median truth",
        "median bound",
        "mean of abs(w - 1)",
    ]
    forms = ["claim", "against", "median bound, continuous", "median bound, binned", "mean difference", "at least as high"]
    text = [
        f"Dosing world, {EPISODES} courses of 4 doses, 70 % of them certified on; the legacy draws from a Gaussian that is cut "
        "to the interval or clipped to it; the candidate is learned anew in every run, greedy over 41 points or a number of its "
        "own in turn. Under `null` a fixed dose that earns exactly what the legacy earns, on all courses. Rewards scaled to "
        "[0, 1], risk 5 % for each claim; a bound is above the truth if it was at any number of units, two standard errors of "
        "the truth counted against it.",
        "",
        *table(head, coverage_rows(lines)),
        "",
        "The same candidates and units after binning the dose into 21 cells (three cells are as wide as a window): with the "
        "probability of the cell taken, which is what a logged density amounts to, and with those of all cells, which says more "
        "than a density at the dose taken and allows water-filled bets.",
        "",
        *table(forms, tightness_rows(lines)),
        *cats_lines(),
        "",
        f"{(time.perf_counter() - started) / 60:.0f} minutes, {given.workers} processes, beside other work.",
    ]
    record(TITLE, "python benchmarks/continuous.py", text)


if __name__ == "__main__":
    main()
