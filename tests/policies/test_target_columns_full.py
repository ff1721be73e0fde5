"""Policies whose whole distribution is told in columns; what reads which columns; policies as one piece of bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import policy_examples as ex
import pyarrow as pa
import pytest

from aegis.errors import PolicyError
from aegis.logs import Source
from aegis.policies import (
    Capped,
    Floored,
    FullColumns,
    Legacy,
    Logged,
    TargetColumns,
    Uniform,
    policy_columns,
    policy_digest,
    policy_from_bytes,
    policy_to_bytes,
)
from aegis.policies.target_columns import order_by_name
from aegis.problem import Actions, parse_problem

PROBLEM = ex.problem(2)
COLUMNS = {name: ex.full_columns(PROBLEM, name) for name in PROBLEM.names}


def told():
    batch = ex.batch(PROBLEM, 13, childless=False)
    return replace(batch, extra=ex.told(PROBLEM, batch))


def test_whole_distributions_come_from_the_columns_once_per_decision():
    batch = told()
    for level, table in batch.levels.items():
        np.testing.assert_array_equal(FullColumns(PROBLEM, COLUMNS).full(level, batch)[0], table.mu_full)


def test_what_is_known_before_a_decision_is_enough():
    batch = told()
    for level, table in batch.levels.items():
        np.testing.assert_array_equal(FullColumns(PROBLEM, COLUMNS).full(level, batch.before(level))[0], table.mu_full)


def test_probabilities_that_are_no_distribution_are_refused():
    batch = told()
    batch.extra["legacy_dose_1"][2] /= 2
    with pytest.raises(PolicyError, match=r"level 'dose', row 2: .*'legacy_dose_0' and following sum to 0\.\d+, expected 1"):
        FullColumns(PROBLEM, COLUMNS).full("dose", batch)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "at least one level"),
        ({"dsoe": ("a",)}, "did you mean 'dose'"),
        ({"dose": ("a", "b")}, "needs 5 different columns"),
        ({"dose": ("a", "b", "c", "d", "a")}, "needs 5 different columns"),
    ],
)
def test_columns_that_do_not_fit_are_refused(columns, message):
    with pytest.raises(PolicyError, match=message):
        FullColumns(PROBLEM, columns)


def test_a_level_without_columns_cannot_be_asked():
    with pytest.raises(PolicyError, match="'recipe' has no columns; levels with some: dose"):
        FullColumns(PROBLEM, {"dose": COLUMNS["dose"]}).full("recipe", told())


def test_columns_are_found_in_members_too():
    legacy = FullColumns(PROBLEM, {"dose": COLUMNS["dose"]})
    whole = Floored(PROBLEM, TargetColumns(PROBLEM, {"dose": "p_dose"}), legacy, 0.1)
    assert policy_columns(whole) == ("p_dose", *COLUMNS["dose"])
    assert policy_columns(Logged(PROBLEM)) == ()
    assert policy_columns(Capped(PROBLEM, object(), legacy, 2.0)) == ()  # cannot be stored, so that its members are not known


def test_a_policy_as_one_piece_comes_back_the_same():
    policy = Floored(PROBLEM, Legacy(PROBLEM, {name: Uniform() for name in PROBLEM.names}), FullColumns(PROBLEM, COLUMNS), 0.1)
    again = policy_from_bytes(policy_to_bytes(policy), PROBLEM)
    assert policy_digest(again) == policy_digest(policy)
    np.testing.assert_array_equal(again.full("dose", told()), policy.full("dose", told()))


def test_a_damaged_piece_is_refused():
    piece = policy_to_bytes(FullColumns(PROBLEM, COLUMNS))
    with pytest.raises(PolicyError, match="damaged"):
        policy_from_bytes(piece[: len(piece) // 2], PROBLEM)
    with pytest.raises(PolicyError, match="another problem"):
        policy_from_bytes(piece, ex.problem(3))


@pytest.mark.parametrize("kind", ["reward", "action", "context"])
def test_columns_that_are_something_else_are_no_probabilities(kind):
    inner = PROBLEM.innermost
    column = {"reward": PROBLEM.reward.column, "action": inner.actions.column, "context": inner.context[0].columns[0]}[kind]
    listed = [column, *COLUMNS[inner.name][1:]]
    with pytest.raises(PolicyError, match=f"full columns: '{column}' is .* fixed without looking at rewards"):
        FullColumns(PROBLEM, {inner.name: listed})


def test_only_levels_with_columns_are_claimed():
    from aegis.certificate import Candidate

    inner = PROBLEM.names[-1]
    assert Candidate.of(FullColumns(PROBLEM, {inner: COLUMNS[inner]})).levels(PROBLEM) == (inner,)


DRUGS = parse_problem(
    """
