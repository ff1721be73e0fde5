"""Runs in a folder: resumed after a kill they are the same, bit for bit; anything else in the folder is an error."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aegis import files
from aegis.agents import AGENTS, Online, checkpoint_episode, run, run_to
from aegis.agents.run_checkpoint import save_checkpoint
from aegis.errors import InputError, OutputError, SettingError
from aegis.logs import Source
from aegis.mechanisms import Scaling
from aegis.problem import Problem, Propensity
from aegis.worlds import make_world

HERE = Path(__file__).parent


def make_online(seed: int = 5) -> Online:
    world = make_world("additive", inner_steps=4)
    return Online(world, AGENTS["nested_nig"], world.problem.scope(None), seed, world.legacy("uniform"))


@pytest.mark.ci
@pytest.mark.skipif(not hasattr(os, "fork"), reason="victims run in forks, which this system does not have")
def test_killed_at_twelve_points_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "killed_runs.py"), str(tmp_path), "12"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["unequal"] == []
    assert found["kills"] >= 12
    assert found["files"] == ["checkpoint.npz", "log.parquet", "problem.yaml", "settings.json", "summary.json"]


def test_the_folder_run_equals_the_run_in_memory_and_its_log_reads_back(tmp_path: Path) -> None:
    online = make_online()
    kept = run_to(tmp_path / "run", online, 12, {}, chunk=5)
    in_memory = run(online, 12)
    np.testing.assert_array_equal(kept.means, in_memory.means)
    np.testing.assert_array_equal(kept.sums, in_memory.sums)
    for name, values in kept.belief.arrays().items():
        np.testing.assert_array_equal(values, in_memory.belief.arrays()[name])
    log = Source([tmp_path / "run" / "log.parquet"], online.plant.problem).read()
    np.testing.assert_allclose(log.episode_means(log.reward), kept.means, rtol=1e-12)
    again = run_to(tmp_path / "run", online, 12, {}, chunk=5)
    np.testing.assert_array_equal(again.means, kept.means)


def test_belief_memory_does_not_grow_with_episodes() -> None:
    online = make_online()
    few, many = run(online, 2), run(online, 30)
    sizes = [sum(v.nbytes for v in result.belief.arrays().values()) for result in (few, many)]
    assert sizes[0] == sizes[1]


def test_another_run_in_the_folder_is_an_error_that_says_what_differs(tmp_path: Path) -> None:
    run_to(tmp_path / "run", make_online(5), 3, {})
    with pytest.raises(OutputError, match="seed differ"):
        run_to(tmp_path / "run", make_online(6), 3, {})
    with pytest.raises(OutputError, match="episodes differ"):
        run_to(tmp_path / "run", make_online(5), 4, {})


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    with pytest.raises(OutputError, match="choose a new folder"):
        run_to(tmp_path, make_online(), 3, {})
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of three episodes, to be copied."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    run_to(folder, make_online(), 3, {})
    return folder


@pytest.fixture
def folder(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


def rewritten(path: Path, **changes: object) -> None:
    """Replace arrays of a checkpoint, or leave them out."""
    with np.load(path) as saved:
        arrays = {name: saved[name] for name in saved.files} | changes
    np.savez(path, **{name: values for name, values in arrays.items() if values is not None})


DAMAGE = {
    "not a checkpoint": lambda path: path.write_bytes(b"PK\x03\x04 nonsense"),
    "empty": lambda path: path.write_bytes(b""),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-200]),
    "number of episodes missing": lambda path: rewritten(path, done=None),
    "rewards missing": lambda path: rewritten(path, means=None),
    "belief missing": lambda path: rewritten(path, **{"belief/Q/shift": None}),
    "other rewards": lambda path: rewritten(path, means=np.zeros(2)),
    "several numbers of episodes": lambda path: rewritten(path, done=np.array([3, 3])),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_a_damaged_checkpoint_is_an_error_that_says_what_to_do(what: str, folder: Path) -> None:
    DAMAGE[what](folder / "checkpoint.npz")
    with pytest.raises(InputError, match=r"checkpoint.npz (cannot be read|is damaged).*; remove the folder to start again"):
        run_to(folder, make_online(), 3, {})


@pytest.mark.parametrize("content", ["{", "[1]", ""])
def test_damaged_settings_are_an_error(content: str, folder: Path) -> None:
    (folder / "settings.json").write_text(content)
    with pytest.raises(InputError, match=r"settings.json .*; choose another folder"):
        run_to(folder, make_online(), 3, {})


@pytest.mark.parametrize("name", ["log.parquet", "summary.json"])
def test_a_finished_run_without_its_log_or_summary_is_called_incomplete(name: str, folder: Path) -> None:
    (folder / name).unlink()
    with pytest.raises(InputError, match=f"incomplete: 3 of 3 episodes are done, but {name} is missing .*remove the folder"):
        run_to(folder, make_online(), 3, {})


class Stop(Exception):
    """Raised in the middle of a run."""


def interrupted(folder: Path, at: int, episodes: int = 12, chunk: int = 5) -> None:
    def stop(done: int, mean: float) -> None:
        if done == at:
            raise Stop

    with pytest.raises(Stop):
        run_to(folder, make_online(), episodes, {}, chunk=chunk, progress=stop)


def test_an_unfinished_run_without_its_parts_is_called_incomplete(tmp_path: Path) -> None:
    interrupted(tmp_path / "run", 11)
    assert checkpoint_episode(tmp_path / "run") == 10
    (tmp_path / "run" / "parts" / "part-000000000.parquet").unlink()
    with pytest.raises(InputError, match=r"10 of 12 episodes are done, but parts/part-000000000\.parquet is missing"):
        run_to(tmp_path / "run", make_online(), 12, {}, chunk=5)


def test_without_its_checkpoint_a_run_starts_again_and_ends_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_to(folder, make_online(), 7, {}, chunk=5)
    wanted = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "checkpoint.npz"}
    (folder / "checkpoint.npz").unlink()
    (folder / "log.parquet").write_bytes(b"old")
    run_to(folder, make_online(), 7, {}, chunk=5)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "checkpoint.npz"} == wanted


def other_online(what: str) -> tuple[Online, Problem | None]:
    """Return a run that differs from `make_online()` in one thing that its name does not show."""
    online = make_online()
    world = online.plant
    if what == "plant":
        return replace(online, plant=make_world("additive", inner_steps=4, reward_sd=0.4)), None
    if what == "legacy_policy":
        return replace(online, legacy=world.legacy("sign:epsilon=0.3")), None
    if what == "scalings":
        return replace(online, scalings={"Q": Scaling(np.array([0.5]), np.array([2.0]))}), None
    levels = tuple(replace(level, propensity=Propensity(column=f"p_{level.actions.column}")) for level in world.problem.levels)
    return online, replace(world.problem, levels=levels)


@pytest.mark.parametrize("what", ["plant", "legacy_policy", "scalings", "logged_problem"])
def test_the_results_of_another_run_are_never_given_back(what: str, folder: Path) -> None:
    online, problem = other_online(what)
    with pytest.raises(OutputError, match=rf"\({what}.* differ\)"):
        run_to(folder, online, 3, {}, problem)


def test_a_folder_in_which_nothing_was_kept_yet_is_taken_over(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interrupted(folder, 3)
    assert checkpoint_episode(folder) == 0 and (folder / "settings.json").exists()
    online, problem = other_online("logged_problem")
    run_to(folder, online, 3, {}, problem)
    fresh = tmp_path / "fresh"
    run_to(fresh, online, 3, {}, problem)
    for name in ("settings.json", "problem.yaml", "log.parquet"):
        assert (folder / name).read_bytes() == (fresh / name).read_bytes()


@pytest.mark.parametrize("episodes", [2.5, -1, 0, True, "3", None, np.float64(3)])
def test_a_number_of_episodes_is_checked_before_anything_is_claimed(episodes: Any, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="'episodes' is a whole number from 1"):
        run(make_online(), episodes)
    with pytest.raises(SettingError, match="'episodes' is a whole number from 1"):
        run_to(tmp_path / "run", make_online(), episodes, {})
    with pytest.raises(SettingError, match="'chunk' is a whole number from 1"):
        run_to(tmp_path / "run", make_online(), 3, {}, chunk=episodes)
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_stored_is_refused_before_anything_is_claimed(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="plain data"):
        run_to(tmp_path / "run", make_online(), 3, {"where": tmp_path})
    with pytest.raises(SettingError, match="'seed' is a whole number from 0"):
        run_to(tmp_path / "run", make_online(2.5), 3, {})  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    run_to(tmp_path / "run", make_online(np.int64(5)), np.int64(3), {}, chunk=np.int32(2))  # type: ignore[arg-type]
    run_to(tmp_path / "run", make_online(5), 3, {}, chunk=2)


@pytest.mark.skipif(files.fcntl is None, reason="this system has no file locks")
def test_two_runs_in_one_folder_are_refused(tmp_path: Path) -> None:
    def second(done: int, mean: float) -> None:
        with pytest.raises(OutputError, match="another process is writing into"):
            run_to(tmp_path / "run", make_online(), 3, {})

    run_to(tmp_path / "run", make_online(), 3, {}, progress=second)
    assert not (tmp_path / "run" / files.LOCK).exists()


def test_stale_partial_files_of_a_killed_run_are_removed(folder: Path) -> None:
    (folder / ".log.parquet.abc.part").write_bytes(b"half")
    run_to(folder, make_online(), 3, {})
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize("name", ["log.parquet", "summary.json"])
@pytest.mark.parametrize("content", [b"", b"{}"])
def test_a_finished_run_whose_files_were_changed_is_not_reported_as_good(name: str, content: bytes, folder: Path) -> None:
    (folder / name).write_bytes(content)
    with pytest.raises(InputError, match=name):
        run_to(folder, make_online(), 3, {})


@pytest.mark.parametrize("propensities", ["full", "taken"])
@pytest.mark.parametrize("save_after", [0.0, 1e9])
def test_an_interrupted_part_is_kept_and_goes_on_to_the_same_bytes(propensities: str, save_after: float, tmp_path: Path) -> None:
    online = make_online()
    taken = tuple(
        replace(level, propensity=Propensity(column=f"p_{level.actions.column}")) for level in online.plant.problem.levels
    )
    logged = online.plant.problem if propensities == "full" else replace(online.plant.problem, levels=taken)
    run_to(tmp_path / "whole", online, 37, {}, logged, chunk=20)
    for stop, again in ((18, 15), (24, 20), (33, 30)):

        def interrupt(done: int, mean: float, stop: int = stop) -> None:
            if done == stop:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_to(tmp_path / "run", online, 37, {}, logged, chunk=20, progress=interrupt, save_after=save_after)
        assert checkpoint_episode(tmp_path / "run") == (again if save_after == 0 else 20 * (stop // 20))
    run_to(tmp_path / "run", online, 37, {}, logged, chunk=20)
    for name in ("log.parquet", "summary.json", "checkpoint.npz", "settings.json"):
        assert (tmp_path / "run" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_part_that_holds_more_than_the_checkpoint_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    online = make_online()
    run_to(tmp_path / "whole", online, 20, {}, chunk=20)
    kept: list[int] = []

    def killed(place: Path, state: Any) -> None:
        kept.append(state.done)
        if state.done == 15:
            raise KeyboardInterrupt  # after the part, before the checkpoint
        save_checkpoint(place, state)

    monkeypatch.setattr(sys.modules["aegis.agents.execution"], "save_checkpoint", killed)
    with pytest.raises(KeyboardInterrupt):
        run_to(tmp_path / "run", online, 20, {}, chunk=20, save_after=0.0)
    monkeypatch.undo()
    assert kept == [5, 10, 15] and checkpoint_episode(tmp_path / "run") == 10
    run_to(tmp_path / "run", online, 20, {}, chunk=20)
    assert (tmp_path / "run" / "log.parquet").read_bytes() == (tmp_path / "whole" / "log.parquet").read_bytes()
