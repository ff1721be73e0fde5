"""The folder of a legacy's log: never taken from anybody else, never half written without saying so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aegis.cli.commands.simulate import write_legacy_log
from aegis.errors import OutputError
from aegis.files import folder_lock
from aegis.logs import Source
from aegis.worlds import make_world


class Stop(BaseException):
    """Ends the command in the middle, as a signal would."""


def write(out: Path, episodes: int = 5, seed: int = 1, report: Any = lambda done, total, note: None) -> dict[str, Any]:
    world = make_world("additive", inner_steps=3)
    return write_legacy_log(out, world, world.legacy("uniform"), episodes, seed, world.problem, {"world": "additive"}, report)


def stop(done: int, total: int, note: str) -> None:
    raise Stop


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_log_problem_and_summary_are_written(tmp_path: Path) -> None:
    summary = write(tmp_path / "log")
    assert sorted(content(tmp_path / "log")) == ["log.parquet", "problem.yaml", "summary.json"]
    assert json.loads((tmp_path / "log" / "summary.json").read_text()) == summary
    assert summary["complete"] is True and summary["episodes"] == 5


def test_long_episodes_are_simulated_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = write(tmp_path / "whole")
    monkeypatch.setattr("aegis.cli.commands.simulate.DECISIONS_AT_ONCE", 6)
    seen: list[int] = []
    parts = write(tmp_path / "parts", report=lambda done, total, note: seen.append(done))
    assert seen == [2, 4, 5]
    assert parts["mean_reward"] == pytest.approx(whole["mean_reward"])
    problem = make_world("additive", inner_steps=3).problem
    logs = [Source([tmp_path / name / "log.parquet"], problem).read() for name in ("whole", "parts")]
    assert (logs[0].reward == logs[1].reward).all()


def test_its_own_folder_is_used_again(tmp_path: Path) -> None:
    write(tmp_path, 5, seed=1)
    write(tmp_path, 4, seed=2)
    again = content(tmp_path)
    write(tmp_path / "fresh", 4, seed=2)
    assert again["log.parquet"] == (tmp_path / "fresh" / "log.parquet").read_bytes()


@pytest.mark.parametrize("name", ["log.parquet", "problem.yaml", "summary.json", "settings.json"])
def test_files_of_others_are_left_alone(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("{}")
    with pytest.raises(OutputError, match=f"holds {name}, not written by .*; choose another folder"):
        write(tmp_path)
    assert content(tmp_path) == {name: b"{}"}


def test_the_folder_of_an_agents_run_is_left_alone(tmp_path: Path) -> None:
    write(tmp_path)
    (tmp_path / "settings.json").write_text("{}")
    before = content(tmp_path)
    with pytest.raises(OutputError, match=r"settings\.json, not written by"):
        write(tmp_path)
    assert content(tmp_path) == before


def test_other_files_in_the_folder_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".notes.part").write_text("mine too")
    write(tmp_path)
    assert content(tmp_path)["notes.txt"] == b"mine" and content(tmp_path)[".notes.part"] == b"mine too"


def test_an_interrupted_command_leaves_a_new_folder_empty(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        write(tmp_path, report=stop)
    assert content(tmp_path) == {}


def test_an_interrupted_command_marks_an_old_log_as_not_complete(tmp_path: Path) -> None:
    write(tmp_path, 5)
    with pytest.raises(Stop):
        write(tmp_path, 4, report=stop)
    assert json.loads(content(tmp_path)["summary.json"])["complete"] is False
    assert write(tmp_path, 4)["complete"] is True


def test_the_problem_comes_after_the_log(tmp_path: Path) -> None:
    def look(done: int, total: int, note: str) -> None:
        assert json.loads((tmp_path / "summary.json").read_text())["complete"] is False
        assert not (tmp_path / "problem.yaml").exists()

    write(tmp_path, report=look)


def test_what_a_killed_command_left_is_cleaned(tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text('{"written_by": "aegis simulate --legacy", "complete": false}')
    (tmp_path / ".log.parquet.abc.part").write_bytes(b"half")
    write(tmp_path)
    assert sorted(content(tmp_path)) == ["log.parquet", "problem.yaml", "summary.json"]


def test_two_commands_in_one_folder_are_refused(tmp_path: Path) -> None:
    with folder_lock(tmp_path), pytest.raises(OutputError, match="another process is writing into"):
        write(tmp_path)
