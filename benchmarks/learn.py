"""What candidates learned from a log earn: `python benchmarks/learn.py [--again]`.

A log of 1000 episodes, half of them learned from; then fresh episodes, in which candidate and oracle meet the same noise, so that
their difference is known much better than either value. Rows are kept in learn.json as they are measured (`--again` starts anew);
the table of docs/learn.md is written from them.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aegis.agents import CandidateSettings, learn
from aegis.engine import limit_blas_threads
from aegis.files import write_text
from aegis.logs import Source, write_log
from aegis.policies import Capped
from aegis.problem import Policy, Scope
from aegis.worlds import OraclePolicy, World, make_world, oracle_value, true_value
from results import machine, table

HERE = Path(__file__).parent
FILE, PAGE = HERE / "learn.json", HERE.parent / "docs" / "learn.md"
START, END = "<!-- values: written by benchmarks/learn.py -->", "<!-- end of values -->"
WORLDS, LEGACIES, KINDS = (
    ("additive", "unified", "linear", "clinic", "plant"),
    ("uniform", "natural"),
    ("greedy", "planned", "capped"),
)
EPISODES, JUDGED, FEWER = 1000, 400, 60  # FEWER: of a mixture on three levels, which is slow to ask
LOG_SEED, FRESH_SEED = 5, 77


def measured(name: str, legacy: str) -> dict[str, Any]:
    """Return what legacy, candidates and oracle earn per decision; of candidates with the standard error."""
    world = make_world(name)
    behaviour = world.legacy(legacy)
    best = oracle_value(world)
    found: dict[str, Any] = {"world": name, "legacy": legacy, "legacy_value": true_value(world, behaviour), "best": best}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_log(world.episodes(0, EPISODES, behaviour, LOG_SEED), world.problem, path)
        for kind in KINDS:
            learned = learn(Source(path, world.problem), settings=CandidateSettings(kind))
            policy: Policy = learned.policy
            if kind == "capped":  # in a simulation the legacy is asked, not looked up in a log
                policy = Capped(world.problem, learned.rewards, behaviour, 2.0, Scope(world.problem.names))
            judged = FEWER if kind == "planned" and len(world.problem.levels) > 2 else JUDGED
            shortfall, error = against_oracle(world, policy, judged)
            found[kind] = {"value": best - shortfall, "error": error, "episodes": judged, "plug_in": learned.plug_in}
    return found


def against_oracle(world: World, policy: Policy, episodes: int) -> tuple[float, float]:
    """Return by how much the oracle earns more per decision on the same noise, and the standard error of that."""
    means = []
    for acting in (OraclePolicy(world), policy):
        batch = world.episodes(10_000, episodes, acting, FRESH_SEED)
        means.append(batch.episode_means(batch.reward))  # type: ignore[arg-type]
    apart = means[0] - means[1]
    return float(apart.mean()), float(apart.std(ddof=1) / math.sqrt(episodes))


def value_lines(content: Mapping[str, Any]) -> list[str]:
    """Return the table of the page."""
    head = ["world", "legacy", "it earns", *KINDS[:2], "capped, W = 2", "best possible"]
    rows = [
        [
            row["world"],
            row["legacy"],
            f"{row['legacy_value']:.3f}",
            *[f"{row[kind]['value']:.3f} ± {row[kind]['error']:.3f}" for kind in KINDS],
            f"{row['best']:.3f}",
        ]
        for row in content["rows"]
    ]
    return table(head, rows)


def rewrite_page(content: Mapping[str, Any]) -> None:
    """Put the table between its marks."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
    _, _, after = rest.partition(END)
    write_text(PAGE, "\n".join([before + START, "", *value_lines(content), "", END + after]))


def main() -> None:
    """Measure what is missing, and write the page."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--again", action="store_true", help="measure everything anew")
    again = options.parse_args().again
    limit_blas_threads()
    rows: list[dict[str, Any]] = [] if again or not FILE.exists() else json.loads(FILE.read_text(encoding="utf-8"))["rows"]
    for name in WORLDS:
        for legacy in LEGACIES:
            if not any((row["world"], row["legacy"]) == (name, legacy) for row in rows):
                rows.append(measured(name, legacy))
                print(json.dumps(rows[-1]), flush=True)
                content = {"command": "python benchmarks/learn.py", "machine": machine(), "episodes": EPISODES, "rows": rows}
                write_text(FILE, json.dumps(content, indent=1) + "\n")
    rewrite_page(json.loads(FILE.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
