"""Fixtures for the tests of commands."""

from __future__ import annotations

from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typed import done


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a log of the clinic, contexts taken from it, and one learned policy of each kind."""
    folder = tmp_path_factory.mktemp("learned")
    calls = [["simulate", "--world", "clinic", "--legacy", "natural", "--episodes", "120", "--out", folder]]
    calls += [
        [
            "learn",
            folder / "log.parquet",
            "--problem",
            folder / "problem.yaml",
            "--kind",
            kind,
            "--particles",
            3,
            "--out",
            folder / kind,
        ]
        for kind in ("greedy", "planned", "capped")
    ]
    for call in calls:
        assert done(*call) == 0
    pyarrow.csv.write_csv(pq.read_table(folder / "log.parquet").slice(0, 30), folder / "contexts.csv")
    return folder
