"""Checksums of rows: one changed row is named, more of them by the range they are in, in whatever order batches come."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_logs import better_policy, make_table, problem_of, replaced, saved

from aegis.certificate import Candidate, certify, digests, verify
from aegis.certificate.digests import LEAST_ROWS, MOST_BLOCKS, PRIME, RowChecksums, changed_rows, rows_begin_with, rows_reordered
from aegis.logs import Source
from case_choice import few


def blocks(hashes: np.ndarray, most: int = MOST_BLOCKS, seed: int = 0) -> dict[str, Any]:
    """Return the blocks of rows with these hashes, which come in some order."""
    order = np.random.default_rng(seed).permutation(hashes.size)
    return digests._blocks(order + 1, hashes[order], most)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5000), st.data(), st.sampled_from([1, 4, MOST_BLOCKS]))
def test_one_changed_row_is_named(count: int, data: st.DataObject, most: int) -> None:
    rng = np.random.default_rng(count)
    hashes = rng.integers(0, PRIME, count)
    row = data.draw(st.integers(0, count - 1))
    other = hashes.copy()
    other[row] = (other[row] + data.draw(st.integers(1, PRIME - 1))) % PRIME
    assert changed_rows(blocks(hashes, most), blocks(hashes, most, 1)) == []
    assert changed_rows(blocks(hashes, most), blocks(other, most, 2)) == [f"row {row + 1}: changed"]


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 3000), st.integers(0, 100), st.sampled_from([1, 4, MOST_BLOCKS]))
def test_rows_in_another_order_are_told_from_changed_ones(count: int, seed: int, most: int) -> None:
    rng = np.random.default_rng(seed)
    hashes = rng.integers(0, PRIME, count)
    moved = np.roll(hashes, 1 + seed % (count - 1))
    assert rows_reordered(blocks(hashes, most), blocks(moved, most, 1)) and not rows_reordered(
        blocks(hashes, most), blocks(hashes, most, 1)
    )
    moved[0] = (moved[0] + 1) % PRIME
    assert not rows_reordered(blocks(hashes, most), blocks(moved, most, 1))
    assert not rows_reordered(blocks(hashes, most), blocks(hashes[1:], most, 1))


def test_two_changes_are_not_taken_for_one_between_them() -> None:
    hashes = np.random.default_rng(1).integers(0, PRIME - 1, 100)
    other = hashes.copy()
    other[[2, 4]] += 1  # as if row 4 had changed by 2
    assert changed_rows(blocks(hashes), blocks(other)) == ["rows 1 to 32: several changed"]


@settings(max_examples=40, deadline=None)
@given(st.integers(200, 3000), st.integers(2, 9), st.integers(0, 100))
def test_several_changed_rows_are_named_or_in_a_range_that_is(count: int, changes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    hashes = rng.integers(0, PRIME, count)
    changed = rng.choice(count, changes, replace=False)
    other = hashes.copy()
    other[changed] = (other[changed] + 1 + rng.integers(0, PRIME - 1, changes)) % PRIME
    covered: set[int] = set()
    for text in changed_rows(blocks(hashes), blocks(other)):
        numbers = [int(word.rstrip(":")) for word in text.split() if word.rstrip(":").isdigit()]
        assert len(numbers) == (1 if text.startswith("row ") else 2)
        covered |= set(range(numbers[0], numbers[-1] + 1))
    assert {int(row) + 1 for row in changed} <= covered
    assert len(covered) <= changes * LEAST_ROWS * max(1, -(-count // (LEAST_ROWS * MOST_BLOCKS)))


@pytest.mark.parametrize(("before", "after"), [(500, 499), (500, 501), (1000, 40_000), (40_000, 100)])
def test_another_number_of_rows_is_told_with_the_first_block_that_differs(before: int, after: int) -> None:
    hashes = np.random.default_rng(1).integers(0, PRIME, max(before, after))
    was, now = blocks(hashes[:before]), blocks(hashes[:after])
    (text,) = changed_rows(was, now)
    size = max(was["size"], now["size"])
    first = min(before, after) // size * size + 1
    assert text.startswith(f"{before} rows before, {after} now") and f"rows {first} to " in text
    removed = np.delete(hashes[:before], 70)
    (text,) = changed_rows(was, blocks(removed))
    assert "the first difference is in rows 65 to 96" in text or before > 32 * MOST_BLOCKS


def test_a_log_begins_with_an_earlier_one() -> None:
    hashes = np.random.default_rng(1).integers(0, PRIME, 200_000)
    long = blocks(hashes)
    for count in (256, 1000, 70_000):
        assert rows_begin_with(long, blocks(hashes[:count])) and rows_begin_with(blocks(hashes[:count]), long)
    other = hashes.copy()
    other[3] += 1
    assert not rows_begin_with(long, blocks(other[:1000]))
    assert not rows_begin_with(long, blocks(hashes[:20]))  # too few to tell


def test_sums_do_not_depend_on_batches_or_their_order() -> None:
    source = Source(make_table(120), problem_of())
    found = []
    for size in (10**6, 50):
        sums, parts = RowChecksums(), list(source.batches(rows=size))
        for batch in parts[::-1]:
            sums.add(batch)
        found.append(sums.files(1))
    assert found[0] == found[1] and found[0] is not None
    assert found[0][0]["rows"] == 360 and len(found[0][0]["sums"]) == 12 * 24


def test_many_files_share_the_blocks_and_long_logs_go_without(monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(200)
    source = Source([table.slice(0, 300), table.slice(300, 150), table.slice(450)], problem_of())
    monkeypatch.setattr(digests, "MOST_BLOCKS", 6)
    sums = RowChecksums()
    for batch in source.batches(rows=64):
        sums.add(batch)
    found = sums.files(3)
    assert found is not None
    assert [(item["rows"], item["size"], len(item["sums"]) // 24) for item in found] == [
        (300, 256, 2),
        (150, 128, 2),
        (150, 128, 2),
    ]
    monkeypatch.setattr(digests, "MOST_HASHED_ROWS", 599)
    sums = RowChecksums()
    for batch in source.batches(rows=64):
        sums.add(batch)
    assert sums.files(3) is None


CHANGES = {
    "reward": ("margin", 117, lambda value: value / 2),
    "context": ("temperature", 0, lambda value: value + 1e-9),
    "context of an outer level": ("task", 30, lambda value: "fine" if value == "plain" else "plain"),
    "guard": ("scrap", 269, lambda value: 0.5),
    "propensity": ("p_dose", 100, lambda value: value * (1 + 1e-12)),
}


CHANGED = list(itertools.product(CHANGES, ["parquet", "csv"]))


@pytest.mark.parametrize(("change", "form"), few(CHANGED, CHANGED[::3]))
def test_the_changed_row_of_a_log_is_named(change: str, form: str, tmp_path: Any) -> None:
    """Rows are counted from 1, without the header; outer contexts are repeated, so that a decision is changed in its rows."""
    column, row, alter = CHANGES[change]
    problem = problem_of(full=False, head="guards: [{column: scrap, range: [0, 1], max_worsening: 0.1}]")
    table = make_table(90)
    changed = table[column].to_pylist()
    for place in range(row, row + 3) if column == "task" else [row]:
        changed[place] = alter(changed[place])

    def written(content: pa.Table, name: str) -> Source:
        path = tmp_path / name / f"log.{form}"
        path.parent.mkdir()
        pq.write_table(content, path) if form == "parquet" else csv.write_csv(content, path)
        return Source(path, problem)

    candidate = Candidate(better_policy(problem), "mine")
    content = certify(written(table, "before"), candidate, ledger=False).to_json()
    found = verify(content, written(replaced(table, column, changed), "after"), [candidate])
    said = [str(item) for item in found.differences]
    expected = f"log.{form}, rows 1 to 32: several changed" if column == "task" else f"log.{form}, row {row + 1}: changed"
    if column == "task":
        expected = next(text for text in said if text.startswith(f"log.{form}, rows "))
        assert "several changed" in expected
    assert expected in said
    assert sum(text.startswith(f"log.{form}, row") for text in said) <= 2


def test_rows_that_came_or_went_are_told(tmp_path: Any) -> None:
    table, problem = make_table(90), problem_of()
    candidate = Candidate(better_policy(problem), "mine")
    content = certify(Source(saved(table, tmp_path / "log.parquet"), problem), candidate, ledger=False).to_json()
    for name, other, number in (
        ("more", pa.concat_tables([table, make_table(100).slice(270)]), 300),
        ("less", table.slice(3), 267),
    ):
        (tmp_path / name).mkdir()
        found = verify(content, Source(saved(other, tmp_path / name / "log.parquet"), problem), [candidate])
        assert any(f"270 rows before, {number} now" in item.what for item in found.differences)


def test_a_certificate_without_checksums_is_still_compared(tmp_path: Any) -> None:
    table, problem = make_table(90), problem_of()
    candidate = Candidate(better_policy(problem), "mine")
    content = certify(Source(table, problem), candidate, ledger=False).to_json()
    del content["diagnostics"]["rows"]
    assert verify(content, Source(table, problem), [candidate]).holds
    found = verify(content, Source(replaced(table, "margin", np.full(270, 0.5)), problem), [candidate])
    assert "the log: frame 1" in [item.what for item in found.differences]
