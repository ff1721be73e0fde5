"""Joining batches: the same as never having split them, and nothing lost in silence."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problem_cases import same, tree, trees

from aegis.errors import ProblemError
from aegis.problem import Batch, concat

ONE, TWO = tree([[1, 2], [3, 1, 2]], seed=1), tree([[2], [1, 1]], seed=2)


def with_table(batch: Batch, **changes: object) -> Batch:
    return batch.with_level("l1", replace(batch.levels["l1"], **changes))  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(trees(), st.data())
def test_joining_the_pieces_gives_the_whole(batch: Batch, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(batch)), max_size=3)))
    edges = [0, *cuts, len(batch)]
    pieces = [batch.take_episodes(np.arange(start, stop)) for start, stop in itertools.pairwise(edges)]
    assert same(concat(pieces), batch)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 3).flatmap(lambda depth: st.tuples(trees(depth), trees(depth), trees(depth))))
def test_pieces_come_back_out_and_joining_is_associative(batches: tuple[Batch, Batch, Batch]) -> None:
    a, b, c = batches
    whole = concat([a, b, c])
    assert len(whole) == len(a) + len(b) + len(c)
    assert same(whole.take_episodes(len(a) + np.arange(len(b))), b)
    assert same(concat([concat([a, b]), c]), whole)
    assert same(concat([a, concat([b, c])]), whole)
    values = np.concatenate([np.asarray(batch.reward) for batch in batches])
    apart = np.concatenate([batch.episode_means(np.asarray(batch.reward)) for batch in batches])
    np.testing.assert_array_equal(whole.episode_means(values), apart)


def test_a_single_batch_is_returned_as_it_is() -> None:
    assert concat([ONE]) is ONE


def test_no_batches_are_refused() -> None:
    with pytest.raises(ProblemError, match="no batches to join"):
        concat([])


def test_a_missing_mask_means_that_everything_was_available() -> None:
    joined = concat([with_table(ONE, available=None), TWO]).levels["l1"].available
    assert joined is not None
    assert joined[:6].all()
    np.testing.assert_array_equal(joined[6:], TWO.levels["l1"].available)
    assert concat([with_table(ONE, available=None), with_table(TWO, available=None)]).levels["l1"].available is None


def test_missing_observed_means_that_every_reward_was_observed() -> None:
    joined = concat([ONE, replace(TWO, observed=None)]).observed
    assert joined is not None
    np.testing.assert_array_equal(joined, [*np.asarray(ONE.observed), True, True])


def test_missing_closed_means_that_no_reward_is_awaited() -> None:
    joined = concat([ONE, replace(TWO, closed=None)]).closed
    assert joined is not None
    np.testing.assert_array_equal(joined, [*np.asarray(ONE.closed), True, True])
    assert concat([replace(ONE, closed=None), replace(TWO, closed=None)]).closed is None


def test_what_only_some_parts_know_is_given_up() -> None:
    joined = concat([ONE, with_table(TWO, mu_full=None, version="legacy-2")])
    assert joined.levels["l1"].mu_full is None and joined.levels["l1"].version is None
    assert joined.levels["l2"].mu_full is not None and joined.levels["l2"].version == "legacy-1"


@pytest.mark.parametrize("field", ["reward", "outcome", "cluster", "time"])
def test_a_field_that_only_some_parts_have_is_refused(field: str) -> None:
    with pytest.raises(ProblemError, match=f"1 of 2 have '{field}'"):
        concat([ONE, replace(TWO, **{field: None})])
    both = concat([replace(ONE, **{field: None}), replace(TWO, **{field: None})])
    assert getattr(both, field) is None


def test_different_columns_are_refused_in_either_order() -> None:
    for batches in ([ONE, replace(TWO, guards={})], [replace(TWO, guards={}), ONE]):
        with pytest.raises(ProblemError, match="the guards differ"):
            concat(batches)
    with pytest.raises(ProblemError, match="the extra columns differ"):
        concat([ONE, replace(TWO, extra={"other": np.zeros(2)})])
    with pytest.raises(ProblemError, match="the context of level 'l1' differ"):
        concat([ONE, with_table(TWO, context={})])


def test_different_levels_are_refused() -> None:
    with pytest.raises(ProblemError, match="different levels"):
        concat([ONE, tree([[1]])])
