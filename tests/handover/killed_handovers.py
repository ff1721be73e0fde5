"""Handovers that are killed at random points and resumed, compared with an uninterrupted one, bit for bit.

Run as a script: `python killed_handovers.py WORK POINTS`; prints one JSON object. Each victim runs in a fork of this process and
ends by SIGKILL: in the middle of writing events, before or after they are on the disk, or while the last files are written.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path

from aegis.handover import HOSTS, GateSettings, Handover, run_folder, run_in_folder
from aegis.handover.events import event_to_plain
from aegis.worlds import make_world

EPISODES = 56  # with freezes and a certificate before the handover, and freezes after it


def start(place: Path) -> None:
    world = make_world("additive", f_a=4.0, inner_steps=3)
    settings = GateSettings(caps=(2.0,), wider=(3.0,), holdback=0.1, first=8)
    run_in_folder(place, Handover(world, world.legacy("uniform"), HOSTS["greedy"](), settings, 4), EPISODES)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_while_writing(place: Path, share: float) -> None:
    """Die when this share of all the bytes of events has been written: the last line is cut wherever that falls."""
    written, most = [0], int(share * die.size)
    append = run_folder._append

    def deadly(path: Path, events) -> None:
        lines = "".join(json.dumps(event_to_plain(event), allow_nan=False) + "\n" for event in events).encode()
        if written[0] + len(lines) >= most:
            with path.open("ab") as file:
                file.write(lines[: most - written[0]])
            die()
        written[0] += len(lines)
        append(path, events)

    run_folder._append = deadly
    start(place)


def die_at_rename(place: Path, which: int) -> None:
    """Die just before the n-th file takes its place."""
    rename, seen = os.replace, [0]

    def deadly(source, target) -> None:
        seen[0] += 1
        if seen[0] == which:
            die()
        rename(source, target)

    os.replace = deadly
    start(place)


def content(place: Path) -> dict[str, bytes]:
    return {str(path.relative_to(place)): path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}


def main(work: Path, points: int) -> dict[str, object]:
    start(work / "reference")
    wanted = content(work / "reference")
    die.size = len(wanted[run_folder.EVENTS_FILE])
    rng = random.Random(103)  # the first three points die at early and late files and in the middle of an event
    unequal, kills = [], 0
    for point in range(points):
        place = work / f"run-{point}"
        for _ in range(rng.randint(1, 2)):
            share, which, writing = rng.random(), rng.randint(1, 6), rng.random() < 0.7
            child = os.fork()
            if child == 0:
                if writing:
                    die_while_writing(place, share)
                else:
                    die_at_rename(place, which)
                os._exit(0)
            kills += os.WIFSIGNALED(os.waitpid(child, 0)[1])
        start(place)
        if content(place) != wanted:
            unequal.append(point)
    flips = sum(b'"kind": "flip"' in line for line in wanted[run_folder.EVENTS_FILE].splitlines())
    return {"unequal": unequal, "kills": kills, "files": sorted(wanted), "flips": flips}


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]), int(sys.argv[2]))))
