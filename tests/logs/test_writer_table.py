"""What is written is what is read, in every format, order and block size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_samples import PROBLEMS, assert_same, by_id, random_batch, shuffled, write_csv

from aegis.logs import Source, to_table, write_log
from aegis.problem import concat
from aegis.rng import stream


@pytest.mark.parametrize("text_ids", [False, True])
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_parquet_gives_back_the_batch(name: str, text_ids: bool, tmp_path: Path) -> None:
    problem = PROBLEMS[name]
    batch = random_batch(problem, stream(1, name), 40, text_ids=text_ids)
    write_log(batch, problem, tmp_path / "log.parquet")
    assert_same(Source(tmp_path / "log.parquet", problem).read(), batch)


@pytest.mark.parametrize("text_ids", [False, True])
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_csv_equals_parquet(name: str, text_ids: bool, tmp_path: Path) -> None:
    problem = PROBLEMS[name]
    batch = random_batch(problem, stream(2, name), 40, text_ids=text_ids)
    path = write_csv(to_table(batch, problem), tmp_path / "log.csv")
    assert_same(Source(path, problem).read(), batch)


@pytest.mark.parametrize("rows", [1, 3, 1000])
@pytest.mark.parametrize("name", list(PROBLEMS))
def test_blocks_of_any_size_give_the_same_episodes(name: str, rows: int, tmp_path: Path) -> None:
    problem = PROBLEMS[name]
    batch = random_batch(problem, stream(3, name), 25)
    write_log(batch, problem, tmp_path / "log.parquet")
    csv = write_csv(to_table(batch, problem), tmp_path / "log.csv")
    for path in (tmp_path / "log.parquet", csv):
        assert_same(concat(list(Source(path, problem).batches(rows=rows))), batch)


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), rows=st.sampled_from([2, 9, 50]), text_ids=st.booleans())
def test_shuffled_rows_give_the_same_batch_where_ids_are_declared(
    seed: int, rows: int, text_ids: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    problem = PROBLEMS["nested"]
    rng = stream(seed, "shuffle")
    batch = random_batch(problem, rng, 12, text_ids=text_ids)
    path = tmp_path_factory.mktemp("shuffled") / "log.parquet"
    pq.write_table(shuffled(to_table(batch, problem), rng), path)
    source = Source(path, problem)
    expected = by_id(batch)
    assert_same(by_id(source.read()), expected)
    assert_same(by_id(concat(list(source.batches(rows=rows)))), expected)


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_shuffled_rows_without_ids_keep_the_order_of_the_log_within_a_parent(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    problem = PROBLEMS["deep"]
    rng = stream(seed, "appear")
    table = shuffled(to_table(random_batch(problem, rng, 10), problem), rng)
    path = tmp_path_factory.mktemp("appear") / "log.parquet"
    pq.write_table(table, path)
    whole = Source(path, problem).read()
    assert_same(by_id(concat(list(Source(path, problem).batches(rows=3)))), by_id(whole))
    rows = table.select(["plant", "day", "week", "sun"]).to_pylist()
    days = list(dict.fromkeys((row["plant"], row["day"]) for row in rows))
    assert [tuple(found) for found in whole.episode.tolist()] == days
    expected = [
        row["sun"]
        for day in days
        for week in sorted({r["week"] for r in rows if (r["plant"], r["day"]) == day})
        for row in rows
        if (row["plant"], row["day"], row["week"]) == (*day, week)
    ]
    assert whole.levels["hour"].context["sun"].tolist() == expected


def test_siblings_come_in_numeric_order_for_numbers_and_by_character_for_text(tmp_path: Path) -> None:
    problem = PROBLEMS["nested"]
    base = to_table(random_batch(problem, stream(4, "order"), 1), problem).slice(0, 1)
    tables = {
        "numbers": [base.set_column(base.schema.get_field_index("step"), "step", pa.array([k])) for k in (10, 9, 2)],
        "text": [base.set_column(base.schema.get_field_index("step"), "step", pa.array([k])) for k in ("10", "9", "x")],
    }
    tables = {
        kind: pa.concat_tables(
            [t.set_column(t.schema.get_field_index("s1"), "s1", pa.array([float(k)])) for k, t in enumerate(found)]
        )
        for kind, found in tables.items()
    }
    orders = {"numbers": [2.0, 1.0, 0.0], "text": [0.0, 1.0, 2.0]}
    for kind, table in tables.items():
        pq.write_table(table, tmp_path / f"{kind}.parquet")
        for path in (tmp_path / f"{kind}.parquet", write_csv(table, tmp_path / f"{kind}.csv")):
            batch = Source(path, problem).read()
            assert batch.levels["dose"].context["sensor"][:, 0].tolist() == orders[kind]


def test_several_files_are_one_log_and_an_episode_may_go_on_in_the_next(tmp_path: Path) -> None:
    problem = PROBLEMS["nested"]
    batch = random_batch(problem, stream(5, "files"), 20)
    table = to_table(batch, problem)
    cut = table.num_rows // 2 + 1
    pq.write_table(table.slice(0, cut), tmp_path / "a.parquet")
    write_csv(table.slice(cut), tmp_path / "b.csv")
    source = Source([tmp_path / "a.parquet", str(tmp_path / "b.csv")], problem)
    assert_same(source.read(), batch)
    assert_same(concat(list(source.batches(rows=4))), batch)
    backwards = Source([tmp_path / "b.csv", tmp_path / "a.parquet"], problem)
    assert_same(by_id(concat(list(backwards.batches(rows=4)))), by_id(batch))


def test_types_of_the_same_id_may_differ_between_files(tmp_path: Path) -> None:
    problem = PROBLEMS["flat"]
    rest = {"age": [1.0, 2.0], "dose": [1, 2], "p": [0.5, 0.5], "score": [1.0, None]}
    pq.write_table(pa.table({"visit": pa.array([1, 2], pa.int32()), **rest}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"visit": pa.array([2.0, 3.0]), **rest}), tmp_path / "b.parquet")
    pq.write_table(pa.table({"visit": pa.array(["3", "x"]).dictionary_encode(), **rest}), tmp_path / "c.parquet")
    whole = Source([tmp_path / "a.parquet", tmp_path / "b.parquet"], problem).read()
    assert whole.episode.tolist() == [1, 2, 3]
    assert whole.levels["dose"].parent.tolist() == [0, 1, 1, 2]
    three = Source([tmp_path / f"{name}.parquet" for name in "abc"], problem)
    for found in (three.read(), concat(list(three.batches(rows=1)))):
        assert found.episode.tolist() == ["1", "2", "3", "x"]


def test_streaming_holds_few_rows_at_a_time(tmp_path: Path) -> None:
    problem = PROBLEMS["nested"]
    batch = random_batch(problem, stream(6, "bounded"), 300)
    table = to_table(batch, problem)
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=64)
    pq.write_table(shuffled(table, stream(6, "mixed")), tmp_path / "mixed.parquet", row_group_size=64)
    longest = int(np.bincount(batch.episode_of("dose")).max())
    for name in ("log", "mixed"):
        sizes = [len(part.levels["dose"]) for part in Source(tmp_path / f"{name}.parquet", problem).batches(rows=32)]
        assert sum(sizes) == table.num_rows
        assert max(sizes) < 32 + longest
        assert len(sizes) > table.num_rows // (32 + longest)


def test_extra_columns_come_along_with_their_types(tmp_path: Path) -> None:
    problem = PROBLEMS["flat"]
    batch = random_batch(problem, stream(7, "extra"), 9)
    count = len(batch.levels["dose"])
    extra = {
        "target": np.linspace(0.1, 0.9, count),
        "note": np.array(["007", *["b"] * (count - 1)], dtype=object),
        "shift": np.arange(count),
        "night": np.arange(count) % 2 == 0,
        "at": np.datetime64("2024-01-01T10:30", "us") + np.arange(count),
    }
    batch = replace(batch, extra=extra)
    write_log(batch, problem, tmp_path / "log.parquet")
    csv = write_csv(to_table(batch, problem), tmp_path / "log.csv")
    for path in (tmp_path / "log.parquet", csv):
        assert_same(Source(path, problem).read(tuple(extra)), batch)
        assert_same(concat(list(Source(path, problem).batches(tuple(extra), rows=2))), batch)
        assert not Source(path, problem).read().extra
        again = Source(path, problem).read(["age"])
        np.testing.assert_array_equal(again.extra["age"], batch.levels["dose"].context["age"])


def test_missing_extras_are_nan_or_none(tmp_path: Path) -> None:
    problem = PROBLEMS["flat"]
    (tmp_path / "log.csv").write_text("visit,age,dose,p,score,x,word\n1,1,1,1,0,2.5,a\n2,1,1,1,0,NA,\n")
    batch = Source(tmp_path / "log.csv", problem).read(["x", "word"])
    np.testing.assert_array_equal(batch.extra["x"], [2.5, np.nan])
    assert batch.extra["word"].tolist() == ["a", None]


def test_text_files_keep_ids_and_labels_that_look_like_something_else(tmp_path: Path) -> None:
    problem = PROBLEMS["flat"]
    (tmp_path / "log.csv").write_text('visit,age,dose,p,score\n007,1,1,0.5,1\n7,2,2.0,0.5,NA\n"N,A",3,3,0.5,\n')
    batch = Source(tmp_path / "log.csv", problem).read()
    assert batch.episode.tolist() == ["007", "7", "N,A"]
    assert batch.levels["dose"].action.tolist() == [0, 1, 2]
    assert batch.observed is not None and batch.observed.tolist() == [True, False, False]


def test_numbers_with_leading_zeros_and_quoted_nothing_are_ids(tmp_path: Path) -> None:
    problem = PROBLEMS["flat"]
    (tmp_path / "log.csv").write_text("visit,age,dose,p,score\n007,1,1,0.5,1\n7,2,2,0.5,1\n")
    assert Source(tmp_path / "log.csv", problem).read().episode.tolist() == ["007", "7"]
    (tmp_path / "log.csv").write_text('visit,age,dose,p,score\n"",1,1,0.5,1\nx,2,2,0.5,1\n')
    assert Source(tmp_path / "log.csv", problem).read().episode.tolist() == ["", "x"]


def test_a_source_looks_again_after_a_file_has_changed(tmp_path: Path) -> None:
    problem = PROBLEMS["flat"]
    path = tmp_path / "log.csv"
    path.write_text("visit,age,dose,p,score\n1,1,1,0.5,1\n1,1,1,0.5,1\n2,1,1,0.5,1\n")
    source = Source(path, problem)
    assert [len(batch) for batch in source.batches(rows=1)] == [1, 1]
    path.write_text("visit,age,dose,p,score\n1,1,1,0.5,1\n2,1,1,0.5,1\n1,1,1,0.5,1\n0,1,1,0.5,1\n")
    assert sorted(batch.episode.item() for batch in source.batches(rows=1)) == [0, 1, 2]
