"""Row ranges and chunks, and blocks of an even size."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.logs.formats import base
from aegis.logs.formats.base import MOST_CHUNKS, FileRange, RowRange, bundle_ranges, even_blocks, row_group_ranges


def test_row_ranges_and_chunks_have_all_rows_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 5)
    assert row_group_ranges([3, 3, 3, 1]) == (RowRange((0, 1), 1, 6), RowRange((2, 3), 7, 4))
    assert row_group_ranges([]) == (RowRange((), 1, 0),)
    many = [(FileRange(number), 1) for number in range(10)]
    monkeypatch.setattr(base, "CHUNK_ROWS", 4)
    assert [len(piece) for piece in bundle_ranges(many, 10)] == [4, 4, 2]
    large = [(FileRange(number), 10**9) for number in range(3000)]
    assert len(bundle_ranges(large, 3000 * 10**9)) <= MOST_CHUNKS


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 9), max_size=12), st.integers(1, 7))
def test_blocks_have_all_rows_and_only_the_last_is_short(sizes: list[int], rows: int) -> None:
    values = iter(range(sum(sizes)))
    batches = [pa.record_batch({"x": [next(values) for _ in range(size)], "y": [0] * size}) for size in sizes]
    batches = [batch.cast(pa.schema({"x": pa.int64(), "y": pa.int64()})) for batch in batches]
    blocks = list(even_blocks(batches, ["x"], rows))
    assert [value for block in blocks for value in block["x"].to_pylist()] == list(range(sum(sizes)))
    assert all(block.column_names == ["x"] and 0 < block.num_rows <= rows for block in blocks)
    assert all(2 * block.num_rows > rows for block in blocks[:-1])