episode: visit
reward: {column: score, range: [0, 1]}
levels:
  - name: drug
    context: [age]
    action: {column: drug, values: [none, a, b]}
    available: [can_none, can_a, can_b]
    propensity: {columns: [p_none, p_a, p_b]}
"""
)


def drugs(**changes):
    """Return three visits; at the last one drug b is not available."""
    columns = {
        "visit": [1, 2, 3],
        "age": [50.0, 60.0, 70.0],
        "drug": ["none", "b", "a"],
        "can_none": [True] * 3,
        "can_a": [True] * 3,
        "can_b": [True, True, False],
        "p_none": [0.5, 0.5, 0.5],
        "p_a": [0.25, 0.25, 0.5],
        "p_b": [0.25, 0.25, 0.0],
        "score": [0.1, 0.2, 0.3],
        "q_none": [0.2, 0.2, 0.2],
        "q_a": [0.7, 0.1, 0.8],
        "q_b": [0.1, 0.7, 0.0],
    }
    return Source(pa.table({**columns, **changes}), DRUGS).read(columns=("q_none", "q_a", "q_b"))


def test_columns_named_after_actions_stand_in_their_order():
    with pytest.raises(
        PolicyError, match=r"actions none, a, b, in this order, but the columns q_a, q_none, q_b .*; write q_none,q_a,q_b"
    ):
        FullColumns(DRUGS, {"drug": ["q_a", "q_none", "q_b"]})
    assert FullColumns(DRUGS, {"drug": ["q_none", "q_a", "q_b"]}).full("drug", drugs()).shape == (1, 3, 3)
    FullColumns(DRUGS, {"drug": ["x", "y", "z"]})


@pytest.mark.parametrize(
    ("values", "columns", "found"),
    [
        (("none", "a", "b"), ("q_b", "q_none", "q_a"), ("q_none", "q_a", "q_b")),
        (("none", "a", "b"), ("B q", "NONE q", "A q"), ("NONE q", "A q", "B q")),
        (("one", "none"), ("q_none", "q_one"), ("q_one", "q_none")),
        (("b", "a b"), ("q a b", "q b"), ("q b", "q a b")),
        ((0.5, 10), ("q_10", "q_0.5"), ("q_0.5", "q_10")),
        (("a", "b"), ("q_a", "q_a2"), None),
        ((2, 0, 1), ("q_0", "q_1", "q_2"), None),  # perhaps by their places
        ((0, 1, 2), ("q_2", "q_1", "q_0"), ("q_0", "q_1", "q_2")),
        (("a", "b"), ("qa", "qb"), None),
        (("a", "b"), ("q_a", "r_a"), None),
    ],
)
def test_the_order_that_names_show(values, columns, found):
    assert order_by_name(Actions("x", values, "labels" if isinstance(values[0], str) else "numbers"), columns) == found


def test_unavailable_actions_have_no_probability():
    policy = FullColumns(DRUGS, {"drug": ["q_none", "q_a", "q_b"]})
    batch = drugs(q_a=[0.7, 0.1, 0.3], q_b=[0.1, 0.7, 0.5])
    for ask in (policy.full, policy.taken):
        with pytest.raises(PolicyError, match=r"row 3, column 'q_b': 0.5 for the action 'b', which is not available there"):
            ask("drug", batch)
