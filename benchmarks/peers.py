"""Side by side with the peers: `python benchmarks/peers.py [--quick] [--only NAME ...]`.

The same data and the same task for either side in one run: times as ratios, and errors against the known truth. Each peer runs in
an environment of its own, made at first use (`peer_envs.py`). What was found of each peer is kept, so that some of them can be
measured anew; a quick run is printed and not kept.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict

from aegis.engine import limit_blas_threads
from peer_bandits import bandit_rows
from peer_envs import ENVIRONMENTS, MissingPeerError
from peer_estimates import obp_rows
from peer_frames import skdr_rows
from peer_graphs import dowhy_rows
from peer_rollouts import scope_rows
from peer_rows import HEAD, WANTED, Row
from peer_sequences import confseq_rows, vw_rows
from results import record, table

Found = tuple[list[Row], dict[str, str], list[str]]  # rows, versions by peer, remarks
PARTS: dict[str, Callable[[bool], Found]] = {
    "obp": obp_rows,
    "vw-estimators": vw_rows,
    "confseq": confseq_rows,
    "scope-rl": scope_rows,
    "skdr-eval": skdr_rows,
    "bandits": bandit_rows,
    "DoWhy": dowhy_rows,
}
KEPT = ENVIRONMENTS / "found"


def lines_of(found: list[Found], missing: list[str]) -> list[str]:
    """Return the section: how it was measured, the table, what does not hold, and remarks."""
    rows = [row for part in found for row in part[0]]
    versions = ", ".join(f"{peer} {version}" for part in found for peer, version in part[1].items())
    failed = [row for row in rows if row.verdict != "holds"]
    wanted = ", ".join(f"{kind} {least:g}" for kind, least in WANTED.items())
    return [
        f"Peers: {versions}. One thread each;",
        "the smallest CPU time (in brackets: wall time) of several calls after a first one; a peer's work of many seconds is",
        f"timed once. Only ratios within a row mean something. Wanted, in times as fast: {wanted};",
        "and errors no larger than theirs, against the known truth of simulated data. Ties count: a ratio wanted to be 1 from",
        "0.95 on; an error up to 1 % larger, and where intervals of both sides are made from draws at random, or of another",
        "formula, up to 2 over the root of the number of resamples (obp) or 15 % (SCOPE-RL).",
        "",
        *table(HEAD, [row.cells() for row in rows]),
        "",
        f"The claim holds in {len(rows) - len(failed)} of {len(rows)} rows; without ties in {sum(row.strictly for row in rows)}.",
        *(line for part in found for line in part[2]),
        *missing,
    ]


def main() -> None:
    """Measure everything and record it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller data, to see whether everything runs; nothing is kept")
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), help="measure some peers anew")
    asked = parser.parse_args()
    limit_blas_threads()
    measured: dict[str, Found] = {}
    missing: dict[str, str] = {}
    for name in asked.only or PARTS:
        begun = time.perf_counter()
        try:
            measured[name] = PARTS[name](asked.quick)
            if not asked.quick:
                keep(name, measured[name])
        except MissingPeerError as error:
            missing[name] = f"Not measured: {name}. {error}."
        print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    if asked.quick:
        print("\n".join(lines_of(list(measured.values()), list(missing.values()))))
        return
    found = {name: measured.get(name) or kept(name) for name in PARTS if name not in missing}
    unknown = [f"Not measured: {name}." for name, part in found.items() if part is None]
    record(
        "Peers", "python benchmarks/peers.py", lines_of([part for part in found.values() if part], [*missing.values(), *unknown])
    )


def keep(name: str, found: Found) -> None:
    """Keep what was found of a peer."""
    KEPT.mkdir(parents=True, exist_ok=True)
    rows, versions, remarks = found
    text = json.dumps({"rows": [asdict(row) for row in rows], "versions": versions, "remarks": remarks})
    (KEPT / f"{name}.json").write_text(text, encoding="utf-8")


def kept(name: str) -> Found | None:
    """Return what was found of a peer the last time, None if it never was measured."""
    path = KEPT / f"{name}.json"
    if not path.exists():
        return None
    found = json.loads(path.read_text(encoding="utf-8"))
    return [Row(**row) for row in found["rows"]], found["versions"], found["remarks"]


if __name__ == "__main__":
    main()
