"""Clusters whose id is made of several columns: the same units as with one column that holds both."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pytest
from small_logs import better_policy, make_table, problem_of, source_of

from aegis.audit import audit_log
from aegis.certificate import REFUSED, Candidate, certify
from aegis.logs import Split, learning_record

ONE, TWO = "cluster: line", "cluster: [hall, place]"


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """Return 160 episodes of 40 lines; a hall has eight lines, and each hall counts them from 0."""
    found = make_table(160)
    line = np.array([int(name[1:]) for name in found["line"].to_pylist()])
    found = found.append_column("hall", pa.array([f"h{k}" for k in line // 8]))
    return found.append_column("place", pa.array(line % 8))


def test_the_audit_counts_pairs(table: pa.Table) -> None:
    one, two = (audit_log(source_of(table, problem_of(head=head))) for head in (ONE, TWO))
    assert one.figures["clusters"] == two.figures["clusters"] == 40.0
    assert [found.code for found in one.findings] == [found.code for found in two.findings]
    few = audit_log(source_of(table, problem_of(head="cluster: {columns: [hall, place], most: 2}")))
    assert [found.column for found in few.refused if found.code == "cluster-larger-than-declared"] == ["hall, place"]


def test_a_certificate_counts_pairs(table: pa.Table) -> None:
    found = {}
    for head in (ONE, TWO):
        problem = problem_of(head=head)
        found[head] = certify(source_of(table, problem), better_policy(problem), ledger=False)
    assert found[TWO].verdict.verdict == found[ONE].verdict.verdict != REFUSED
    assert found[TWO].counts["certified_episodes"] % 4 == 0
    assert found[TWO].verdict.units == found[TWO].counts["certified_episodes"] // 4
    assert json.loads(json.dumps(found[TWO].to_json()))["problem"]["cluster"] == ["hall", "place"]
    sizes = [fact.statement for fact in found[TWO].assumptions if fact.code == "cluster-size"]
    assert sizes == ["How many episodes a 'hall, place' has does not depend on what happened in them."]


def test_totals_of_pairs(table: pa.Table) -> None:
    problem = problem_of(head="cluster: {columns: [hall, place], most: 4}")
    assert certify(source_of(table, problem), better_policy(problem), ledger=False).verdict.units > 0
    problem = problem_of(head="cluster: {columns: [hall, place], most: 3}")
    refused = certify(source_of(table, problem), better_policy(problem), ledger=False)
    assert refused.verdict.verdict == REFUSED
    assert "hall, place" in str(refused.findings)


def test_a_policy_remembers_both_columns(table: pa.Table) -> None:
    two = problem_of(head=TWO)
    source = source_of(table, two)
    record = learning_record(source, Split())
    assert record["units"]["cluster"] == ["hall", "place"]
    again = json.loads(json.dumps(record))
    own = certify(source, Candidate(better_policy(two), "learned", record=again), ledger=False)
    assert own.verdict.verdict != REFUSED
    one = problem_of(head=ONE)
    other = certify(source_of(table, one), Candidate(better_policy(one), "learned", record=again), ledger=False)
    assert other.verdict.verdict == REFUSED and "'hall', 'place' (now 'line')" in other.verdict.sentence
