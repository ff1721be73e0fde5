"""Certificates on a Dask cluster: the same bits as in one process, also if a worker is killed in the middle."""

from __future__ import annotations

import os
import pickle
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_logs import Floats, better, make_table, problem_of, replaced
from test_scan_pieces import in_pieces, written

from aegis.audit import audit_log
from aegis.certificate import Candidate
from aegis.errors import LogError, SettingError
from aegis.logs import Source
from aegis.logs.formats import base
from aegis.policies import Function
from aegis.problem import Level, Rows

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'aegis-handover[distributed]'")
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.ci,
]
MARKER = "AEGIS_TEST_KILLED"


def deadly(level: Level, rows: Rows) -> Floats:
    """Do what is better; once, in a worker and in the middle of the log, kill the process."""
    marker = Path(os.environ[MARKER])
    late = level.name == "dose" and float(rows["temperature"][0]) < 0  # some piece, not the first one
    if late and os.getpid() != int(marker.read_text().split()[0]) and len(marker.read_text().split()) < 2:
        marker.write_text(f"{marker.read_text()} {os.getpid()}")
        os.kill(os.getpid(), signal.SIGKILL)
    return better(level, rows)


@pytest.mark.ci
def test_two_workers_give_the_same_bits_also_if_one_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 200)
    marker = tmp_path / "marker"
    marker.write_text(str(os.getpid()))
    monkeypatch.setenv(MARKER, str(marker))
    problem, paths = problem_of(), written(tmp_path, make_table(400))
    candidate = Candidate(Function.named(problem, "test_scan_dask:deadly"), "better")
    alone = in_pieces(paths, problem, candidate)
    assert len(marker.read_text().split()) == 1
    killed = in_pieces(paths, problem, candidate, engine="dask", workers=2)
    assert len(marker.read_text().split()) == 2
    assert killed.to_json() == alone.to_json()


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """Return the address of a cluster of two workers that were there before any test."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        yield f"dask://{cluster.scheduler_address.removeprefix('tcp://')}"


@pytest.mark.ci
def test_an_audit_on_a_cluster(engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 200)
    paths = written(tmp_path, make_table(400))
    source = Source(paths, problem_of())
    whole = audit_log(source).plain()
    assert audit_log(source, engine=engine).plain() == whole
    assert audit_log(source, engine="dask", workers=2).plain() == whole  # a cluster of its own


def test_a_scheduler_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 200)
    monkeypatch.setattr("aegis.engine.dask_pool.SCHEDULER_TIMEOUT", "1s")
    paths = written(tmp_path, make_table(400))
    with pytest.raises(SettingError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:9"):
        in_pieces(
            paths, problem_of(), Candidate(Function.named(problem_of(), "small_logs:better"), "b"), engine="dask://127.0.0.1:9"
        )


def test_workers_with_another_file_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 200)
    problem, paths = problem_of(), written(tmp_path, make_table(400))
    source = Source(paths, problem)
    found = source.chunks()
    assert found is not None
    pieces = found.sealed([part.digest() for part in source.files])
    assert len(list(pieces.read(0))) > 0
    written(tmp_path, make_table(400, seed=2))  # what another machine has under this path
    with pytest.raises(LogError, match=r"part-0\.parquet: the worker on .* has another file under this path"):
        list(pieces.read(0))
    paths[0].unlink()
    with pytest.raises(LogError, match=r"part-0\.parquet cannot be read by the worker on .* under this path"):
        list(pieces.read(0))


def test_files_are_sent_with_their_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 200)
    written(tmp_path, make_table(400))
    monkeypatch.chdir(tmp_path)
    pieces = Source([Path("part-0.parquet"), Path("part-1.parquet")], problem_of()).chunks()
    sent = pickle.dumps(pieces)
    monkeypatch.chdir("/")
    assert sum(len(batch) for batch in pickle.loads(sent).read(1)) > 0


def test_code_that_workers_do_not_have_and_the_first_error_in_the_log(
    engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(base, "CHUNK_ROWS", 200)
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "own_policy_of_mine.py").write_text(
        "import numpy as np\n\n\ndef dose(level, rows):\n    return np.full((len(next(iter(rows.values()))), "
        "level.actions.count), 1.0 / level.actions.count)\n"
    )
    problem, table = problem_of(), make_table(400)
    paths = written(tmp_path, table)
    monkeypatch.syspath_prepend(str(folder))  # here only: the workers are there already
    candidate = Candidate(Function.named(problem, "own_policy_of_mine:dose"), "own")
    far = in_pieces(paths, problem, candidate, engine=engine)
    assert far.to_json() == in_pieces(paths, problem, candidate).to_json()
    chances = table["p_1"].to_pylist()
    chances[500], chances[700], chances[1100] = -0.25, -0.5, -0.75
    written(tmp_path, replaced(table, "p_1", chances))
    for _ in range(3):
        with pytest.raises(LogError, match=r"part-0\.parquet, row 501, column 'p_1'"):
            in_pieces(paths, problem, candidate, engine=engine)
