"""Declared shares that are not those of the log: the audit says in which order they stand."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from aegis.audit import audit_log
from aegis.logs import Source
from aegis.problem import parse_problem

PROBLEM = """
episode: case
reward: {{column: gain, range: [0, 1]}}
levels:
  - name: arm
    action: {{column: arm, values: [old, new]}}
    propensity: {{shares: [{}]}}
"""


def audited(shares: str) -> list[tuple[str, str]]:
    rng = np.random.default_rng(3)
    arm = np.where(rng.random(400) < 0.8, "old", "new")
    table = pa.table({"case": np.arange(400), "arm": arm, "gain": rng.random(400)})
    found = audit_log(Source(table, parse_problem(PROBLEM.format(shares))))
    return [(item.code, item.fix) for item in found.findings if item.severity == "refused"]


def test_swapped_shares_are_refused_with_their_order() -> None:
    assert audited("0.8, 0.2") == []
    ((code, fix),) = audited("0.2, 0.8")
    assert code == "miscalibrated-propensities"
    assert "order of the action's values (declared: old 0.2, new 0.8)" in fix and "coin" in fix
