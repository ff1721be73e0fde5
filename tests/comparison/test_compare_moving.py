"""A log whose propensities follow earlier rewards is compared on the units that `certify` uses: the earliest place the bets."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from aegis.agents import CandidateSettings, learn
from aegis.certificate import certify
from aegis.comparison import ComparisonSettings, compare
from aegis.errors import RefusedError
from aegis.logs import Source, Split
from aegis.policies import Function
from aegis.problem import Array, Level, Rows
from aegis.rng import stream

sys.path.insert(0, str(Path(__file__).parents[1] / "audit"))

from interference_logs import following, problem_of


def moving() -> pa.Table:
    """Return a log whose legacy takes an action again after it earned more than usual."""
    return following(stream(4, "a legacy that follows rewards"), 600)[0]


def second(level: Level, rows: Rows) -> Array:
    return np.tile([0.1, 0.9], (len(rows["x"]), 1))


@pytest.mark.parametrize(
    ("head", "words"), [("time: k", "in time, before 30"), ("", "the first 30 units, in the order of the log")]
)
def test_the_earliest_units_place_the_bets(head: str, words: str) -> None:
    source = Source(moving(), problem_of(head))
    policy = Function(source.problem, second)
    certificate = certify(source, policy, ledger=False)
    assert "propensities-move" in [item["code"] for item in certificate.findings]
    found = compare(source, policy, settings=ComparisonSettings(posterior=True), ledger=False)
    assert (found.units, found.prior_units) == (certificate.verdict.units, 30) == (570, 30)
    assert any(words in str(bound.provenance) for bound in found.bounds)
    lacking = {item.method for item in found.missing}
    assert ("PRISM, posterior Q" in lacking) == (head == "")


def test_a_policy_learned_from_a_split_by_hash_is_not_compared() -> None:
    source = Source(moving(), problem_of("time: k"))
    learned = learn(source, Split(), CandidateSettings("greedy"))
    with pytest.raises(RefusedError, match="split by hash"):
        compare(source, learned, ledger=False)
