"""Runs that are killed at random points and resumed, compared with an uninterrupted run, bit for bit.

Run as a script: `python killed_runs.py WORK POINTS`; prints one JSON object. Each victim runs in a fork of this process and ends
by SIGKILL, at an episode or in the middle of writing a file.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path

import numpy as np

from aegis.agents import AGENTS, Online, run_to
from aegis.worlds import make_world

EPISODES, CHUNK = 40, 7


def start(folder: Path, progress=None) -> None:
    world = make_world("additive", inner_steps=4)
    online = Online(world, AGENTS["nested_nig"], world.problem.scope(None), 5, world.legacy("uniform"))
    run_to(folder, online, EPISODES, {"world": "additive"}, chunk=CHUNK, progress=progress)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_episode(folder: Path, episode: int) -> None:
    start(folder, progress=lambda done, mean: die() if done == episode else None)


def die_at_rename(folder: Path, which: int, after: bool) -> None:
    """Die just before or just after the n-th file takes its place."""
    rename, seen = os.replace, 0

    def deadly(source, target):
        nonlocal seen
        seen += 1
        if seen == which and not after:
            die()
        rename(source, target)
        if seen == which and after:
            die()

    os.replace = deadly
    start(folder)


def content(folder: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}
    with np.load(folder / "checkpoint.npz") as saved:
        found["checkpoint.npz"] = b"".join(name.encode() + saved[name].tobytes() for name in saved.files)
    return found


def main(work: Path, points: int) -> dict[str, object]:
    reference = work / "reference"
    start(reference)
    wanted = content(reference)
    rng = random.Random(11)
    unequal, kills = [], 0
    for point in range(points):
        folder = work / f"run-{point}"
        deaths = rng.randint(1, 3)
        for _ in range(deaths):
            episode, which, after = rng.randint(1, EPISODES), rng.randint(1, 16), rng.random() < 0.5
            by_episode = rng.random() < 0.5
            if point < 8:  # the first four files, before and after each takes its place, in every run of this script
                by_episode, which, after = False, point // 2 + 1, point % 2 == 1
            child = os.fork()
            if child == 0:
                if by_episode:
                    die_at_episode(folder, episode)
                else:
                    die_at_rename(folder, which, after)
                os._exit(0)
            kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        start(folder)
        if content(folder) != wanted:
            unequal.append(point)
    return {"unequal": unequal, "kills": kills, "files": sorted(wanted)}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
