"""How long all benches take: `python benchmarks/benches.py`. The full results stay in build/bench, for `aegis bench report`.

Both presets start from nothing: a store that is there already is moved aside.
"""

from __future__ import annotations

import argparse
import shutil
import time
from pathlib import Path

from aegis.engine import Local, limit_blas_threads
from aegis.paper import ResultStore, list_benches, load_bench, plan_bench, run_plans
from results import record, table

BUILD = Path(__file__).parents[1] / "build"
ASKED = {"quick": 5, "full": 45}


def measured(preset: str, workers: int) -> list[str]:
    """Run all benches on an empty store and return a row: minutes, failures."""
    folder = BUILD / ("bench" if preset == "full" else "bench-quick")
    shutil.rmtree(folder, ignore_errors=True)
    store, plans = ResultStore(folder), [plan_bench(load_bench(name), preset) for name in list_benches()]
    started = time.perf_counter()
    failures = run_plans(plans, store, Local(workers), lambda done, total, what: print(f"{done}/{total} {what}", flush=True))
    minutes = (time.perf_counter() - started) / 60
    return [preset, f"{minutes:.1f}", str(ASKED[preset]), str(len(failures))]


def main() -> None:
    """Measure and record."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--workers", type=int, default=2)
    given = options.parse_args()
    limit_blas_threads()
    rows = [measured(preset, given.workers) for preset in ASKED]
    head = ["preset", "minutes on two cores", "asked, below", "parts that failed"]
    record("Benches", "python benchmarks/benches.py", [*table(head, rows), "", "What holds and what does not: docs/paper.md."])


if __name__ == "__main__":
    main()
