"""Text files in every dialect give what Parquet gives; what cannot be decided is refused with what to do."""

from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_samples import PROBLEMS, assert_same, random_batch

from aegis.errors import LogError
from aegis.logs import Source, to_table
from aegis.logs.formats.csv import recognise_dialect
from aegis.problem import parse_problem
from aegis.rng import stream

SMALL = parse_problem(
    """
episode: visit
reward: {column: score}
levels:
  - name: dose
    context: [age, {column: ward, values: [Süd, Nord]}]
    action: {column: dose, values: [0.5, 1.5, 10]}
    propensity: {column: p}
"""
)
ROWS = [["visit", "age", "ward", "dose", "p", "score"], [1, 20.25, "Süd", 0.5, 0.5, 1.5], [2, 31, "Nord", 10, 0.25, None]]


def text_of(rows: list[list[Any]], separator: str = ",", decimal: str = ".", newline: str = "\n", quoting: int = 0) -> str:
    def field(value: Any) -> str:
        return "" if value is None else repr(value).replace(".", decimal) if isinstance(value, float) else str(value)

    sink = io.StringIO(newline="")
    csv.writer(sink, delimiter=separator, lineterminator=newline, quoting=quoting).writerows(
        [[field(value) for value in row] for row in rows]
    )
    return sink.getvalue()


def saved(path: Path, content: str | bytes, encoding: str = "utf-8") -> Path:
    path.write_bytes(content if isinstance(content, bytes) else content.encode(encoding))
    return path


def check_small(path: Path) -> None:
    batch = Source(path, SMALL).read()
    table = batch.levels["dose"]
    assert batch.episode.tolist() == [1, 2]
    assert table.context["age"].tolist() == [20.25, 31]
    assert table.context["ward"].tolist() == [0, 1]
    assert table.action.tolist() == [0, 2]
    assert table.mu_taken.tolist() == [0.5, 0.25]
    assert batch.observed is not None and batch.observed.tolist() == [True, False]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    name=st.sampled_from(["nested", "meant", "delayed"]),
    separator=st.sampled_from(",;\t|"),
    comma=st.booleans(),
    newline=st.sampled_from(["\n", "\r\n"]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "cp1252"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    packed=st.booleans(),
    blank=st.booleans(),
)
def test_every_dialect_gives_the_same_batch(
    seed: int,
    name: str,
    separator: str,
    comma: bool,
    newline: str,
    encoding: str,
    quoting: int,
    packed: bool,
    blank: bool,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    problem = PROBLEMS[name]
    batch = random_batch(problem, stream(seed, "dialect"), 9, text_ids=True)
    table = to_table(batch, problem)
    names = [f" {column} " if blank else column for column in table.column_names]
    rows = [names, *[list(row.values()) for row in table.to_pylist()]]
    text = text_of(rows, separator, "," if comma and separator != "," else ".", newline, quoting)
    if blank:
        text = newline + text.replace(newline, newline * 2)
    content = text.encode(encoding)
    path = tmp_path_factory.mktemp("dialect") / ("log.csv.gz" if packed else "log.txt")
    saved(path, gzip.compress(content) if packed else content)
    assert_same(Source(path, problem).read(), batch)


@pytest.mark.parametrize(
    ("encoding", "said"),
    [
        ("utf-8", "encoded in utf-8"),
        ("utf-8-sig", "encoded in utf-8-sig"),
        ("utf-16-le", "encoded in utf-16"),
        ("utf-16-be", "encoded in utf-16"),
        ("cp1252", "encoded in cp1252 (it is not UTF-8"),
    ],
)
def test_encodings_are_recognised_and_said(encoding: str, said: str, tmp_path: Path) -> None:
    mark = "\ufeff" if encoding.startswith("utf-16") else ""
    path = saved(tmp_path / "log.csv", mark + text_of(ROWS), encoding)
    check_small(path)
    assert said in Source(path, SMALL).dialects[str(path)]


def test_bytes_that_cp1252_does_not_know_are_latin_1(tmp_path: Path) -> None:
    path = saved(tmp_path / "log.csv", "visit,x\n\x81\xfc,1\n", "latin-1")
    assert recognise_dialect(path).encoding == "latin-1"


def test_a_single_odd_letter_far_below_is_found(tmp_path: Path) -> None:
    rows = [*ROWS[:1], *[[k, 1.5, "Nord", 0.5, 0.5, 1.0] for k in range(20000)], [99999, 1.5, "Süd", 0.5, 0.5, 1.0]]
    path = saved(tmp_path / "log.csv", text_of(rows), "cp1252")
    assert path.stat().st_size > 1 << 18
    assert Source(path, SMALL).read().levels["dose"].context["ward"].tolist()[-1] == 0


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_recognised(separator: str, tmp_path: Path) -> None:
    check_small(saved(tmp_path / "log.csv", text_of(ROWS, separator)))


def test_a_separator_may_stand_in_quotes(tmp_path: Path) -> None:
    rows = [[*ROWS[0], "note"], [*ROWS[1], "a;b;c"], [*ROWS[2], 'say "x", y\nand z']]
    for separator in ",;":
        check_small(saved(tmp_path / f"{ord(separator)}.csv", text_of(rows, separator)))


def test_a_header_full_of_commas_is_outvoted_by_the_rows(tmp_path: Path) -> None:
    rows = [[*ROWS[0], "note, a, b, c, d, e, f"], *[[*row, "none"] for row in ROWS[1:]]]
    text = ";".join(str(name) for name in rows[0]) + "\n" + text_of(rows[1:], ";", ",")
    check_small(saved(tmp_path / "log.csv", text))


def test_the_line_that_spreadsheets_write_is_understood(tmp_path: Path) -> None:
    check_small(saved(tmp_path / "log.csv", "sep=;\r\n" + text_of(ROWS, ";", ",", "\r\n")))


def test_two_possible_separators_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"log\.csv: its fields may be separated by commas or by semicolons, .* save it as UTF-8"):
        Source(saved(tmp_path / "log.csv", "a,b;c\n1,2;3\n"), SMALL).read()


