"""A log whose propensities follow earlier rewards is compared on the units that `certify` uses: the earliest place the bets."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from aegis.agents import CandidateSettings, learn
from aegis.certificate import certify
from aegis.comparison import ComparisonSettings, compare
from aegis.errors import RefusedError
from aegis.logs import Source, Split
from aegis.policies import Function
from aegis.problem import Array, Level, Problem, Rows, parse_problem
from aegis.rng import stream

PROBLEM = """
episode: k
{head}
reward: {{column: r, range: [0, 1]}}
levels:
  - name: act
    context: [x]
    action: {{column: a, values: [0, 1]}}
    propensity: {{columns: [p0, p1]}}
"""


def moving() -> pa.Table:
    """Return a log whose legacy takes an action again after it earned more than usual."""
    rng = stream(4, "a legacy that follows rewards")
    count = 600
    action, reward, chance = np.zeros(count, dtype=np.int64), np.zeros(count), np.full(count, 0.5)
    for place in range(count):
        if place:
            stay = 0.8 if reward[place - 1] > 0.5 else 0.3
            chance[place] = stay if action[place - 1] else 1.0 - stay
        action[place] = rng.random() < chance[place]
        reward[place] = np.clip(0.4 + 0.2 * action[place] + 0.2 * rng.normal(), 0.0, 1.0)
    return pa.table({"k": np.arange(count), "x": rng.random(count), "a": action, "p0": 1 - chance, "p1": chance, "r": reward})


def problem_of(head: str = "") -> Problem:
    return parse_problem(PROBLEM.format(head=head))


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
