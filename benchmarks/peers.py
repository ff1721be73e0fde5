"""Side by side with the peers: `python benchmarks/peers.py [--quick] [--only NAME ...]`.

The same data and the same task for either side in one run: times as ratios, and errors against the known truth. Each peer runs in
an environment of its own, made at first use (`peer_envs.py`). A part of the run, or a quick one, is printed and not recorded.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

from aegis.engine import one_thread
from peer_bandits import bandit_rows
from peer_envs import MissingPeerError
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
        "and errors no larger than theirs, against the known truth of simulated data.",
        "",
        *table(HEAD, [row.cells() for row in rows]),
        "",
        f"The claim holds in {len(rows) - len(failed)} of {len(rows)} rows.",
        *(line for part in found for line in part[2]),
        *missing,
    ]


def main() -> None:
    """Measure everything and record it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller data, to see whether everything runs; nothing is recorded")
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), help="some peers; nothing is recorded")
    asked = parser.parse_args()
    one_thread()
    found: list[Found] = []
    missing: list[str] = []
    for name in asked.only or PARTS:
        begun = time.perf_counter()
        try:
            found.append(PARTS[name](asked.quick))
        except MissingPeerError as error:
            missing.append(f"Not measured: {name}. {error}.")
        print(f"{name}: {time.perf_counter() - begun:.0f} s", flush=True)
    lines = lines_of(found, missing)
    if asked.quick or asked.only:
        print("\n".join(lines))
    else:
        record("Peers", "python benchmarks/peers.py", lines)


if __name__ == "__main__":
    main()
