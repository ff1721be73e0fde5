"""How often the audit finds planted interference, and how often it refuses logs in order: the rates of docs/claims.md.

`make soak` runs it; `python tests/soak/test_soak_audit.py` prints the table.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))

from interference_logs import ATTACKS, IN_ORDER, TRUTHS, UNSEEN
from scipy.stats import binom
from soak_size import choose

from aegis.audit import audit_log
from aegis.certificate import certify
from aegis.logs import Source, to_table
from aegis.policies import Function
from aegis.problem import Array, Level, Rows
from aegis.rng import stream
from aegis.worlds import make_world

pytestmark = pytest.mark.soak
RUNS = choose(40, 6)
MOST = int(binom.ppf(0.99, RUNS, 0.05))  # 5 of 40, 2 of 6
CLEAN_RUNS = choose(100, 10)
MOST_CLEAN = 4  # of 400: 1 %
NEW = ("siblings-interfere", "neighbours-interfere", "cluster-interferes")
WORLDS = ("additive", "unified", "clinic", "plant")


def second(level: Level, rows: Rows) -> Array:
    return np.tile([0.0, 1.0], (len(rows["x"]), 1))


def attacked(name: str) -> Counter[str]:
    """Return what became of forty logs: refused or certified, and certified without the warning."""
    make, codes, _ = {**ATTACKS, **UNSEEN}[name]
    found: Counter[str] = Counter()
    for run in range(RUNS):
        table, problem = make(stream(run, "interference", name))
        certificate = certify(Source(table, problem), Function(problem, second), what=["gain"], ledger=False)
        seen = {item["code"] for item in certificate.findings} & set(codes.split())
        found["found"] += bool(seen)
        found[certificate.verdict.verdict] += 1
        found["certified in silence"] += certificate.verdict.verdict == "certified" and not seen
    return found


def refused_in_order(runs: int) -> Counter[str]:
    """Return how many logs in order each new test refuses: of four legacies and of four worlds, as many of each."""
    found: Counter[str] = Counter()
    for run in range(runs):
        for name, make in IN_ORDER.items():
            table, problem = make(stream(run, "in order", name))
            found.update({item.code for item in audit_log(Source(table, problem)).refused})
        for name in WORLDS:
            world = make_world(name)
            batch = world.episodes(0, 200, world.legacy(("natural", "uniform")[run % 2]), 900 + run)
            found.update({item.code for item in audit_log(Source(to_table(batch, world.problem), world.problem)).refused})
    return found


@pytest.mark.parametrize("name", ATTACKS)
def test_few_attacks_are_certified_in_silence(name: str) -> None:
    assert attacked(name)["certified in silence"] <= MOST


def test_logs_in_order_are_hardly_ever_refused() -> None:
    found = refused_in_order(CLEAN_RUNS // 2)
    assert all(found[code] <= MOST_CLEAN for code in NEW)


if __name__ == "__main__":
    for name in (*ATTACKS, *UNSEEN):
        print(name, f"{TRUTHS[name]:+.3f}", dict(attacked(name)), flush=True)
    print("refused of 400 in order:", dict(refused_in_order(CLEAN_RUNS // 2)))
