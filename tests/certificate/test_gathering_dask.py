"""Certificates on a Dask cluster: the same bits as in one process, also if a worker is killed in the middle."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from small_logs import Floats, better, make_table, problem_of
from test_gathering import in_pieces, written

from aegis.audit import audit_log
from aegis.certificate import Candidate
from aegis.errors import SettingError
from aegis.logs import Source, spans
from aegis.policies import Function
from aegis.problem import Level, Rows

pytest.importorskip("distributed", reason="Dask is not installed: pip install 'aegis-handover[distributed]'")
pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]
MARKER = "AEGIS_TEST_KILLED"


def deadly(level: Level, rows: Rows) -> Floats:
    """Do what is better; once, in a worker and in the middle of the log, kill the process."""
    marker = Path(os.environ[MARKER])
    late = level.name == "dose" and float(rows["temperature"][0]) < 0  # some piece, not the first one
    if late and os.getpid() != int(marker.read_text().split()[0]) and len(marker.read_text().split()) < 2:
        marker.write_text(f"{marker.read_text()} {os.getpid()}")
        os.kill(os.getpid(), signal.SIGKILL)
    return better(level, rows)


def test_two_workers_give_the_same_bits_also_if_one_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "PIECE", 200)
    marker = tmp_path / "marker"
    marker.write_text(str(os.getpid()))
    monkeypatch.setenv(MARKER, str(marker))
    problem, paths = problem_of(), written(tmp_path, make_table(400))
    candidate = Candidate(Function.named(problem, "test_gathering_dask:deadly"), "better")
    alone = in_pieces(paths, problem, candidate)
    assert len(marker.read_text().split()) == 1
    killed = in_pieces(paths, problem, candidate, engine="dask", workers=2)
    assert len(marker.read_text().split()) == 2
    assert killed.to_json() == alone.to_json()


def test_an_audit_on_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "PIECE", 200)
    paths = written(tmp_path, make_table(400))
    source = Source(paths, problem_of())
    assert audit_log(source, engine="dask", workers=2).plain() == audit_log(source).plain()


def test_a_scheduler_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "PIECE", 200)
    monkeypatch.setattr("aegis.engine.dask_team.ANSWERS", "1s")
    paths = written(tmp_path, make_table(400))
    with pytest.raises(SettingError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        in_pieces(
            paths, problem_of(), Candidate(Function.named(problem_of(), "small_logs:better"), "b"), engine="dask://127.0.0.1:9"
        )
