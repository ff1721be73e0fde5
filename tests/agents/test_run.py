"""Runs in a folder: resumed after a kill they are the same, bit for bit; anything else in the folder is an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aegis.agents import AGENTS, Online, run, run_to
from aegis.errors import InputError, OutputError
from aegis.logs import Source
from aegis.worlds import make_world

HERE = Path(__file__).parent


def make_online(seed: int = 5) -> Online:
    world = make_world("additive", inner_steps=4)
    return Online(world, AGENTS["nested_cts"], world.problem.scope(None), seed, world.legacy("uniform"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="victims run in forks, which this system does not have")
def test_killed_at_twenty_random_points_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(HERE / "killed_runs.py"), str(tmp_path), "20"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["unequal"] == []
    assert found["kills"] >= 20
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


def test_a_damaged_checkpoint_is_an_error_not_a_traceback(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_to(folder, make_online(), 3, {})
    (folder / "checkpoint.npz").write_bytes(b"PK\x03\x04 nonsense")
    with pytest.raises(InputError, match=r"checkpoint.npz cannot be read"):
        run_to(folder, make_online(), 3, {})
    (folder / "settings.json").write_text("{")
    with pytest.raises(InputError, match=r"settings.json is not readable"):
        run_to(folder, make_online(), 3, {})


def test_stale_partial_files_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    run_to(folder, make_online(), 3, {})
    (folder / ".log.parquet.abc.part").write_bytes(b"half")
    run_to(folder, make_online(), 3, {})
    assert not list(folder.glob(".*"))
