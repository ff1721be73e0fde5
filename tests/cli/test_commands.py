"""The commands as a user types them: output, JSON, exit codes, and errors without tracebacks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aegis.cli import COMMANDS, main
from aegis.logs import Source
from aegis.problem import load_problem


def aegis(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    code = stop.value.code
    return (0 if code is None else int(code)), captured.out, captured.err


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis("--help", capsys=capsys)
    assert code == 0
    assert all(name in out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_and_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis(name, "--help", capsys=capsys)
    assert code == 0
    assert "--json" in out


def test_help_is_light() -> None:
    code = (
        "import sys\nfrom aegis.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        "print(sorted({'numpy', 'pyarrow', 'scipy', 'rich', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_simulate_a_legacy_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = aegis(
        "simulate",
        "--world",
        "plant",
        "--legacy",
        "natural",
        "--episodes",
        30,
        "--out",
        tmp_path / "log",
        "--json",
        capsys=capsys,
    )
    assert code == 0, err
    summary = json.loads(out)
    log = Source([tmp_path / "log" / "log.parquet"], load_problem(tmp_path / "log" / "problem.yaml")).read()
    assert len(log) == 30
    assert summary["mean_reward"] == pytest.approx(log.episode_means(log.reward).mean())


@pytest.mark.parametrize("propensities", ["full", "taken"])
def test_simulate_an_agent_and_read_its_log(propensities: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["simulate", "--agent", "nested_cts", "--episodes", "6", "--scope", "inner", "--set", "f_a=1", "--seed", "4"]
    code, out, _ = aegis(*arguments, "--propensities", propensities, "--out", tmp_path / "run", capsys=capsys)
    assert code == 0
    assert "log.parquet" in out
    problem = load_problem(tmp_path / "run" / "problem.yaml")
    log = Source([tmp_path / "run" / "log.parquet"], problem).read()
    assert (log.levels["meta"].mu_full is not None) == (propensities == "full")
    assert log.levels["meta"].mu_taken == pytest.approx(1 / 7)
    # the same command again finds the finished run; other settings in the same folder are refused
    assert aegis(*arguments, "--propensities", propensities, "--out", tmp_path / "run", capsys=capsys)[0] == 0
    code, _, err = aegis(*arguments[:-1], "5", "--propensities", propensities, "--out", tmp_path / "run", capsys=capsys)
    assert code == 2
    assert "seed differ" in err


def test_demo_tells_the_story(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis("demo", "--episodes", 40, "--out", tmp_path, capsys=capsys)
    assert code == 0
    assert "legacy" in out and "oracle" in out and "not a certificate" in out
    code, out, _ = aegis("demo", "--episodes", 40, "--seed", 2, "--out", tmp_path, "--json", capsys=capsys)
    found = json.loads(out)
    assert found["legacy_value"] < found["agent_last"] < found["oracle_value"] + 0.5
    assert Path(found["log"]).exists()


def test_doctor_is_content_here(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = aegis("doctor", "--json", capsys=capsys)
    found = json.loads(out)
    assert found["ok"] is (code == 0)
    assert {check["what"] for check in found["checks"]} >= {"python", "numpy", "BLAS threads", "simulate, write, read"}
    assert code == 0, found


BAD = {
    "unknown command": (["simulat"], "did you mean 'simulate'"),
    "unknown option": (["simulate", "--wrold", "additive"], "--wrold"),
    "unknown world": (["simulate", "--world", "aditive", "--out", "x"], "did you mean 'additive'"),
    "unknown setting": (["simulate", "--set", "f_b=1", "--out", "x"], "did you mean 'f_a'"),
    "not a setting": (["simulate", "--set", "f_a", "--out", "x"], "KEY=VALUE"),
    "non-finite parameter": (["simulate", "--set", "f_a=.nan", "--out", "x"], "f_a"),
    "text for a number": (["simulate", "--set", "f_a=two", "--out", "x"], "f_a"),
    "one-point grid": (["simulate", "--set", "inner_points=1", "--out", "x"], "inner_points"),
    "legacy of another world": (["simulate", "--world", "clinic", "--legacy", "sign:epsilon=0.3", "--out", "x"], "sign"),
    "legacy with a bad rate": (["simulate", "--legacy", "sign:epsilon=3", "--out", "x"], "epsilon"),
    "unknown agent": (["simulate", "--agent", "nested", "--out", "x"], "did you mean 'nested_cts'"),
    "unknown level": (["simulate", "--agent", "nested_cts", "--scope", "iner", "--out", "x"], "did you mean 'inner'"),
    "scope without agent": (["simulate", "--scope", "inner", "--out", "x"], "--agent"),
    "particles for greedy": (["simulate", "--agent", "nested_greedy", "--particles", "3", "--out", "x"], "particles"),
    "no episodes": (["simulate", "--episodes", "0", "--out", "x"], "episodes"),
    "negative seed": (["simulate", "--seed", "-1", "--out", "x"], "seed"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_a_clear_error_and_writes_nothing(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, expected = BAD[what]
    code, out, err = aegis(*arguments, capsys=capsys)
    assert code == 2
    assert expected in err
    assert "Traceback" not in err + out
    assert list(tmp_path.iterdir()) == []


def test_unwritable_output_is_a_clear_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("in the way")
    for extra in ([], ["--agent", "nested_cts"]):
        code, _, err = aegis("simulate", *extra, "--episodes", 3, "--out", tmp_path / "file" / "deeper", capsys=capsys)
        assert code == 2
        assert "cannot write" in err or "choose" in err
    assert (tmp_path / "file").read_text() == "in the way"


def test_full_disk_is_a_clear_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, err = aegis("simulate", "--episodes", 3, "--out", tmp_path / "log", capsys=capsys)
    assert code == 2
    assert "No space left on device" in err
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
