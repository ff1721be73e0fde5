"""A log as a source: columns, dialects, sides of a split, and the record of what was learned from."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_samples import PROBLEMS, assert_same, random_batch, write_csv

from aegis.errors import LogError, SettingError
from aegis.logs import Source, Split, learning_record, log_digest, to_table
from aegis.problem import concat
from aegis.rng import stream

FLAT = PROBLEMS["flat"]
BATCH = random_batch(FLAT, stream(5, "source"), 40)


def test_columns_and_dialects_are_those_of_all_parts(tmp_path: Path) -> None:
    table = to_table(BATCH, FLAT)
    path = write_csv(table, tmp_path / "log.csv")
    source = Source([path, table.drop_columns(["score"])], FLAT)
    assert source.names == set(table.column_names) - {"score"}
    assert list(source.dialects) == [str(path)] and "separated by commas" in source.dialects[str(path)]


def test_two_sides_are_the_log_and_go_together_with_a_split() -> None:
    source, split = Source(to_table(BATCH, FLAT), FLAT), Split(fraction=0.4)
    sides = [source.read(side=side, split=split) for side in ("prior", "certify")]
    assert sorted(concat(sides).episode.tolist()) == sorted(BATCH.episode.tolist()) and 0 < len(sides[0]) < 40
    assert_same(concat(list(source.batches(rows=7, side="prior", split=split))), sides[0])
    for given in ({"side": "prior"}, {"split": split}):
        with pytest.raises(SettingError, match="give 'side' and 'split' together"):
            source.read(**given)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match=r"unknown side of a split 'proir' .did you mean 'prior'"):
        source.read(side="proir", split=split)
    with pytest.raises(LogError, match=r"no episode of 40 is on the prior side .* give more episodes, or another share"):
        source.read(side="prior", split=Split(fraction=1e-9))


def test_a_short_log_is_one_chunk() -> None:
    source = Source(to_table(BATCH, FLAT), FLAT)
    assert not source.long and not source.uncut  # not read yet
    assert source.chunks() is None and source.uncut


def test_the_record_names_split_units_and_log() -> None:
    source, split = Source(to_table(BATCH, FLAT), FLAT), Split(fraction=0.4)
    record = learning_record(source, split)
    assert record["split"] == split.describe() and record["side"] == "prior"
    assert record["units"]["episode"] == list(FLAT.episode)
    assert record["log"]["files"] == ["frame 1"] and record["log"]["digest"] == log_digest(to_table(BATCH, FLAT))
    assert record["fingerprints"]["episodes"] == len(source.read(side="prior", split=split))
