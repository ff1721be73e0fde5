"""Logs in an object store, read from a server that speaks S3: the same rows, parts, keys and digests as from local files."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from log_samples import PROBLEMS, assert_same, random_batch
from stores import KEY, SECRET, Store

from aegis.errors import LogError
from aegis.logs import LogFile, Source, draft_problem, log_digest, read_contexts, to_table
from aegis.logs.formats.parquet import ParquetLog
from aegis.logs.object_store import RemoteFile, parse_address
from aegis.problem import parse_problem
from aegis.rng import stream

FLAT = PROBLEMS["flat"]
BATCH = random_batch(FLAT, stream(1, "stores"), 40)
TABLE = to_table(BATCH, FLAT)


def opened(given: object) -> tuple[LogFile, ...]:
    """Return the files of a log, ready to be read."""
    return tuple(part.open() for part in Source(given, FLAT).files)


def parquet(table: pa.Table, **options: object) -> bytes:
    out = pa.BufferOutputStream()
    pq.write_table(table, out, **options)
    return out.getvalue().to_pybytes()


def text(table: pa.Table) -> bytes:
    out = pa.BufferOutputStream()
    pa.csv.write_csv(table, out)
    return out.getvalue().to_pybytes()


FORMS = {
    "log.parquet": parquet(TABLE),
    "groups.pq": parquet(TABLE, row_group_size=7),
    "log.csv": text(TABLE),
    "log.csv.gz": gzip.compress(text(TABLE)),
    "LOG.CSV.GZ": gzip.compress(text(TABLE)),
    "a b%20ä.csv": text(TABLE),
}


@pytest.mark.parametrize("name", FORMS)
def test_an_object_is_read_like_a_file(name: str, store: Store, tmp_path: Path) -> None:
    store.put(f"forms/{name}", FORMS[name])
    (tmp_path / name).write_bytes(FORMS[name])
    address = f"s3://forms/{quote(name)}"
    assert_same(Source(address, FLAT).read(), BATCH)
    assert log_digest(address) == log_digest(tmp_path / name)
    here, there = list(Source(tmp_path / name, FLAT).batches(rows=9)), list(Source(address, FLAT).batches(rows=9))
    assert [batch.episode.tolist() for batch in there] == [batch.episode.tolist() for batch in here]
    assert list(Source(address, FLAT).dialects.values()) == list(Source(tmp_path / name, FLAT).dialects.values())
    assert Source(address, FLAT).names == Source(tmp_path / name, FLAT).names


def test_repeated_texts_come_packed_from_there_as_from_here(store: Store, tmp_path: Path) -> None:
    table = pa.table({"id": ["a long text"] * 600 + ["another long text"] * 600, "x": list(range(1200))})
    content = parquet(table, row_group_size=100)
    (tmp_path / "x.parquet").write_bytes(content)
    address = store.put("packed/x.parquet", content)

    def blocks(given: object) -> list[pa.Table]:
        (file,) = opened(given)
        return list(file.blocks(["id", "x"], 250, ["id"]))

    here, there = blocks(tmp_path / "x.parquet"), blocks(address)
    assert all(pa.types.is_dictionary(block["id"].type) for block in [*here, *there])
    assert pa.concat_tables(here).to_pydict() == pa.concat_tables(there).to_pydict() == table.to_pydict()


def test_parquet_is_fetched_by_column_not_by_page(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = pa.table({f"c{number}": pa.array(range(5000), pa.int64()) for number in range(20)})
    address = store.put("pages/x.parquet", parquet(wide, row_group_size=2500, data_page_size=1024, use_dictionary=False))
    (file,) = opened(address)
    assert isinstance(file, ParquetLog)
    handle = file.place.seekable()
    reads = []

    class Counting:  # a file for Arrow that counts what is asked of it
        closed = False

        def read(self, size: int | None = None) -> bytes:
            reads.append(size)
            return handle.read(size)

        def __getattr__(self, name: str) -> object:
            return getattr(handle, name)

    monkeypatch.setattr(type(file.place), "seekable", lambda self: pa.PythonFile(Counting(), mode="r"))
    assert sum(block.num_rows for block in file.blocks(list(wide.column_names), 1000)) == 5000
    assert len(reads) <= 2 * 20 + 3  # a column of each row group, and the footer; there are some 800 pages


@pytest.fixture
def folder(store: Store) -> str:
    """A "folder" with the log in three pieces, and much that is no log."""
    pieces = [TABLE.slice(start, 30) for start in range(0, TABLE.num_rows, 30)]
    store.put("tree/logs/a.parquet", parquet(pieces[0]))
    store.put("tree/logs/b/2.csv", text(pieces[1]))
    store.put("tree/logs/b/deep/3.csv.gz", gzip.compress(text(pa.concat_tables(pieces[2:]))))
    for name in ("_SUCCESS", ".hidden.csv", "_meta.parquet", "notes.md", "_delta/x.csv", ".cache/y.csv"):
        store.put(f"tree/logs/{name}", b"not a log")
    store.put("tree/other/z.csv", text(TABLE))
    return "s3://tree/logs"


def names(*paths: str) -> list[str]:
    return [str(part).removeprefix("s3://tree/") for part in Source(list(paths), FLAT).files]


def test_a_folder_is_all_logs_below_it_sorted_by_path(folder: str) -> None:
    for given in (folder, f"{folder}/"):
        assert names(given) == ["logs/a.parquet", "logs/b/2.csv", "logs/b/deep/3.csv.gz"]
        assert_same(Source(given, FLAT).read(), BATCH)
    assert names("s3://tree") == ["logs/a.parquet", "logs/b/2.csv", "logs/b/deep/3.csv.gz", "other/z.csv"]


def test_patterns(folder: str) -> None:
    assert names(f"{folder}/*.parquet") == ["logs/a.parquet"]
    assert names(f"{folder}/**/*.csv*") == ["logs/b/2.csv", "logs/b/deep/3.csv.gz"]
    assert names("s3://tree/*/*/?.csv") == ["logs/b/2.csv"]
    assert names("s3://tree/l*s/[b]") == ["logs/b/2.csv", "logs/b/deep/3.csv.gz"]
    assert names(f"{folder}/_m*") == ["logs/_meta.parquet"]
    assert names("s3://tree/o*", f"{folder}/b") == ["other/z.csv", "logs/b/2.csv", "logs/b/deep/3.csv.gz"]
    for pattern in ("s3://tree/*.csv", f"{folder}/none/*.csv", "s3://nobucket/*.csv"):
        with pytest.raises(LogError, match=r"no file matches 's3://.*'; check the folder and the pattern"):
            names(pattern)


def test_an_object_that_looks_like_a_pattern_is_an_object(store: Store) -> None:
    store.put("odd/[a].csv", text(TABLE))
    assert_same(Source("s3://odd/[a].csv", FLAT).read(), BATCH)


def test_an_object_that_comes_twice_is_refused(folder: str, store: Store) -> None:
    again = f"s3://{KEY}:{SECRET}@tree/logs/a.parquet?endpoint_override={store.endpoint}&scheme=http"
    for given in ([folder, f"{folder}/*.parquet"], [f"{folder}/a.parquet", again]):
        with pytest.raises(LogError, match=r"s3://tree/logs/a\.parquet is given twice"):
            Source(given, FLAT).read()


def test_local_files_frames_and_objects_make_one_log(folder: str, tmp_path: Path) -> None:
    pieces = [TABLE.slice(start, 30) for start in range(0, TABLE.num_rows, 30)]
    pq.write_table(pieces[1], tmp_path / "two.parquet")
    given = [f"{folder}/a.parquet", tmp_path / "two.parquet", pa.concat_tables(pieces[2:])]
    assert_same(Source(given, FLAT).read(), BATCH)


def test_a_folder_without_logs_says_what_it_has(store: Store) -> None:
    store.put("bare/here/log.xlsx", b"x")
    with pytest.raises(LogError, match=r"s3://bare/here: no file in this folder ends in \.parquet.*; it has log\.xlsx"):
        Source("s3://bare/here", FLAT).read()


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


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_folders_add_columns_and_belong_to_the_digest(form: str, store: Store, tmp_path: Path) -> None:
    for site, day, visits in (("north%20west", 7, [1, 2]), ("100%25", 12, [2, 3])):
        table = pa.table({"visit": visits, "dose": [1, 2], "score": [0.5, 1.0]})
        content = text(table) if form == "csv" else parquet(table)
        (tmp_path / f"site={site}" / f"day={day}").mkdir(parents=True)
        (tmp_path / f"site={site}" / f"day={day}" / f"log.{form}").write_bytes(content)
        store.put(f"hive/{form}/site={site}/day={day}/log.{form}", content)
    here, there = Source(tmp_path, KEYED), Source(f"s3://hive/{form}", KEYED)
    assert there.read().episode.tolist() == [("100%", 2), ("100%", 3), ("north west", 1), ("north west", 2)]
    assert_same(there.read(["day"]), here.read(["day"]))
    assert [part.digest() for part in there.files] == [part.digest() for part in here.files]
    # What is shown of a part can be given again, percent signs of its key and all.
    assert str(there.files[0]).startswith(f"s3://hive/{form}/site=100%2525/")
    assert Source([str(part) for part in there.files], KEYED).files[0].open().names == ("visit", "dose", "score")


def test_contexts_and_drafts_are_read_from_there(store: Store) -> None:
    address = store.put("contexts/x.csv", text(TABLE))
    batch, rows = read_contexts(address, FLAT, "dose")
    assert len(batch) == rows.num_rows == TABLE.num_rows
    assert "x.csv" in draft_problem(address).text


def test_options_in_the_address_lead_to_the_store(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    store.put("opted/x.csv", text(TABLE))
    for name in ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for secret in (SECRET, quote(SECRET, safe="")):
        where = f"s3://{KEY}:{secret}@opted/*.csv?endpoint_override={store.endpoint}&scheme=http&region=us-east-1"
        source = Source(where, FLAT)
        assert_same(source.read(), BATCH)
        assert [str(part) for part in source.files] == ["s3://opted/x.csv"]
        assert SECRET not in repr(source) + repr(source.files) and KEY not in repr(source) + repr(source.files)


# ---- what goes wrong -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["nobucket/x.csv", "forms/none.parquet", "forms/none.csv.gz", "nobucket", "forms/none/"])
def test_what_is_not_there_is_named(path: str, store: Store) -> None:
    store.put("forms/log.csv", FORMS["log.csv"])
    with pytest.raises(LogError, match=rf"s3://{path.rstrip('/')} does not exist; check bucket and key"):
        Source(f"s3://{path}", FLAT).read()
    if path.endswith(("csv", "gz", "parquet")):
        with pytest.raises(LogError, match=rf"s3://{path} does not exist; check bucket and key"):
            log_digest(f"s3://{path}")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("log.parquet", FORMS["log.parquet"][:-100]),
        ("log.csv.gz", FORMS["log.csv.gz"][:-100]),
        ("log.csv", b""),
        ("empty.parquet", b""),
    ],
)
def test_a_truncated_object_is_said_to_be(name: str, content: bytes, store: Store) -> None:
    address = store.put(f"short/{name}", content)
    with pytest.raises(LogError, match=rf"s3://short/{name}: cannot be read as .*\(truncated, damaged or something else\?\)"):
        Source(address, FLAT).read()


@pytest.mark.parametrize("name", ["log.csv", "groups.pq"])
def test_an_object_that_is_written_while_it_is_read_is_refused(name: str, store: Store) -> None:
    address = store.put(f"moving/{name}", FORMS[name])
    file: LogFile
    (file,) = opened(address)
    blocks = file.blocks(["visit"], 5)
    next(blocks)
    other = TABLE.slice(10)
    store.put(f"moving/{name}", text(other) if name.endswith("csv") else parquet(other, row_group_size=7))
    with pytest.raises(LogError, match=rf"s3://moving/{name} was written again while it was read; start again"):
        list(blocks)
    with pytest.raises(LogError, match="was written again while it was read"):
        list(file.blocks(["visit"], 5))
    assert sum(block.num_rows for block in opened(address)[0].blocks(["visit"], 5)) == other.num_rows


def test_a_log_that_is_written_between_two_passes_is_looked_at_again(store: Store) -> None:
    address = store.put("again/log.csv", text(TABLE))
    source = Source(address, FLAT)
    assert_same(source.read(), BATCH)
    more = random_batch(FLAT, stream(2, "stores"), 3)
    store.put("again/log.csv", text(to_table(more, FLAT)))
    assert_same(source.read(), more)


def test_an_object_that_is_written_while_it_is_recognised_is_refused(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    address = store.put("moving/first.csv.gz", FORMS["log.csv.gz"])

    def writing(stream: Callable[[RemoteFile], object]) -> Callable[[RemoteFile], object]:
        def opened(self: RemoteFile) -> object:
            store.put("moving/first.csv.gz", FORMS["log.csv.gz"][:-50])  # in the middle of an upload, say
            return stream(self)

        return opened

    monkeypatch.setattr(RemoteFile, "open", writing(RemoteFile.open))
    monkeypatch.setattr(RemoteFile, "unpacked", writing(RemoteFile.unpacked))
    with pytest.raises(LogError, match=r"s3://moving/first\.csv\.gz was written again while it was read"):
        Source(address, FLAT).read()
    store.put("moving/first.csv.gz", FORMS["log.csv.gz"])
    with pytest.raises(LogError, match="was written again while it was read"):
        log_digest(address)


def test_a_version_of_the_same_size_is_another_one(store: Store) -> None:
    place = RemoteFile(parse_address(store.put("sizes/x.csv", b"a,b\n1,2\n")))
    before = place.stamp()
    store.put("sizes/x.csv", b"a,b\n1,3\n")
    assert place.stamp() != before
