"""What share of the processor time is Python, what compiled code, and where it goes: `python benchmarks/profiles.py [JOB ...]`.

Each job runs in a process of its own, one after the other, under a sampling profiler (`profile_runs.py`) that has an
environment of its own. Writes a section of RESULTS.md; with jobs named, only prints them.
"""

from __future__ import annotations

import argparse

from aegis.engine import limit_blas_threads
from profile_jobs import JOBS
from profile_runs import RATE, profiled
from profile_stacks import CALLS, PYTHON, Profile
from results import record, table

SECONDS = 20.0
AIM = 0.10
PLACES = 10
PARTS = (PYTHON, CALLS, "numpy", "BLAS, LAPACK", "scipy", "Arrow", "hashing", "files")

COUNTED = (
    f"Shares of processor time by part, from {RATE} samples a second of every running thread for {SECONDS:.0f} seconds or more",
    "(whole rounds of the job), after a first round that is not counted (imports, caches). The innermost frame decides:",
    "",
    "- Python: the interpreter with its objects, dictionaries and allocator, the standard library, and every extension not named",
    "  below (json, yaml, pydantic).",
    "- calls of numpy and Arrow: compiled, but no arithmetic on elements. Taking arguments apart, finding types and loops,",
    "  making and freeing arrays (returning a large one to the system is in it), and Arrow's Cython. With many small arrays",
    "  this is the price of Python too; with few large ones it is the price of memory.",
    "- numpy, BLAS and LAPACK (with scipy's wrappers of them), scipy, Arrow (its own threads included), hashing, files: loops in",
    "  compiled code.",
    "",
    "A frame of the C library or of the system (copying, page faults) counts for its caller. Waiting threads are left out.",
    "The last column is a second opinion: of the samples that perf takes by processor time, those inside the interpreter's",
    "library. It also counts what numpy asks of the interpreter, and not what the interpreter asks of the C library.",
)


def shares(found: dict[str, Profile]) -> list[str]:
    """Return the table of shares."""
    rows = []
    for job, profile in found.items():
        parts = [_percent(profile.share(part)) for part in PARTS]
        rows.append([JOBS[job][0], str(profile.samples), *parts, "" if profile.perf is None else _percent(profile.perf)])
    return table(["job", "samples", *PARTS, "libpython by perf"], rows)


def verdict(found: dict[str, Profile]) -> str:
    """Return which jobs meet the aim and which do not."""
    larger = {job: max(own.share(PYTHON), own.perf or 0.0) for job, own in found.items()}
    above = [f"{JOBS[job][0]} ({_percent(share)})" for job, share in larger.items() if share >= AIM]
    return f"The aim is a share of Python below {_percent(AIM)} by both counts. Above it: {'; '.join(above) or 'none'}."


def places(job: str, profile: Profile) -> list[str]:
    """Return the table of the hottest functions of a job, callees outside aegis included, and its hottest compiled functions."""
    rows = [
        [place, _percent(count / profile.samples), _percent(profile.python[place] / profile.samples)]
        for place, count in profile.places.most_common(PLACES)
    ]
    leaves = ", ".join(f"{leaf} {_percent(count / profile.samples)}" for leaf, count in profile.leaves.most_common(5))
    head = [f"{JOBS[job][0]}: place", "share", "of it Python"]
    return [*table(head, rows), "", f"Hottest compiled functions: {leaves}.", ""]


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def main() -> None:
    """Profile and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("jobs", nargs="*", metavar="JOB", help=f"one or more of {', '.join(JOBS)}; default: all, recorded")
    options.add_argument("--seconds", type=float, default=SECONDS)
    given = options.parse_args()
    limit_blas_threads()
    found = {}
    for job in given.jobs or JOBS:
        found[job] = profiled(job, given.seconds)
        print("\n".join([*shares({job: found[job]}), "", *places(job, found[job])]), flush=True)
    if given.jobs:
        return
    lines = [*COUNTED, "", *shares(found), "", verdict(found), ""]
    lines += [
        "The hottest places of each job: the innermost function of aegis in a sample, with all that it calls outside aegis.",
        "",
    ]
    for job, profile in found.items():
        lines += places(job, profile)
    record("Profiles", "python benchmarks/profiles.py", lines[:-1])


if __name__ == "__main__":
    main()
