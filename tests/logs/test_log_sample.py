"""The first rows of a log: types, several parts, and errors about rows and columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from aegis.errors import LogError
from aegis.logs.draft.log_sample import LogSample, read_sample
from aegis.logs.log_files import normalise_inputs, resolve_parts


def sample_of(*inputs: object, rows: int = 100) -> LogSample:
    return read_sample(resolve_parts(normalise_inputs(list(inputs))), rows)


def test_text_gets_the_most_specific_type_and_parts_a_common_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("n,x,on,day,word,only\n1,1,true,2025-01-02,007,1\n2,2,false,2025-01-03,b,1\n")
    (tmp_path / "b.csv").write_text("n,x,on,day,word\n3,0.5,true,2025-01-04,c\n")
    sample = sample_of(tmp_path)
    kinds = {name: str(kind) for name, kind in zip(sample.table.column_names, sample.table.schema.types, strict=True)}
    assert kinds == {"n": "int64", "x": "double", "on": "bool", "day": "timestamp[us]", "word": "large_string"}
    assert sample.complete and sample.table.num_rows == 3 and sample.origin == "a.csv, b.csv (3 rows, 5 columns)"
    assert [name for name, _ in sample.left_out] == ["only"] and len(sample.read_as) == 2


def test_only_the_first_rows_are_read() -> None:
    table = pa.table({"x": list(range(10))})
    assert sample_of(table, rows=10).complete
    short = sample_of(table, table, rows=9)
    assert not short.complete and short.table["x"].to_pylist() == list(range(9)) and "its first 9 rows" in short.origin


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n,\n3,4\n", "row 2: the row is blank"),
        ("a,a\n1,2\n", "column 'a' is there twice"),
        ("a,b\n", "no rows"),
        ("a,b,\n1,2,\n3,4,5\n", "row 2, column 3: '5' stands in a column without a name"),
    ],
)
def test_what_is_no_table_is_named(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(LogError, match=message):
        sample_of(tmp_path / "log.csv")


def test_points_before_three_digits_are_noted(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a;b\n" + "".join(f"{n}.{100 + n};{n}.5\n" for n in range(1, 12)))
    assert sample_of(tmp_path / "log.csv").grouped == {"a": "1.101"}
