"""Logs in memory: the same as from a file, whoever holds them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_samples import PROBLEMS, assert_same, random_batch

from aegis.errors import LogError
from aegis.logs import Source, log_digest, to_table
from aegis.logs.formats.frames import frame_digest
from aegis.problem import concat, parse_problem
from aegis.rng import stream

NESTED = PROBLEMS["nested"]
BATCH = random_batch(NESTED, stream(1, "frames"), 15, text_ids=True)
TABLE = to_table(BATCH, NESTED)


class Streams:
    """A frame of a library that hands over Arrow streams and nothing else."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)


class Exchanges:
    """A frame of a library that knows only the interchange protocol."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        return self.table.__dataframe__(nan_as_null, allow_copy)


FRAMES = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(max_chunksize=7),
    "stream": Streams,
    "interchange": Exchanges,
}


@pytest.mark.parametrize("kind", list(FRAMES))
def test_every_frame_gives_the_batch(kind: str) -> None:
    source = Source(FRAMES[kind](TABLE), NESTED)
    assert_same(source.read(), BATCH)
    assert_same(concat(list(source.batches(rows=4))), BATCH)  # also a stream can be read again
    assert [str(part) for part in source.files] == ["frame 1"]


def test_frames_and_files_are_one_log(tmp_path: Any) -> None:
    pq.write_table(TABLE.slice(10), tmp_path / "rest.parquet")
    source = Source([TABLE.slice(0, 10), tmp_path / "rest.parquet"], NESTED)
    assert_same(source.read(), BATCH)
    assert [part.name for part in source.files] == ["frame 1", "rest.parquet"]


def test_dictionaries_and_other_texts_are_texts() -> None:
    columns = {
        name: TABLE[name].dictionary_encode() if pa.types.is_string(TABLE[name].type) else TABLE[name]
        for name in TABLE.column_names
    }
    assert_same(Source(pa.table(columns), NESTED).read(), BATCH)
    columns["setting"] = TABLE["setting"].cast(pa.string_view())
    assert_same(Source(pa.table(columns), NESTED).read(), BATCH)


def test_a_dictionary_that_lists_a_value_twice_changes_nothing() -> None:
    flat = PROBLEMS["flat"]
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "a", "b"]))
    table = pa.table({"visit": twice, "age": [1.0, 2.0, 3.0], "dose": [1, 2, 3], "p": [0.5] * 3, "score": [1.0] * 3})
    for batch in (Source(table, flat).read(), concat(list(Source(table, flat).batches(rows=1)))):
        assert batch.episode.tolist() == ["a", "b"]


def test_a_dictionary_of_clusters_that_lists_one_twice_is_no_disagreement() -> None:
    problem = parse_problem(
        "episode: v\ncluster: m\nreward: {column: r}\nlevels: [{name: a, action: {column: x, values: [p, q]}, decision: d}]"
    )
    twice = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["p", "p", "q"]))
    table = pa.table({"v": [1, 1, 2], "m": twice, "x": twice, "d": pa.array(["i", "j", "i"]), "r": [1.0] * 3})
    batch = Source(table, problem).read()
    assert batch.cluster is not None and batch.cluster.tolist() == ["p", "q"]
    assert batch.levels["a"].action.tolist() == [0, 0, 1]


def test_messages_name_the_frame_and_its_row() -> None:
    flat = PROBLEMS["flat"]
    good = to_table(random_batch(flat, stream(2, "frames"), 3), flat)
    bad = good.set_column(good.column_names.index("visit"), "visit", pa.array(np.arange(good.num_rows) + 50))
    bad = bad.set_column(bad.column_names.index("p"), "p", pa.array([0.5] * (bad.num_rows - 1) + [1.5]))
    with pytest.raises(LogError, match=rf"^frame 2, row {bad.num_rows}, column 'p': found 1\.5"):
        Source([good, bad], flat).read()
    with pytest.raises(LogError, match=r"^frame 1: a column is missing: 'p'"):
        Source(good.drop_columns(["p"]), flat).read()


def test_a_frame_that_cannot_be_handed_over_is_refused() -> None:
    class Broken:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            raise ValueError("mixed types in column 'x'\nand more")

    with pytest.raises(
        LogError, match=r"frame 1 \(Broken\) cannot be taken over as an Arrow table: mixed types in column 'x'; give"
    ):
        Source(Broken(), NESTED)


def test_an_empty_frame_has_no_rows() -> None:
    with pytest.raises(LogError, match="frame 1: the log has no rows"):
        Source(TABLE.slice(0, 0), NESTED).read()


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_of_other_libraries(library: str) -> None:
    found = pytest.importorskip(library)
    frame = found.from_arrow(TABLE) if library == "polars" else TABLE.to_pandas()
    assert_same(Source(frame, NESTED).read(), BATCH)


# ---- digests ---------------------------------------------------------------------------------------------------------

KINDS = {
    "text": pa.array(["a", None, "", "bc", "a"]),
    "number": pa.array([0.5, None, -0.0, float("nan"), 2.0]),
    "whole": pa.array([1, None, 3, 4, 5], pa.int16()),
    "flag": pa.array([True, None, False, True, False]),
    "when": pa.array([1, None, 3, 4, 5], pa.timestamp("us")),
    "day": pa.array([1, None, 3, 4, 5], pa.date32()),
    "list": pa.array([[1], None, [], [2, 3], [4]]),
}


@settings(max_examples=40, deadline=None)
@given(st.sets(st.integers(1, 9)), st.booleans())
def test_a_digest_depends_on_the_values_and_not_on_chunks(cuts: set[int], coded: bool) -> None:
    whole = pa.table({name: pa.concat_arrays([values, values]) for name, values in KINDS.items()})
    edges = [0, *sorted(cuts), 10]
    chunked = pa.concat_tables([whole.slice(a, b - a) for a, b in itertools.pairwise(edges)])
    if coded:
        chunked = chunked.set_column(0, "text", chunked["text"].dictionary_encode())
    assert frame_digest(chunked) == frame_digest(whole)
    assert log_digest(chunked) == log_digest([Streams(whole)])


@pytest.mark.parametrize("name", list(KINDS))
def test_a_digest_changes_with_every_value_name_and_place(name: str) -> None:
    whole = pa.table(KINDS)
    seen = {frame_digest(whole), frame_digest(whole.slice(0, 4))}
    for order in ([0, 0, 2, 3, 4], [0, 1, 1, 3, 4], [1, 0, 2, 3, 4], [0, 1, 2, 4, 3]):
        column = KINDS[name].take(pa.array(order))
        seen.add(frame_digest(whole.set_column(whole.column_names.index(name), name, column)))
    seen.add(frame_digest(whole.rename_columns([f"{n}_" if n == name else n for n in whole.column_names])))
    assert len(seen) == 7


def test_missing_is_not_zero_and_blocks_are_no_seams() -> None:
    assert frame_digest(pa.table({"x": [0, 1]})) != frame_digest(pa.table({"x": pa.array([None, 1], pa.int64())}))
    assert frame_digest(pa.table({"x": ["ab", "c"]})) != frame_digest(pa.table({"x": ["a", "bc"]}))
    long = pa.table({"x": np.arange(150_000)})
    assert frame_digest(long) == frame_digest(pa.concat_tables([long.slice(0, 70_001), long.slice(70_001)]))
