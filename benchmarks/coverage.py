"""Coverage of every bound by replication: `python benchmarks/coverage.py` runs what is missing and writes the tables.

Runs are kept in a folder, one line each, so that a study goes on where it was interrupted; a run depends on its number alone.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

from aegis.engine import map_parts, one_thread
from aegis.errors import InputError
from aegis.files import digest_of, write_text
from aegis.validation import Outcome, Study, coverage, rates, together
from coverage_page import CERTIFICATES, COVERAGE, coverage_lines, rewrite_page
from coverage_studies import studies
from results import machine, record

HERE = Path(__file__).parent
FOLDER = HERE.parent / "build" / "coverage"
DELTA = 0.05
CHUNK = 25


def digest(study: Study) -> str:
    """Return what tells one study from another whose runs must not be mixed with its own."""
    learner = getattr(study.learner, "__name__", None) or repr(vars(study.learner))
    return digest_of([repr(study.world), study.legacy, learner, study.episodes, study.delta, study.oracle_episodes, study.seed])


def stored(name: str, folder: Path) -> list[Outcome]:
    """Return the outcomes of a study that are on disk, by run; a line that was cut off by an interruption is left out."""
    path = folder / f"{slug(name)}.jsonl"
    found: dict[int, list[Outcome]] = {}
    for text in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        if line["study"] != digest(studies()[name]):
            raise InputError(f"{path}: holds runs of a study with other settings; move it away and start anew")
        found[line["run"]] = [Outcome(**{**item, "scope": tuple(item["scope"])}) for item in line["outcomes"]]
    return [outcome for run in sorted(found) for outcome in found[run]]


def chunk(part: tuple[str, tuple[int, ...]]) -> tuple[str, list[Outcome]]:
    """Run a few runs of a study; what one process does at a time."""
    name, runs = part
    return name, coverage(studies()[name], runs)


def replicate_all(names: Iterable[str], runs: int, folder: Path, workers: int) -> None:
    """Run the runs of the studies that are missing, and say how far it is."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = []
    for name in names:
        done = {outcome.run for outcome in stored(name, folder)}
        left = [run for run in range(runs) if run not in done]
        missing += [(name, tuple(left[start : start + CHUNK])) for start in range(0, len(left), CHUNK)]
    started = time.perf_counter()
    for place, (name, outcomes) in enumerate(map_parts(chunk, missing, workers), 1):
        append(name, outcomes, folder)
        elapsed = time.perf_counter() - started
        left = elapsed / place * (len(missing) - place)
        print(f"{name}: run {outcomes[-1].run + 1} of {runs}; {place}/{len(missing)} parts, {left / 60:.1f} min left", flush=True)


def append(name: str, outcomes: list[Outcome], folder: Path) -> None:
    """Add the outcomes of some runs to the file of a study."""
    by_run: dict[int, list[Outcome]] = {}
    for outcome in outcomes:
        by_run.setdefault(outcome.run, []).append(outcome)
    key = digest(studies()[name])
    with (folder / f"{slug(name)}.jsonl").open("a", encoding="utf-8") as file:
        for run, found in by_run.items():
            file.write(json.dumps({"study": key, "run": run, "outcomes": [asdict(item) for item in found]}) + "\n")


def slug(name: str) -> str:
    """Return a file name."""
    return name.replace(",", "").replace(" ", "-")


def summarise(folder: Path) -> None:
    """Write the results of all runs there are as JSON, as a section of RESULTS.md and into the page on coverage."""
    found: dict[str, object] = {}
    for name, study in studies().items():
        outcomes = stored(name, folder)
        if not outcomes:
            continue
        claims = rates(outcomes, DELTA)
        joint = together(outcomes)
        found[name] = {
            "world": study.world.name,
            "legacy": study.legacy,
            "episodes": study.episodes,
            "runs": claims[0].runs,
            "together": {method: {"violations": bad, "runs": runs} for method, (bad, runs) in joint.items()},
            "claims": [claim.plain() for claim in claims],
        }
    content = {"delta": DELTA, "made": machine(), "studies": found}
    write_text(COVERAGE, json.dumps(content, indent=1) + "\n")
    record("Coverage", "python benchmarks/coverage.py", coverage_lines(content))
    if CERTIFICATES.exists():
        rewrite_page()


def main() -> None:
    """Run what is missing and write the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--study", action="append", choices=list(studies()), help="only this one; may be repeated")
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--folder", type=Path, default=FOLDER, help="where single runs are kept")
    options.add_argument("--no-table", action="store_true", help="run only")
    options.add_argument("--table", action="store_true", help="write the tables from the runs there are")
    given = options.parse_args()
    one_thread()
    if not given.table:
        replicate_all(given.study or list(studies()), given.runs, given.folder, given.workers)
    if not given.no_table:
        summarise(given.folder)


if __name__ == "__main__":
    main()
