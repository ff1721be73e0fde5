"""`--engine` as a user types it: the same certificate in pieces on several processes, and engines that do not exist are named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from typed import done, run

from aegis.cli.options import spare_inputs
from aegis.errors import OutputError
from aegis.logs import Source
from aegis.logs.formats import base
from aegis.problem import load_problem


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A simulated log in small row groups, and a policy learned from it."""
    folder = tmp_path_factory.mktemp("engine")
    assert done("simulate", "--episodes", 160, "--set", "inner_steps=5", "--seed", 3, "--out", folder) == 0
    log = folder / "log.parquet"
    pq.write_table(pq.read_table(log), log, row_group_size=60)
    assert done("learn", log, "--problem", folder / "problem.yaml", "--kind", "capped", "--out", folder / "policy") == 0
    return folder


def asked(capsys: pytest.CaptureFixture[str], place: Path, command: str, *more: object) -> Any:
    policy = ["--policy", place / "policy"] if command == "certify" else []
    code, out, err = run(
        command, place / "log.parquet", "--problem", place / "problem.yaml", *policy, "--json", *more, capsys=capsys
    )
    assert code in (0, 3), err
    found = json.loads(out)
    return found["levels"] if command == "certify" else (found["verdict"], [item["code"] for item in found["findings"]])


@pytest.mark.ci
@pytest.mark.parametrize("command", ["certify", "audit"])
def test_in_pieces_on_all_cores_the_same_is_found(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    whole = asked(capsys, place, command)
    monkeypatch.setattr(base, "CHUNK_ROWS", 200)
    assert Source(place / "log.parquet", load_problem(place / "problem.yaml")).chunks() is not None
    pieces = asked(capsys, place, command, "--engine", "local")
    if command == "certify":
        for level in (*whole, *pieces):
            del level["path"], level["weights"]
    assert pieces == whole


@pytest.mark.parametrize("engine", ["spark", "dask://", "dask://host", "dask://host:x"])
@pytest.mark.parametrize("command", ["certify", "audit"])
def test_an_engine_that_does_not_exist_is_named(
    place: Path, capsys: pytest.CaptureFixture[str], command: str, engine: str
) -> None:
    policy = ["--policy", place / "policy"] if command == "certify" else []
    code, _, err = run(
        command, place / "log.parquet", "--problem", place / "problem.yaml", *policy, "--engine", engine, capsys=capsys
    )
    assert code == 2
    assert f"an engine is local, dask or dask://host:port, found '{engine}'" in err


@pytest.mark.parametrize("command", ["certify", "audit"])
def test_a_cluster_that_was_not_needed_is_said_to_be(place: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    policy = ["--policy", place / "policy"] if command == "certify" else []
    words = [command, place / "log.parquet", "--problem", place / "problem.yaml", *policy, "--engine"]
    code, _, err = run(*words, "dask://nowhere:1", capsys=capsys)
    assert code in (0, 3)
    assert "one process of this machine read the log, not 'dask://nowhere:1'" in err
    assert "one process of this machine" not in run(*words, "local", capsys=capsys)[2]


def test_inputs_and_what_is_inside_input_folders_are_spared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "policy"
    folder.mkdir()
    (folder / "policy.json").write_text("{}")
    (tmp_path / "log.csv").write_text("a\n")
    inputs = [tmp_path / "log.csv", folder, "module:object", tmp_path / "none*.csv"]
    for out in (Path("log.csv"), tmp_path / "policy" / ".." / "log.csv", folder / "policy.json", folder):
        with pytest.raises(OutputError, match=r"--out .* would overwrite an input"):
            spare_inputs({"--out": out}, inputs)
    with pytest.raises(OutputError, match="--report and --out both name"):
        spare_inputs({"--out": Path("c.json"), "--report": tmp_path / "c.json"}, inputs)
    spare_inputs({"--out": Path("c.json"), "--report": folder / "report.html", "--plot": None}, inputs)
