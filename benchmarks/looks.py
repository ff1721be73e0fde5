"""False handovers when a log is looked at fifty times, and how tight the bounds are: `python benchmarks/looks.py`.

Every method sees the same logs; at each look it says deploy or not. Those of other packages run in environments of their own.
Runs are kept in a file, one line each, so that an interrupted measurement goes on where it was.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pyarrow as pa

from aegis import certify
from aegis.certificate import Candidate
from aegis.engine import limit_blas_threads
from aegis.files import write_text
from aegis.logs import Source, to_table
from looks_logs import ACTIONS, LOOKS, STOPS, Log, World, draw, worlds
from looks_methods import DELTA, Seen, batch_of, bootstrap, classic, ours, policy_of, problem
from looks_page import COMMITTED, lines, summarise
from looks_vw import by_formula, by_package
from peer_envs import ask
from results import lines_of, record

FILE = Path(__file__).parents[1] / "build" / "looks.jsonl"
EVERY = 5  # slow methods take every fifth look
FEWER: list[int] = STOPS[EVERY - 1 :: EVERY].tolist()

Found = dict[str, dict[str, Seen]]  # by candidate and method


def here(world: World, runs: Iterable[int]) -> Iterator[tuple[int, Found]]:
    """Yield what the methods that need no other package say, run by run."""
    for run in runs:
        log = draw(world, run)
        drawn = bootstrap(world, log, run)
        yield (
            run,
            {
                name: {**classic(world, log, name), "percentile bootstrap": drawn[name], **dict(ours(world, log, name))}
                for name in world.candidates
            },
        )


def skdr(world: World, runs: Iterable[int]) -> Iterator[tuple[int, Found]]:
    """Yield the verdicts of skdr-eval, at every fifth look: by default, and against the mean of the logged rewards."""
    known = list(runs)
    answer = ask(
        "skdr",
        {
            "stops": FEWER,
            "features": world.features.tolist(),
            "actions": ACTIONS,
            "candidates": {name: chances.tolist() for name, chances in world.candidates.items()},
            "logs": [_plain(draw(world, run)) for run in known],
        },
    )
    for run, said in zip(known, answer["logs"], strict=True):
        found: Found = {}
        for name in world.candidates:
            bound = said[-1][name]["lower"]
            found[name] = {
                f"skdr-eval, {title}": _fewer([look[name][kind] == "deploy" for look in said], -1.0 if bound is None else bound)
                for kind, title in (("default", "default verdict"), ("logged", "baseline: logged mean"))
            }
        yield run, found


def anew(world: World, runs: Iterable[int]) -> Iterator[tuple[int, Found]]:
    """Yield what `certify` says if it is run anew on the log as it is at every fifth look, each time at the whole risk."""
    for run in runs:
        log = draw(world, run)
        table: pa.Table = to_table(batch_of(world, log), problem())
        found: Found = {}
        for name in world.candidates:
            candidate = Candidate(policy_of(world, name, world.cap is not None))
            said = [
                certify(Source(table.slice(0, stop), problem()), candidate, delta=DELTA, what=("gain",), ledger=False)
                for stop in FEWER
            ]
            levels = [certificate.levels[0] for certificate in said]
            found[name] = {
                "aegis, certify run anew at each look": _fewer(
                    [level.verdict == "certified" for level in levels], levels[-1].gain_lower
                )
            }
        yield run, found


# How many logs at once, and whether a look takes long, so that fewer logs have to do.
GROUPS = {
    "here": (here, 10, False),
    "vw formula": (by_formula, 20, False),
    "vw": (by_package, 20, True),
    "skdr": (skdr, 2, True),
    "anew": (anew, 5, True),
}


def _fewer(deploys: list[bool], bound: float) -> Seen:
    """Return what was seen, looks counted as if all had been taken."""
    seen = Seen.of(deploys, bound)
    return Seen(None if seen.first is None else EVERY * seen.first, seen.last, seen.bound)


def _plain(log: Log) -> dict[str, Any]:
    return {"kind": log.kind.tolist(), "action": log.action.tolist(), "reward": log.reward.tolist()}


def perform(group: str, world: World, wanted: list[int], file: Path) -> None:
    """Run a group of methods on the logs wanted and keep what they say."""
    method, size, _ = GROUPS[group]
    for start in range(0, len(wanted), size):
        for run, found in method(world, wanted[start : start + size]):
            kept = {name: {title: astuple(seen) for title, seen in each.items()} for name, each in found.items()}
            with file.open("a", encoding="utf-8") as out:
                out.write(json.dumps({"group": group, "world": world.name, "run": run, "found": kept}) + "\n")
        print(group, world.name, f"{min(start + size, len(wanted))}/{len(wanted)}", flush=True)


def stored(file: Path) -> dict[tuple[str, str, int], Mapping[str, Any]]:
    """Return what has been found, by group, world and run."""
    return {(line["group"], line["world"], line["run"]): line["found"] for line in lines_of(file)}


def main() -> None:
    """Measure what is missing and record it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=1000, help="logs of each world")
    options.add_argument("--start", type=int, default=0, help="the first of them, to share the work")
    options.add_argument("--slow", type=int, default=100, help="logs of each world for the methods that take seconds a look")
    options.add_argument("--group", action="append", choices=sorted(GROUPS), help="only these methods")
    options.add_argument("--world", action="append", choices=sorted(worlds()), help="only these worlds")
    options.add_argument("--table", action="store_true", help="write the tables from the runs there are")
    options.add_argument("--file", type=Path, default=FILE)
    given = options.parse_args()
    limit_blas_threads()
    given.file.parent.mkdir(parents=True, exist_ok=True)
    for group in [] if given.table else given.group or list(GROUPS):
        runs = min(given.runs, given.slow) if GROUPS[group][2] else given.runs
        for name, world in worlds().items():
            if not given.world or name in given.world:
                done = stored(given.file)
                perform(group, world, [run for run in range(given.start, runs) if (group, name, run) not in done], given.file)
    content = summarise(stored(given.file), worlds(), LOOKS)
    write_text(COMMITTED, json.dumps(content, indent=1) + "\n")
    record("Looking fifty times", "python benchmarks/looks.py", lines(content))


if __name__ == "__main__":
    main()
