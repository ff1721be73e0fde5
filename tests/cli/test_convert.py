"""convert as a user types it: logs of other libraries, there and back, and bad usage."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from aegis.cli import main
from dsjson_cases import event, simulated, written


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    return int(stop.value.code or 0)


def test_the_command_and_what_follows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out = written(tmp_path / "events.dsjson", *simulated(400)), tmp_path / "log"
    convert = ["convert", path, "--from", "dsjson", "--action-key", "item.id", "--reward-range", 0, 1, "--out", out]
    assert run(*convert, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 400 and found["actions"] == 3 and found["contexts"] == ["user.age"] and found["full_propensities"]
    assert run(*convert) == 2 and "--force" in capsys.readouterr().err
    assert run(*convert, "--force") == 0 and "note: " in capsys.readouterr().out
    log = [out / "log.parquet", "--problem", out / "problem.yaml"]
    assert run("audit", *log, "--json") == 0
    assert run("learn", *log, "--kind", "capped", "--out", tmp_path / "policy", "--json") == 0
    capsys.readouterr()
    assert run("certify", *log, "--policy", tmp_path / "policy", "--json") == 0
    assert json.loads(capsys.readouterr().out)["verdict"] == "certified"


def test_usage_of_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path / "events.dsjson", event(1))
    for arguments, message in (
        ([path, "--out", tmp_path / "x"], "say what FILE is"),
        ([path, "--from", "obp", "--thinned", "--out", tmp_path / "x"], "--thinned: about dsjson files"),
        ([path, "--from", "dsjson", "--policy", "p", "--out", tmp_path / "x"], "belong to --to"),
        ([path, "--to", "obp", "--out", tmp_path / "x.npz"], "name its problem file"),
        ([path, "--to", "obp", "--reward-range", 0, 1, "--out", tmp_path / "x.npz"], "--reward-range belongs to --from"),
        ([path, path, "--from", "obp", "--out", tmp_path / "x"], "takes one file"),
        ([path, "--from", "obp", "--out", tmp_path / "x"], "cannot be read as an .npz file"),
    ):
        assert run("convert", *arguments) == 2
        assert message in capsys.readouterr().err
