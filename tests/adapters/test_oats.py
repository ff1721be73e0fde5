"""Yates's oats: plots by their place, the design checked, a block as the unit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from published_samples import oats, write_oats
from real_data import published

from aegis.adapters.datasets.oats import read_oats
from aegis.errors import LogError
from aegis.logs import Source


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6))
def test_every_plot_is_kept_below_its_whole_plot(tmp_path_factory, seed: int, blocks: int) -> None:  # type: ignore[no-untyped-def]
    rows = oats(blocks, seed)
    found = read_oats([write_oats(tmp_path_factory.mktemp("oats") / "yates.oats.tsv", rows)])
    assert found.table.num_rows == len(rows)
    assert found.table["harvest"].to_pylist() == [float(row["yield"]) for row in rows]
    batch = Source(found.table, found.problem).read()
    assert len(batch) == blocks and len(batch.levels["variety"]) == 3 * blocks and len(batch.levels["nitrogen"]) == 12 * blocks
    np.testing.assert_allclose(batch.levels["variety"].mu_taken, 1 / 3)
    np.testing.assert_allclose(batch.levels["nitrogen"].mu_taken, 1 / 4)


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("nitro", "0.5", "row 5, column 'nitro': found '0.5'; expected one of 0.0, 0.2, 0.4, 0.6"),
        ("gen", "Barley", "row 5, column 'gen': found 'Barley'; expected one of 'GoldenRain'"),
        ("yield", "", "row 5, column 'yield'"),
        ("row", "x", "row 5, column 'row': found 'x'; expected the number of a row or column"),
        ("row", "1", "expected .* on (a|its) whole plot"),
        ("block", "B9", "expected each of .* once"),
    ],
)
def test_what_is_not_the_design_is_named(tmp_path: Path, column: str, value: str, message: str) -> None:
    rows = oats()
    rows[4][column] = value
    with pytest.raises(LogError, match=message):
        read_oats([write_oats(tmp_path / "yates.oats.tsv", rows)])


def test_a_variety_sown_twice_in_a_block_is_named(tmp_path: Path) -> None:
    rows = oats()
    for row in rows[4:8]:
        row["gen"] = rows[0]["gen"]
    with pytest.raises(LogError, match=r"expected each of GoldenRain, Marvellous, Victory once in block B1, found"):
        read_oats([write_oats(tmp_path / "yates.oats.tsv", rows)])


def test_the_published_file() -> None:
    found = read_oats([published("oats") / "oats" / "yates.oats.tsv"])
    batch = Source(found.table, found.problem).read()
    assert found.table.num_rows == 72 and len(batch) == 6
    assert batch.reward.mean() == pytest.approx(103.97, abs=0.01)
