"""Fixtures for the tests of commands."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from draft_cases import Answer, Shell
from typed import done

from aegis.cli import main
from coarse_oracle import coarse_oracle

__all__ = ["coarse_oracle"]


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


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Let Ctrl-C interrupt: a process started in the background of a shell inherits it as ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shell:
    """Run commands in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def run(*arguments: str) -> Answer:
        with pytest.raises(SystemExit) as stop:
            main(list(arguments))
        captured = capsys.readouterr()
        return Answer(int(stop.value.code or 0), captured.out, captured.err)

    return run
