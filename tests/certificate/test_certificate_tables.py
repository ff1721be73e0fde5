"""A certificate as Arrow tables: the same numbers as the document, types that hold for every certificate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import small_logs

from aegis.certificate import Certificate, certificate_table, certify
from aegis.certificate.certificate import TABLE_SCHEMAS
from aegis.errors import InputError, OutputError, SettingError
from aegis.logs import Source, check_table_path, write_table


@pytest.fixture(scope="module")
def certificate() -> Certificate:
    problem = small_logs.problem_of(head="guards: [{column: scrap, range: [0, 1], max_worsening: 0.2}]")
    return certify(Source(small_logs.make_table(60), problem), small_logs.better_policy(problem), ledger=False)


def test_levels_and_their_parts(certificate: Certificate) -> None:
    rows = certificate.table().to_pylist()
    assert [row["scope"] for row in rows] == [" + ".join(level.scope) for level in certificate.levels]
    for row, level in zip(rows, certificate.levels, strict=True):
        for name in ("candidate", "verdict", "gain_lower", "value_lower", "estimate", "legacy_value", "units", "delta", "margin"):
            assert row[name] == getattr(level, name), name
        assert row["gamma"] == level.sensitivity.gamma and row["data"] == certificate.digests["data"]
    claims = certificate.table("claims").to_pylist()
    tests = [test for level in certificate.levels for test in level.tests]
    assert [row["lower_scaled"] for row in claims] == [test.lower_scaled for test in tests]
    assert {row["what"] for row in claims} == {"gain", "value", "guard"}
    guards = certificate.table("guards").to_pylist()
    assert [row["verdict"] for row in guards] == [guard.verdict for level in certificate.levels for guard in level.guards]
    paths = certificate.table("paths")
    assert paths["gain_lower"].to_pylist() == [one.gain_lower for level in certificate.levels for one in level.path]
    assert certificate.table("findings").num_rows == len(certificate.findings)


@pytest.mark.parametrize("name", TABLE_SCHEMAS)
def test_types_hold_also_where_there_is_nothing(name: str, certificate: Certificate) -> None:
    refused = replace(certificate, levels=(), findings=())
    assert refused.table(name).schema == certificate.table(name).schema == TABLE_SCHEMAS[name]
    assert refused.table(name).num_rows == 0


def test_a_number_that_is_not_there_is_null_not_nought(certificate: Certificate) -> None:
    level = replace(certificate.levels[0], verdict="refused", gain_lower=None, value_lower=None)
    (row,) = replace(certificate, levels=(level,)).table().to_pylist()
    assert row["gain_lower"] is None and row["value_lower"] is None


def test_a_loaded_certificate_gives_the_same_tables_and_a_changed_one_none(certificate: Certificate) -> None:
    content = certificate.to_json()
    for name in TABLE_SCHEMAS:
        assert certificate_table(content, name) == certificate.table(name)
    content["levels"][0]["gain_lower"] = 1.0
    with pytest.raises(InputError, match="was changed"):
        certificate_table(content)
    with pytest.raises(SettingError, match="allowed: levels, claims, guards, paths, findings"):
        certificate.table("level")


def test_tables_are_written_as_their_names_say(certificate: Certificate, tmp_path: Path) -> None:
    table = certificate.table()
    write_table(table, tmp_path / "levels.parquet")
    write_table(table, tmp_path / "levels.csv")
    assert pq.read_table(tmp_path / "levels.parquet") == table
    assert pyarrow.csv.read_csv(tmp_path / "levels.csv")["gain_lower"].to_pylist() == table["gain_lower"].to_pylist()
    with pytest.raises(OutputError, match=r"end in \.parquet or \.pq or \.csv"):
        check_table_path("levels.xlsx")
