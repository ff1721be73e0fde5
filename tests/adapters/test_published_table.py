"""Published text files: columns by name, and errors that name file, row and column."""

from __future__ import annotations

import numpy as np
import pytest

from aegis.adapters.datasets.published_table import PublishedTable, columns_of, read_only_file, read_published_table
from aegis.errors import LogError


def test_columns_are_found_by_name_in_any_order_and_encoding() -> None:
    found = read_published_table("b;a;c\n 1 ;x;\n2;caf\xe9;9\n\n".encode("cp1252"), "f.csv", ["a", "c"], "cp1252", ";")
    assert len(found) == 2 and found.text("a").tolist() == ["x", "café"]
    values = found.numbers("c", "a number", missing=True)
    assert np.isnan(values[0]) and values[1] == 9


def test_quoted_fields_keep_separators_and_line_breaks() -> None:
    found = read_published_table(b'a,b\n"x, y","line\nbreak"\n', "f.csv", ["a", "b"])
    assert found.text("a").tolist() == ["x, y"] and found.text("b").tolist() == ["line\nbreak"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,c\n1,2\n", r"f.csv: the column 'b' is there not at all.*expected the file as it was published"),
        (b"a,b,b\n1,2,3\n", "the column 'b' is there twice"),
        (b"a,b\n1,2\n1\n", "f.csv, row 2: found 1 fields; expected 2"),
        (b"a,b\n", "no rows below its header"),
        (b"", "the column 'a' is there not at all"),
        (b"a,b\n\xff,2\n", "byte 5 is not utf-8 text"),
    ],
)
def test_a_file_of_another_shape_is_named(content: bytes, message: str) -> None:
    with pytest.raises(LogError, match=message):
        read_published_table(content, "f.csv", ["a", "b"])


def test_values_that_do_not_fit_are_named_by_row_and_column() -> None:
    found = PublishedTable("f.csv", {"n": np.array(["1", "x", "", "y"]), "f": np.array(["TRUE", "FALSE", "", "maybe"])})
    with pytest.raises(LogError, match=r"f.csv, row 2, column 'n': found 'x'; expected a count \(and 1 more row like it\)"):
        found.numbers("n", "a count", missing=True)
    with pytest.raises(LogError, match=r"row 4, column 'f': found 'maybe'; expected one of 'TRUE', 'FALSE', ''"):
        found.flags("f", missing=True)
    with pytest.raises(LogError, match=r"row 3, column 'f'"):
        PublishedTable("f.csv", {"f": np.array(["TRUE", "FALSE", ""])}).flags("f")
    for text in ("inf", "nan", "-1"):
        with pytest.raises(LogError, match="row 1"):
            PublishedTable("f.csv", {"n": np.array([text])}).numbers("n", "a count", low=0)


def test_rows_in_words() -> None:
    found = PublishedTable("f.csv", {"n": np.array(["1"] * 9)})
    assert found.rows(np.arange(9) == 3) == "row 4"
    assert found.rows(np.arange(9) < 7) == "rows 1, 2, 3, 4, 5 and 2 more"


def test_one_file_that_is_there(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(LogError, match="found 0 files; expected one, the file"):
        read_only_file([], "the file", ["a"])
    with pytest.raises(LogError, match="does not exist; expected the file"):
        read_only_file([tmp_path / "none"], "the file", ["a"])
    with pytest.raises(LogError, match="is a folder; expected the file"):
        read_only_file([tmp_path], "the file", ["a"])


def test_not_a_number_is_missing() -> None:
    assert columns_of(a=[1.0, np.nan], b=np.array(["x", "y"])) == {"a": [1.0, None], "b": ["x", "y"]}
