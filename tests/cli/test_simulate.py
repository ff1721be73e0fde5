"""simulate as a user types it: logs of a legacy and of agents, and what changes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aegis.cli import main
from aegis.logs import Source
from aegis.problem import load_problem
from aegis.worlds import PRESETS, SHIFTS, make_world


def aegis(*arguments: object, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stop:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    code = stop.value.code
    return (0 if code is None else int(code)), captured.out, captured.err


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


def simulated(out: Path, *arguments: object, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """Run `aegis simulate --json` into `out` and return what it prints."""
    code, printed, err = aegis("simulate", *arguments, "--out", out, "--json", capsys=capsys)
    assert code == 0, err
    found: dict[str, Any] = json.loads(printed)
    return found


def test_numbers_with_an_exponent_are_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(tmp_path / "log", "--episodes", 3, "--set", "f_a=1e-3", capsys=capsys)
    assert found["settings"] == {"f_a": 0.001}


def test_presets_and_shifts_change_the_world(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--world", "unified", "--episodes", 3]
    plain, quadratic, shifted = (
        simulated(tmp_path / name, *few, *more, capsys=capsys)
        for name, more in (("plain", []), ("preset", ["--preset", "quadratic"]), ("shift", ["--shift", "N_Q"]))
    )
    assert (quadratic["preset"], quadratic["shift"]) == ("quadratic", None)
    assert (shifted["preset"], shifted["shift"]) == (None, "N_Q")
    assert len({found["mean_reward"] for found in (plain, quadratic, shifted)}) == 3
    for name, settings in (("plain", {}), ("preset", PRESETS["quadratic"]), ("shift", SHIFTS["N_Q"])):
        limits = make_world("unified", **settings).problem.reward.range
        assert load_problem(tmp_path / name / "problem.yaml").reward.range == limits


def test_features_tempering_and_nodes_change_the_agent(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--agent", "nested_cts", "--episodes", 4, "--set", "inner_steps=3"]
    simulated(tmp_path / "plain", *few, capsys=capsys)
    for option, value, where in (
        ("--features", "polynomial", ("model", "features")),
        ("--temper", 0.5, ("model", "temper")),
        ("--nodes", 8, ("integration", "nodes")),
    ):
        out = tmp_path / option
        found = simulated(out, *few, option, value, capsys=capsys)
        assert found[option.removeprefix("--")] == value
        settings = json.loads((out / "settings.json").read_text())
        assert settings["agent"][where[0]][where[1]] == value
        # the same run with another value is another run
        code, _, err = aegis("simulate", *few, option, value, "--out", tmp_path / "plain", capsys=capsys)
        assert code == 2 and "other settings (agent" in err
