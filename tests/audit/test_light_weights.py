"""A candidate known at the actions taken only: its weights tell that it leaves the support, or takes what is not available."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from aegis.audit import Audit, audit_log
from aegis.logs import Source
from aegis.policies import TargetColumns
from aegis.problem import parse_problem
from aegis.rng import stream

PROBLEM = parse_problem(
    """
episode: k
reward: {column: r, range: [0, 1]}
levels:
  - name: act
    context: [x]
    action: {column: a, values: [u, v, w]}
    available: [cu, cv, cw]
    propensity: {columns: [pu, pv, pw]}
"""
)


def audited(candidate: list[float], spread: bool, count: int = 400, seed: int = 1) -> Audit:
    """Audit a candidate with the same distribution everywhere; spread: over available actions only."""
    rng = stream(seed, "light weights")
    can = np.stack([np.ones(count, bool), np.ones(count, bool), rng.random(count) < 0.3], axis=1)
    p = np.where(can[:, 2:], [0.4, 0.4, 0.2], [0.5, 0.5, 0.0])
    a = (rng.random((count, 1)) > p.cumsum(axis=1)[:, :2]).sum(axis=1)
    q = np.tile(candidate, (count, 1))
    q = q * can / (q * can).sum(axis=1, keepdims=True) if spread else q
    columns = {"k": np.arange(count), "x": rng.random(count), "a": np.array(["u", "v", "w"])[a], "r": rng.random(count)}
    columns |= {f"c{name}": can[:, place] for place, name in enumerate("uvw")}
    columns |= {f"p{name}": p[:, place] for place, name in enumerate("uvw")} | {"q": q[np.arange(count), a]}
    return audit_log(Source(pa.table(columns), PROBLEM), TargetColumns(PROBLEM, {"act": "q"}), columns=("q",))


def test_probability_on_unavailable_actions_is_noticed_by_the_mean_of_weights() -> None:
    found = [item for item in audited([0.05, 0.05, 0.9], spread=False).findings if item.code == "outside-support"]
    assert len(found) == 1 and found[0].severity == "warning" and "or that are not available" in found[0].message
    assert found[0].figures["share"] == pytest.approx(0.63, abs=0.2)


def test_candidates_that_stay_within_what_is_available_are_not_warned_about() -> None:
    for seed in range(20):
        assert "outside-support" not in audited([0.2, 0.5, 0.3], spread=True, seed=seed).codes()
    assert "outside-support" not in audited([0.05, 0.05, 0.9], spread=False, count=50).codes()
