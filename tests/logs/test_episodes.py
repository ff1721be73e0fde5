"""Episodes of several columns, clusters, and when an episode started."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_samples import PROBLEMS, assert_same, by_id, random_batch, shuffled, write_csv

from aegis.errors import LogError
from aegis.logs import Source, Split, to_table
from aegis.problem import concat, parse_problem
from aegis.rng import stream

TIMED = parse_problem("episode: v\ntime: t\nreward: {column: r}\nlevels: [{name: a, action: {column: x, values: [0, 1]}}]")


def timed(times: object, visits: object = (1, 1, 2, 2)) -> pa.Table:
    count = len(visits)  # type: ignore[arg-type]
    return pa.table({"v": list(visits), "t": times, "x": [0] * count, "r": [1.0] * count})  # type: ignore[call-overload]


def test_an_episode_starts_at_the_earliest_time_of_its_rows(tmp_path: Path) -> None:
    dates = [datetime(2024, 3, day) for day in (9, 4, 5, 7)]
    for times, starts in (([9, 4, 5, 7], [4, 5]), ([0.5, 0.25, 1.0, 2.0], [0.25, 1.0]), (dates, [dates[1], dates[2]])):
        table = timed(times)
        pq.write_table(table, tmp_path / "log.parquet")
        for source in (table, tmp_path / "log.parquet", write_csv(table, tmp_path / "log.csv")):
            found = Source(source, TIMED).read().time
            assert found is not None and found.tolist() == starts


def test_scattered_rows_have_the_same_starts() -> None:
    table = timed([9, 8, 4, 5, 3, 7], [1, 2, 1, 2, 2, 3])
    assert Source(table, TIMED).read().time.tolist() == [4, 3, 7]  # type: ignore[union-attr]
    found = by_id(concat(list(Source(table, TIMED).batches(rows=2))))
    assert found.time is not None and found.time.tolist() == [4, 3, 7]


def test_times_in_words_cannot_be_ordered_and_must_agree() -> None:
    assert Source(timed(["spring", "spring", "autumn", "autumn"]), TIMED).read().time.tolist() == ["spring", "autumn"]  # type: ignore[union-attr]
    with pytest.raises(LogError, match=r"row 2, column 't': found 'summer', but 'spring' at frame 1, row 1, in the same episode"):
        Source(timed(["spring", "summer", "autumn", "autumn"]), TIMED).read()


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 50)), min_size=8, max_size=40), st.integers(1, 9))
def test_a_split_in_time_goes_by_the_starts_of_episodes(rows: list[tuple[int, int]], block: int) -> None:
    table = timed([time for _, time in rows], [visit for visit, _ in rows])
    source = Source(table, TIMED)
    starts = {visit: min(time for other, time in rows if other == visit) for visit, _ in rows}
    if len(set(starts.values())) < 3:
        return
    split = source.with_cut(Split("time", fraction=0.7))
    assert split.cut in starts.values()
    early = [v for batch in source.batches(rows=block, side="prior", split=split) for v in batch.episode.tolist()]
    assert sorted(early) == sorted(visit for visit, start in starts.items() if start < split.cut)  # type: ignore[operator]
    assert 0 < len(early) <= 0.7 * len(starts)


PAIRED = """
episode: visit
cluster: [person, site]
time: day
reward: {column: r, range: [0, 1]}
levels: [{name: a, action: {column: x, values: [0, 1]}, propensity: {policy: uniform}}]
"""


def visits(count: int = 240) -> pa.Table:
    """Return visits of 12 people at 5 sites, 60 pairs in all: none of the two columns tells them apart."""
    rng = stream(5, "visits")
    number = np.arange(count)
    return pa.table(
        {
            "visit": number,
            "person": [f"p{n % 12}" for n in number],
            "site": (number // 12) % 5,
            "day": number // 60,
            "x": rng.integers(0, 2, count),
            "r": np.round(rng.random(count), 3),
        }
    )


def test_a_cluster_of_several_columns_is_one_id(tmp_path: Path) -> None:
    problem, table = parse_problem(PAIRED), visits()
    pq.write_table(table, tmp_path / "log.parquet")
    for source in (table, tmp_path / "log.parquet", write_csv(table, tmp_path / "log.csv")):
        batch = Source(source, problem).read()
        assert batch.cluster is not None and batch.cluster.dtype.names == ("person", "site")
        assert len(np.unique(batch.cluster)) == 60
        assert batch.cluster[13].tolist() == ("p1", 1)
        again = to_table(batch, problem)
        assert again["person"].to_pylist() == table["person"].to_pylist()
        assert again["site"].to_pylist() == table["site"].to_pylist()
        prior = Split(fraction=0.5).prior(problem, batch)
        assert not set(batch.cluster[prior].tolist()) & set(batch.cluster[~prior].tolist())
    mixed = table.set_column(0, "visit", [np.arange(240) // 2])
    with pytest.raises(LogError, match=r"row 2, column 'person': found 'p1', but 'p0' .* in the same episode; the cluster"):
        Source(mixed, problem).read()
    with pytest.raises(LogError, match=r"60 of the 60 clusters \(columns 'person', 'site'\) have episodes before and after"):
        Source(table, problem).with_cut(Split("time"))
    with pytest.raises(LogError, match=r"'site' \(cluster\)"):
        Source(table.drop_columns(["site"]), problem).read()


def test_a_cluster_is_the_same_in_all_rows_of_an_episode() -> None:
    problem = parse_problem(
        "episode: v\ncluster: {column: m, most: 5}\nreward: {column: r}\nlevels: [{name: a, action: {column: x, values: [0, 1]}}]"
    )
    table = pa.table({"v": [1, 1, 2], "m": ["a", "a", "b"], "x": [0, 1, 1], "r": [1.0, 1.0, 1.0]})
    assert Source(table, problem).read().cluster.tolist() == ["a", "b"]  # type: ignore[union-attr]
    with pytest.raises(
        LogError, match=r"row 2, column 'm': found 'b', but 'a' at frame 1, row 1, in the same episode; the cluster"
    ):
        Source(table.set_column(1, "m", pa.array(["a", "b", "b"])), problem).read()


def test_an_id_of_several_columns_tells_episodes_apart_by_all_of_them() -> None:
    problem = parse_problem("episode: [s, v]\nreward: {column: r}\nlevels: [{name: a, action: {column: x, values: [0, 1]}}]")
    table = pa.table({"s": ["a", "a", "b", "b"], "v": [1, 2, 2, 1], "x": [0, 1, 1, 0], "r": [1.0, 2.0, 3.0, 4.0]})
    for batch in (Source(table, problem).read(), concat(list(Source(table, problem).batches(rows=1)))):
        assert batch.episode.tolist() == [("a", 1), ("a", 2), ("b", 2), ("b", 1)]
        assert batch.reward is not None and batch.reward.tolist() == [1, 2, 3, 4]


def test_swapped_ids_are_found_by_what_belongs_to_their_episode() -> None:
    problem = PROBLEMS["nested"]
    table = to_table(random_batch(problem, stream(3, "swapped"), 6), problem)
    ids = table["batch"].to_pylist()
    first, second = ids.index(1), len(ids) - 1 - ids[::-1].index(2)
    ids[first], ids[second] = ids[second], ids[first]
    with pytest.raises(LogError, match=r"in the same (episode|decision)|again, after"):
        Source(table.set_column(0, "batch", pa.array(ids)), problem).read()


# ---- ids in words, which Parquet keeps in dictionaries ---------------------------------------------------------------


@pytest.mark.parametrize("rows", [3, 1000])
@pytest.mark.parametrize("coded", [False, True])
@pytest.mark.parametrize("mixed", [False, True])
def test_decision_ids_in_words_are_those_in_numbers(rows: int, coded: bool, mixed: bool, tmp_path: Path) -> None:
    """Small row groups have dictionaries of their own: a code means another id in each of them."""
    problem = PROBLEMS["nested"]
    rng = stream(4, "words")
    batch = random_batch(problem, rng, 30, text_ids=True)
    table = to_table(batch, problem)
    for name in ("run", "step"):
        words = pa.array([f"{name}-{value}" for value in table[name].to_pylist()])
        table = table.set_column(table.column_names.index(name), name, words)
    if mixed:
        table = shuffled(table, rng)
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=7, use_dictionary=coded)
    source = Source(tmp_path / "log.parquet", problem)
    expected = by_id(batch)
    assert_same(by_id(source.read()), expected)
    assert_same(by_id(concat(list(source.batches(rows=rows)))), expected)


def test_missing_ids_in_dictionaries_are_missing(tmp_path: Path) -> None:
    problem = PROBLEMS["nested"]
    table = to_table(random_batch(problem, stream(5, "missing"), 5), problem)
    runs = [None if row == 4 else f"r{value}" for row, value in enumerate(table["run"].to_pylist())]
    shapes = [None if row == 6 else value for row, value in enumerate(table["shape"].to_pylist())]
    table = table.set_column(table.column_names.index("run"), "run", pa.array(runs))
    table = table.set_column(table.column_names.index("shape"), "shape", pa.array(shapes))
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(LogError) as caught:
        Source(tmp_path / "log.parquet", problem).read()
    lines = str(caught.value).splitlines()
    assert "row 5, column 'run': the decision id of level 'recipe' is missing" in lines[0]
    assert "row 7, column 'shape': the context of level 'recipe' is missing" in lines[1]


def test_what_was_read_may_be_written_into() -> None:
    table = to_table(random_batch(PROBLEMS["flat"], stream(6, "own"), 5), PROBLEMS["flat"]).combine_chunks()
    batch = Source(table, PROBLEMS["flat"]).read()
    before = np.asarray(table["age"].to_numpy()).copy()
    batch.levels["dose"].context["age"][:] = 0
    np.testing.assert_array_equal(table["age"].to_numpy(), before)
