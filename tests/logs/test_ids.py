"""Hashes, runs, codes and ranks against plain Python."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.logs import hash_ids
from aegis.logs.column_values import TEXT_TYPE
from aegis.logs.ids import first_seen_codes, id_changes, joint_codes, last_id_start, value_ranks, values_at

words = st.lists(st.text(max_size=12), min_size=1, max_size=40)


@settings(max_examples=30, deadline=None)
@given(words, st.integers(0, 5))
def test_hashes_tell_texts_apart_and_do_not_depend_on_the_slice(found: list[str], cut: int) -> None:
    column = pa.array(found, TEXT_TYPE)
    whole = hash_ids([column])
    assert len(set(whole.tolist())) == len(set(found))
    np.testing.assert_array_equal(hash_ids([column.slice(cut)]), whole[cut:])
    assert all((whole[i] == whole[j]) == (found[i] == found[j]) for i in range(len(found)) for j in range(len(found)))


def test_hashes_of_many_ids_are_all_different_and_fill_partitions_evenly() -> None:
    found = hash_ids([pa.array(np.arange(100_000))])
    assert np.unique(found).size == 100_000
    share = np.bincount((found % np.uint64(16)).astype(np.int64)) / 100_000
    assert share.min() > 0.055 and share.max() < 0.07


def test_hashes_know_numbers_as_their_text_and_columns_by_position() -> None:
    numbers, text = pa.array([5, -12]), pa.array(["5", "-12"], TEXT_TYPE)
    np.testing.assert_array_equal(hash_ids([numbers]), hash_ids([text]))
    one, other = pa.array(["a", "ab"], TEXT_TYPE), pa.array(["bc", "c"], TEXT_TYPE)
    assert np.unique(np.concatenate([hash_ids([one, other]), hash_ids([other, one])])).size == 4


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), min_size=1, max_size=30))
def test_codes_are_those_of_a_loop(pairs: list[tuple[str, int]]) -> None:
    columns = [pa.array([pair[0] for pair in pairs], TEXT_TYPE), pa.array([pair[1] for pair in pairs])]
    order = list(dict.fromkeys(pairs))
    assert joint_codes(columns).tolist() == [order.index(pair) for pair in pairs]
    letters = list(dict.fromkeys(pair[0] for pair in pairs))
    assert first_seen_codes(columns[0]).tolist() == [letters.index(pair[0]) for pair in pairs]


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), min_size=1, max_size=30),
    st.lists(st.integers(0, 30), max_size=4),
    st.booleans(),
)
def test_runs_are_those_of_a_loop_whatever_the_chunks_and_dictionaries(
    pairs: list[tuple[str, int]], cuts: list[int], encode: bool
) -> None:
    bounds = [0, *sorted(min(cut, len(pairs)) for cut in cuts), len(pairs)]
    letters = [pa.array([pair[0] for pair in pairs[a:b]], pa.string()) for a, b in itertools.pairwise(bounds)]
    kind = pa.dictionary(pa.int32(), pa.string()) if encode else pa.string()
    first = pa.chunked_array([part.dictionary_encode() for part in letters] if encode else letters, kind)
    columns = [first, pa.chunked_array([[pair[1] for pair in pairs]])]
    starts = [k for k, pair in enumerate(pairs) if k == 0 or pairs[k - 1] != pair]
    assert np.flatnonzero(id_changes(columns)).tolist() == starts
    assert last_id_start(columns) == starts[-1]
    found = values_at(first, np.array(starts))
    assert found.type == TEXT_TYPE and found.to_pylist() == [pairs[k][0] for k in starts]


def test_the_last_run_is_found_far_from_the_end() -> None:
    for length, other in ((5000, 100), (2048, 0), (2049, 0), (2047, 0), (30000, 27000)):
        ids = pa.chunked_array([["a"] * other + ["b"] * (length - other)])
        assert last_id_start([ids]) == other


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text("abä", min_size=3, max_size=3), min_size=1, max_size=20), st.text(max_size=4))
def test_hashes_of_texts_of_one_length_are_those_of_any(found: list[str], other: str) -> None:
    alone = hash_ids([pa.array(found[:1], TEXT_TYPE)])[0]
    mixed = hash_ids([pa.array([*found, other + "longer"], TEXT_TYPE)])
    np.testing.assert_array_equal(hash_ids([pa.array(found, TEXT_TYPE)]), mixed[:-1])
    assert alone == mixed[0]


@settings(max_examples=25, deadline=None)
@given(words, st.lists(st.integers(-(10**12), 10**12), min_size=1, max_size=20))
def test_ranks_follow_the_order_of_the_values(found: list[str], numbers: list[int]) -> None:
    by_byte = sorted({word.encode() for word in found})
    assert value_ranks(pa.array(found, TEXT_TYPE)).tolist() == [by_byte.index(word.encode()) for word in found]
    assert value_ranks(pa.array(numbers)).tolist() == [sorted(set(numbers)).index(number) for number in numbers]
