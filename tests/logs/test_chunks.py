"""A log in pieces: every episode once and whole, wherever files, row groups and blocks end."""

from __future__ import annotations

import dataclasses
import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aegis.errors import LogError
from aegis.logs import LogChunks, Source
from aegis.logs.formats import base
from aegis.problem import Batch, Problem, concat, parse_problem

PROBLEM = parse_problem(
    """
episode: id
reward: {column: r, range: [0, 1000]}
levels:
  - name: dose
    context: [x]
    action: {column: a, values: [0, 1]}
    propensity: {column: p}
"""
)


def table_of(sizes: list[int], ids: list[str]) -> pa.Table:
    """Return a log with so many rows in each episode; the reward numbers the rows."""
    owner = np.repeat(np.arange(len(sizes)), sizes)
    rows = np.arange(owner.size)
    return pa.table(
        {"id": [ids[k] for k in owner], "x": rows * 0.5, "a": rows % 2, "p": np.full(rows.size, 0.5), "r": rows.astype(float)}
    )


def written(folder: Path, table: pa.Table, cuts: list[int], group: int) -> list[Path]:
    """Write a table in several files, cut before these rows."""
    bounds = sorted({0, table.num_rows, *[cut % table.num_rows for cut in cuts]})
    paths = []
    for number, (start, stop) in enumerate(itertools.pairwise(bounds)):
        paths.append(folder / f"{number}.parquet")
        pq.write_table(table.slice(start, stop - start), paths[-1], row_group_size=group)
    return paths


def all_episodes(pieces: LogChunks) -> Iterator[Batch]:
    edges = pieces.edges()
    for number in range(len(pieces)):
        reading = pickle.loads(pickle.dumps(pieces)).read(number)
        yield from reading
        yield from edges.add(reading.ends)
    yield from edges.close()


def by_episode(batch: Batch) -> dict[str, list[float]]:
    found: dict[str, list[float]] = {}
    for episode, reward in zip(batch.episode[batch.episode_of("dose")], batch.reward, strict=True):
        found.setdefault(str(episode), []).append(float(reward))
    return found


def pieces_of(paths: list[Path], problem: Problem = PROBLEM, rows: int = 5) -> LogChunks:
    found = Source(paths, problem).chunks()
    assert found is not None
    return dataclasses.replace(found, rows=rows)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    sizes=st.lists(st.integers(1, 12), min_size=2, max_size=14),
    cuts=st.lists(st.integers(1, 200), max_size=3),
    group=st.integers(1, 9),
    piece=st.integers(1, 20),
    rows=st.integers(1, 9),
    shuffled=st.booleans(),
)
def test_every_episode_comes_once_and_whole(
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    sizes: list[int],
    cuts: list[int],
    group: int,
    piece: int,
    rows: int,
    shuffled: bool,
) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", piece)
    names = [f"e{k:03d}" for k in range(len(sizes))]
    table = table_of(sizes, names[::-1] if shuffled else names)  # ids that grow, and ids that do not
    paths = written(tmp_path_factory.mktemp("pieces"), table, cuts, group)
    source = Source(paths, PROBLEM)
    found = source.chunks()
    if found is None:
        assert sum(sizes) < 2 * piece or len(sizes) < 2 or group >= sum(sizes)
        return
    batches = list(all_episodes(dataclasses.replace(found, rows=rows)))
    whole = concat(batches)
    assert len(whole) == len(sizes)
    assert by_episode(whole) == by_episode(source.read())


def test_an_episode_may_be_longer_than_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 10)
    paths = written(tmp_path, table_of([3, 95, 4], ["a", "b", "c"]), [], 5)
    pieces = pieces_of(paths)
    assert len(pieces) >= 10
    assert [len(rows) for rows in by_episode(concat(list(all_episodes(pieces)))).values()] == [3, 95, 4]


def test_no_pieces_of_short_or_scattered_logs_and_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of([4] * 10, [f"e{k}" for k in range(10)])
    assert Source(written(tmp_path, table, [], 5), PROBLEM).chunks() is None
    monkeypatch.setattr(base, "CHUNK_ROWS", 8)
    assert pieces_of(written(tmp_path, table, [], 4)).ranges
    assert Source(table, PROBLEM).chunks() is None
    scattered = table.take(pa.array(np.argsort(np.arange(40) % 4, kind="stable")))
    assert Source(written(tmp_path, scattered, [], 4), PROBLEM).chunks() is None


def test_files_of_text_are_pieces_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 8)
    table = table_of([4] * 10, [f"e{k}" for k in range(10)]).to_pylist()
    lines = [",".join(table[0]), *[",".join(str(value) for value in row.values()) for row in table]]
    paths = []
    for number, (start, stop) in enumerate([(1, 15), (15, 30), (30, 41)]):
        paths.append(tmp_path / f"{number}.csv")
        paths[-1].write_text("\n".join([lines[0], *lines[start:stop]]) + "\n")
    pieces = pieces_of(paths)
    assert len(pieces) == 3
    assert by_episode(concat(list(all_episodes(pieces)))) == by_episode(Source(paths, PROBLEM).read())


def test_a_fault_in_a_later_piece_names_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 8)
    table = table_of([4] * 10, [f"e{k}" for k in range(10)])
    chances = table["p"].to_pylist()
    chances[29] = 1.5
    paths = written(tmp_path, table.set_column(3, "p", pa.array(chances)), [], 4)
    with pytest.raises(LogError, match=r"0\.parquet, row 30, column 'p'"):
        list(all_episodes(pieces_of(paths)))
