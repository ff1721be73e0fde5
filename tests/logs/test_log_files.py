"""Files, folders, patterns: which parts a log has, in which order, and what folders say about them."""

from __future__ import annotations

import gzip
from hashlib import sha256
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from log_samples import PROBLEMS, assert_same, random_batch, write_csv

from aegis.errors import LogError
from aegis.logs import Source, log_digest, part_digests, to_table
from aegis.problem import Batch, parse_problem
from aegis.rng import stream

FLAT = PROBLEMS["flat"]
BATCH = random_batch(FLAT, stream(1, "parts"), 12)
TABLE = to_table(BATCH, FLAT)


def pieces(count: int) -> list[pa.Table]:
    step = -(-TABLE.num_rows // count)
    return [TABLE.slice(start, step) for start in range(0, TABLE.num_rows, step)]


def names(paths: object) -> list[str]:
    return [part.name for part in Source(paths, FLAT).files]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the log in five formats, and much that is no log."""
    place = tmp_path / "logs"
    (place / "b" / "deep").mkdir(parents=True)
    (place / "_delta").mkdir()
    (place / ".cache").mkdir()
    one, two, three, four, five = pieces(5)
    pq.write_table(one, place / "a.parquet")
    pa.csv.write_csv(two, place / "b" / "2.csv")
    pq.write_table(three, place / "b" / "3.PQ")
    text = pa.BufferOutputStream()
    pa.csv.write_csv(four, text)
    (place / "b" / "deep" / "4.csv.gz").write_bytes(gzip.compress(text.getvalue().to_pybytes()))
    pa.csv.write_csv(five, place / "c.tsv", pa.csv.WriteOptions(delimiter="\t"))
    for other in ("_SUCCESS", ".hidden.csv", "_meta.parquet", "notes.md", "_delta/x.csv", ".cache/y.csv"):
        (place / other).write_text("not a log")
    return place


def test_a_folder_is_all_logs_in_it_sorted_by_path(folder: Path) -> None:
    assert names(folder) == ["a.parquet", "2.csv", "3.PQ", "4.csv.gz", "c.tsv"]
    assert_same(Source(folder, FLAT).read(), BATCH)
    assert_same(Source(str(folder), FLAT).read(), BATCH)


def test_files_folders_and_patterns_go_together_in_the_order_given(folder: Path) -> None:
    assert names([folder / "c.tsv", folder / "b", str(folder / "*.parquet")]) == [
        "c.tsv",
        "2.csv",
        "3.PQ",
        "4.csv.gz",
        "a.parquet",
    ]
    assert names(str(folder / "**" / "*.csv*")) == ["2.csv", "4.csv.gz"]
    assert names(folder / "?.t*") == ["c.tsv"]
    assert names(folder / "_m*") == ["_meta.parquet"]


def test_a_pattern_may_match_folders_and_a_file_may_look_like_a_pattern(folder: Path) -> None:
    assert names(str(folder / "[b]")) == ["2.csv", "3.PQ", "4.csv.gz"]
    pq.write_table(TABLE, folder / "[a].parquet")
    assert names(str(folder / "[a].parquet")) == ["[a].parquet"]


@pytest.mark.parametrize("pattern", ["*.parqet", "none/*.csv", "[x-z].csv"])
def test_a_pattern_without_a_match_is_refused(pattern: str, folder: Path) -> None:
    with pytest.raises(LogError, match=r"no file matches '.*'; check the folder and the pattern"):
        Source(str(folder / pattern), FLAT).read()


def test_a_folder_without_logs_says_what_it_has(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"no file in this folder ends in \.parquet"):
        Source(tmp_path, FLAT).read()
    (tmp_path / "log.xlsx").write_text("x")
    with pytest.raises(LogError, match=r"ends in \.parquet.*; it has log\.xlsx"):
        Source(tmp_path, FLAT).read()


def test_a_file_that_comes_twice_is_refused(folder: Path) -> None:
    for given in ([folder / "a.parquet", folder / "b" / ".." / "a.parquet"], [folder, str(folder / "*.tsv")]):
        with pytest.raises(LogError, match="is given twice; its rows would be counted twice"):
            Source(given, FLAT).read()


def test_links_to_folders_are_followed_but_not_in_circles(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "linked").symlink_to(folder / "b", target_is_directory=True)
    (other / "round").symlink_to(other, target_is_directory=True)
    assert names(other) == ["2.csv", "3.PQ", "4.csv.gz"]


@pytest.mark.parametrize("given", [7, [7], [["log.csv"]], None])
def test_what_is_neither_path_nor_frame_is_refused(given: object) -> None:
    with pytest.raises(LogError, match=r"a log is given as files, folders, patterns like 'logs/.*or as data frames; found"):
        Source(given, FLAT)


def test_a_source_can_be_made_of_the_parts_of_another(folder: Path) -> None:
    parts = Source(folder, FLAT).files
    assert_same(Source(parts, FLAT).read(), BATCH)
    assert [part.open().name for part in parts] == [str(part) for part in parts]


def test_a_file_that_appears_in_the_folder_is_seen(folder: Path) -> None:
    source = Source(folder, FLAT)
    before = len(source.read())
    more = random_batch(FLAT, stream(2, "parts"), 3, first=100)
    pq.write_table(to_table(more, FLAT), folder / "z.parquet")
    assert len(source.read()) == before + 3


# ---- folders that say something --------------------------------------------------------------------------------------

KEYED = parse_problem(
    """
episode: [site, visit]
time: day
reward: {column: score}
levels:
  - name: dose
    action: {column: dose, values: [1, 2]}
    propensity: {policy: uniform}
"""
)


def keyed(place: Path, form: str) -> Batch:
    for site, day, visits in (("north west", 7, [1, 2]), ("100%", 12, [2, 3])):
        where = place / f"site={site.replace(' ', '%20').replace('100%', '100%25')}" / f"day={day}"
        where.mkdir(parents=True)
        table = pa.table({"visit": visits, "dose": [1, 2], "score": [0.5, 1.0]})
        if form == "csv":
            write_csv(table, where / "log.csv")
        else:
            pq.write_table(table, where / "log.parquet")
    return Source(place, KEYED).read(["day"])


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_folders_add_columns_whole_numbers_where_they_look_like_it(form: str, tmp_path: Path) -> None:
    batch = keyed(tmp_path, form)
    assert batch.episode.tolist() == [("100%", 2), ("100%", 3), ("north west", 1), ("north west", 2)]
    assert batch.time is not None and batch.time.tolist() == [12, 12, 7, 7]
    assert batch.extra["day"].tolist() == [12, 12, 7, 7]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_streaming_sees_the_columns_of_folders(form: str, tmp_path: Path) -> None:
    whole = keyed(tmp_path, form)
    assert [b.episode.tolist() for b in Source(tmp_path, KEYED).batches(rows=1)] == [[e] for e in whole.episode.tolist()]


def test_a_column_of_the_file_comes_before_its_folder(tmp_path: Path) -> None:
    where = tmp_path / "site=a" / "day=1"
    where.mkdir(parents=True)
    write_csv(pa.table({"visit": [1], "dose": [1], "score": [0.5], "day": [99]}), where / "log.csv")
    batch = Source(tmp_path, KEYED).read()
    assert batch.time is not None and batch.time.tolist() == [99]


def test_a_folder_of_missing_values_is_missing(tmp_path: Path) -> None:
    where = tmp_path / "site=__HIVE_DEFAULT_PARTITION__" / "day=1"
    where.mkdir(parents=True)
    pq.write_table(pa.table({"visit": [1], "dose": [1], "score": [0.5]}), where / "log.parquet")
    with pytest.raises(LogError, match="column 'site': the episode id is missing"):
        Source(tmp_path, KEYED).read()


def test_a_file_given_by_itself_has_no_folders(tmp_path: Path) -> None:
    keyed(tmp_path, "csv")
    with pytest.raises(LogError, match=r"'site' .*'day'"):
        Source(str(tmp_path / "*" / "*" / "*.csv"), KEYED).read()


# ---- digests ---------------------------------------------------------------------------------------------------------


def test_the_digest_of_a_folder_is_that_of_its_files(folder: Path) -> None:
    files = [
        folder / "a.parquet",
        folder / "b" / "2.csv",
        folder / "b" / "3.PQ",
        folder / "b" / "deep" / "4.csv.gz",
        folder / "c.tsv",
    ]
    assert (
        log_digest(folder) == log_digest(files) == log_digest(Source(folder, FLAT).files) == log_digest([str(f) for f in files])
    )
    assert log_digest(files[:4]) != log_digest(files) != log_digest(files[::-1])
    assert log_digest(files) == sha256(b"".join(sha256(file.read_bytes()).digest() for file in files)).hexdigest()


def test_of_several_parts_that_cannot_be_read_the_first_is_named(folder: Path) -> None:
    parts = Source(folder, FLAT).files
    for name in ("c.tsv", "b/3.PQ"):
        (folder / name).unlink()
    with pytest.raises(LogError, match=r"3\.PQ"):
        part_digests(parts)


def test_what_folders_say_is_part_of_the_digest(tmp_path: Path) -> None:
    keyed(tmp_path / "one", "csv")
    before = log_digest(tmp_path / "one")
    (tmp_path / "one" / "site=100%25" / "day=12").rename(tmp_path / "one" / "site=100%25" / "day=13")
    assert log_digest(tmp_path / "one") != before
