"""Coverage of every bound by replication: `python benchmarks/coverage.py` runs what is missing and writes the tables.

Runs are kept in a folder, one line each, so that a study goes on where it was interrupted; a run depends on its number alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from aegis.engine import Local, limit_blas_threads
from aegis.files import json_digest, write_text
from aegis.validation import Task, run_tasks, stored_runs, timed_progress
from coverage_gates import gates
from coverage_page import CERTIFICATES, COVERAGE, coverage_lines, rewrite_page
from coverage_studies import studies
from coverage_study import ClaimOutcome, Study, joint_violations, replicate, violation_rates
from results import machine, record

HERE = Path(__file__).parent
FOLDER = HERE.parent / "build" / "coverage"
DELTA = 0.05


@dataclass(frozen=True, slots=True)
class Named:
    """A study by its name: what another process needs to know."""

    name: str

    @property
    def key(self) -> str:
        """Return the digest of the study."""
        return digest(studies()[self.name])

    def prepare(self) -> Callable[[int], list[dict[str, Any]]]:
        """Return what does one run."""
        study = studies()[self.name]
        oracle = study.oracle()
        return lambda run: [asdict(outcome) for outcome in replicate(study, oracle, run)]


def digest(study: Study) -> str:
    """Return what tells one study from another whose runs must not be mixed with its own."""
    learner = getattr(study.learner, "__name__", None) or repr(vars(study.learner))
    kept = [study.comparator, study.others, study.rated, study.totals, study.taken_only, study.guarded, study.clustered]
    asked = [study.methods, study.scopes, study.what, study.known_gain]
    size = [study.episodes, study.delta, study.oracle_episodes, study.seed]
    return json_digest([repr(study.world), study.legacy, learner, *size, *kept, *asked])


def stored(name: str, folder: Path) -> list[ClaimOutcome]:
    """Return the outcomes of a study that are on disk, by run."""
    found = stored_runs(name, Named(name).key, folder)
    return [ClaimOutcome(**{**item, "scope": tuple(item["scope"])}) for run in found for item in found[run]]


def replicate_all(names: Iterable[str], runs: int, folder: Path, workers: int) -> None:
    """Run the runs of the studies that are missing, and say how far it is."""
    watched = gates()
    tasks: dict[str, Task] = {name: watched[name] if name in watched else Named(name) for name in names}
    run_tasks(tasks, runs, folder, Local(workers), timed_progress(lambda line: print(line, flush=True)))


def summarise(folder: Path) -> None:
    """Write the results of all runs there are as JSON, as a section of RESULTS.md and into the page on coverage.

    A study or a gate without runs in the folder keeps the results it had.
    """
    before = json.loads(COVERAGE.read_text(encoding="utf-8")) if COVERAGE.exists() else {}
    found: dict[str, Any] = {}
    for name, study in studies().items():
        outcomes = stored(name, folder)
        if outcomes:
            found[name] = _study(study, outcomes)
        elif name in before.get("studies", {}):
            found[name] = {"made": before["made"], **before["studies"][name]}
    watched: dict[str, Any] = {}
    for name, gate in gates().items():
        runs = stored_runs(name, gate.key, folder)
        if runs:
            lines = [line for run in runs.values() for line in run]
            wrong, other = (sum(line[key] for line in lines) for key in ("wrong", "other"))
            watched[name] = {"runs": len(lines), "wrong": wrong, "other": other, "made": machine()}
        elif name in before.get("gates", {}):
            watched[name] = before["gates"][name]
    content = {"delta": DELTA, "made": machine(), "studies": found, "gates": watched}
    write_text(COVERAGE, json.dumps(content, indent=1) + "\n")
    record("Coverage", "python benchmarks/coverage.py", coverage_lines(content))
    if CERTIFICATES.exists():
        rewrite_page()


def _study(study: Study, outcomes: list[ClaimOutcome]) -> dict[str, Any]:
    """Return the results of a study as plain data."""
    claims, joint = violation_rates(outcomes, DELTA), joint_violations(outcomes)
    return {
        "world": study.world.name,
        "legacy": study.legacy,
        "comparator": study.comparator,
        "episodes": study.episodes,
        "runs": claims[0].runs,
        "made": machine(),
        "together": {method: {"violations": bad, "runs": runs} for method, (bad, runs) in joint.items()},
        "claims": [claim.plain() for claim in claims],
    }


def main() -> None:
    """Run what is missing and write the tables."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--study", action="append", choices=[*studies(), *gates()], help="only this one; may be repeated")
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--folder", type=Path, default=FOLDER, help="where single runs are kept")
    options.add_argument("--no-table", action="store_true", help="run only")
    options.add_argument("--table", action="store_true", help="write the tables from the runs there are")
    given = options.parse_args()
    limit_blas_threads()
    if not given.table:
        replicate_all(given.study or [*studies(), *gates()], given.runs, given.folder, given.workers)
    if not given.no_table:
        summarise(given.folder)


if __name__ == "__main__":
    main()