def test_one_column_is_shown_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(LogError, match="has one column, 'visit age'; fields are separated by commas, semicolons, tabs"):
        Source(saved(tmp_path / "log.csv", "visit age\n1 2\n"), SMALL).read()


@pytest.mark.parametrize(
    "content",
    [
        *(text_of(ROWS).encode(name) for name in ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be", "utf-32")),
        bytes(range(256)) * 9,
        b"\x89PNG\x00\x00",
    ],
)
def test_what_is_no_text_is_refused(content: bytes, tmp_path: Path) -> None:
    words = "no text, or UTF-32, or UTF-16 without a mark at its start .it has zero bytes.; save it as UTF-8.*iconv -f UTF-16LE"
    with pytest.raises(LogError, match=words):
        Source(saved(tmp_path / "log.csv", content), SMALL).read()


def test_a_packed_file_that_is_cut_or_is_not_packed_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(text_of([ROWS[0], *ROWS[1:] * 4000]).encode())
    for content in (whole[: len(whole) // 2], b"visit,age\n1,2\n"):
        with pytest.raises(LogError, match=r"log\.csv\.gz: cannot be read as CSV"):
            Source(saved(tmp_path / "log.csv.gz", content), SMALL).read()


def test_names_keep_blanks_inside_and_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    rows = [[" visit ", "age", "ward", "dose", "p", "\tscore"], *ROWS[1:]]
    check_small(saved(tmp_path / "log.csv", text_of(rows, quoting=csv.QUOTE_ALL)))
    rows = [[*ROWS[0], "age "], *[[*row, 1] for row in ROWS[1:]]]
    with pytest.raises(LogError, match="'age' is there twice"):
        Source(saved(tmp_path / "twice.csv", text_of(rows)), SMALL).read()


def test_rows_are_counted_without_header_and_blank_lines(tmp_path: Path) -> None:
    text = text_of([ROWS[0], ROWS[1], [2, "old", "Nord", 10, 0.25, None]]).replace("\n", "\n\n")
    with pytest.raises(LogError, match=r"row 2, column 'age': found 'old' \(text\)"):
        Source(saved(tmp_path / "log.csv", text), SMALL).read()


def test_a_file_written_anew_is_looked_at_anew(tmp_path: Path) -> None:
    path = saved(tmp_path / "log.csv", text_of(ROWS, ";", ","))
    check_small(path)
    check_small(saved(path, text_of(ROWS, "\t")))


def test_a_missing_column_message_says_how_the_file_was_read(tmp_path: Path) -> None:
    path = saved(tmp_path / "log.csv", text_of([["visit", "alter", *ROWS[0][2:]], *ROWS[1:]], ";", ","), "cp1252")
    with pytest.raises(
        LogError, match=r"missing: 'age'.*read as text separated by semicolons, encoded in cp1252.*decimal commas"
    ):
        Source(path, SMALL).read()


def test_numbers_of_actions_have_decimal_commas_too_and_labels_do_not(tmp_path: Path) -> None:
    problem = parse_problem(
        "episode: v\nreward: {column: r}\nlevels: [{name: a, action: {column: x, values: ['0,5', '1,5']}, "
        "context: [{column: k, values: [0.5, 2]}]}]"
    )
    path = saved(tmp_path / "log.csv", "v;x;k;r\n1;0,5;0,5;0,25\n2;1,5;2;0,5\n")
    batch = Source(path, problem).read()
    assert batch.levels["a"].action.tolist() == [0, 1]
    assert batch.levels["a"].context["k"].tolist() == [0, 1]
    assert batch.reward is not None and batch.reward.tolist() == [0.25, 0.5]


def test_extra_columns_and_times_have_decimal_commas(tmp_path: Path) -> None:
    problem = parse_problem("episode: v\ntime: t\nreward: {column: r}\nlevels: [{name: a, action: {column: x, values: [0, 1]}}]")
    path = saved(tmp_path / "log.csv", "v;x;t;r;more\n1;0;0,5;1;7,5\n2;1;1,5;2;8\n")
    batch = Source(path, problem).read(["more"])
    assert batch.time is not None and batch.time.tolist() == [0.5, 1.5]
    assert batch.extra["more"].tolist() == [7.5, 8.0]
    assert pa.array(batch.extra["more"]).type == pa.float64()
