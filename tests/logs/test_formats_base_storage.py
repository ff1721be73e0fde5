"""Local files: wildcards, what a folder holds, and messages about files that are not there."""

from __future__ import annotations

import glob
import gzip
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aegis.errors import LogError
from aegis.logs.formats.base import LocalFile, is_requested, matches_pattern

NAMES = st.sampled_from(["a", "b", "ab", ".a", "a.csv", "b.csv"])
WILD = st.sampled_from(["*", "?", "a*", "[ab]", "*.csv", "**", "a", ".*", "a.csv"])


@given(
    st.lists(st.lists(NAMES, min_size=1, max_size=3), max_size=6),
    st.lists(WILD, min_size=1, max_size=3).filter(lambda pattern: pattern[-1] != "**"),  # there versions of Python differ
)
@settings(max_examples=25, deadline=None)
def test_wildcards_mean_what_they_mean_in_files(paths: list[list[str]], pattern: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for names in paths:
            target = place.joinpath(*names)
            if not any(parent.is_file() for parent in [target, *target.parents]) and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                target.touch()
        here = {path.relative_to(place).parts for path in place.rglob("*")}
        found = {Path(path).parts for path in glob.glob("/".join(pattern), root_dir=folder, recursive=True)}
        assert {names for names in here if matches_pattern(names, pattern)} == found - {()}


def test_names_with_an_underscore_are_meant_only_if_the_pattern_has_one() -> None:
    assert is_requested(("logs", "a.csv"), ("logs", "*.csv"))
    assert not is_requested(("logs", "_old", "a.csv"), ("logs", "*", "*.csv"))
    assert is_requested(("_old", "a.csv"), ("_old", "*.csv")) and is_requested(("logs", "_a.csv"), ("logs", "_*.csv"))


def test_a_missing_file_is_answered_with_the_tables_of_its_folder(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("a,b\n1,2\n")
    with pytest.raises(LogError, match=r"lug.csv does not exist .did you mean 'log.csv'"):
        LocalFile(tmp_path / "lug.csv").require()
    with pytest.raises(LogError, match="is a folder"):
        LocalFile(tmp_path).require()


@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz", "X.CSV.GZ"])
def test_streams_are_unpacked_by_the_name(name: str, tmp_path: Path) -> None:
    content = b"a,b\n1,2\n"
    (tmp_path / name).write_bytes(gzip.compress(content) if name.lower().endswith("gz") else content)
    with LocalFile(tmp_path / name).unpacked() as stream:
        assert stream.read() == content
