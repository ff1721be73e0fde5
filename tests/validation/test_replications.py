"""Runs survive interruptions: what is done stays, what is cut off is run again, and other studies are never mixed in."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aegis.engine import Local
from aegis.errors import InputError, OutputError, SettingError
from aegis.files import folder_lock
from aegis.rng import stream
from aegis.validation import run_tasks, stored_runs, timed_progress
from aegis.validation.replications import append_runs, runs_file_name


@dataclass(frozen=True)
class Drawing:
    """A task whose runs are random numbers; stops: the run in which the user interrupts it."""

    key: str = "a"
    stops: int | None = None

    def prepare(self) -> Callable[[int], list[dict[str, Any]]]:
        def run(number: int) -> list[dict[str, Any]]:
            if number == self.stops:
                raise KeyboardInterrupt
            return [{"number": float(stream(1, self.key, number).random())}]

        return run


def test_runs_are_kept_and_only_missing_ones_are_done(tmp_path: Path) -> None:
    first = run_tasks({"one": Drawing()}, 3, tmp_path)
    told: list[tuple[int, int, str]] = []
    more = run_tasks({"one": Drawing(stops=1)}, 5, tmp_path, report=lambda *words: told.append(words))  # run 1 is there
    assert {run: more["one"][run] for run in range(3)} == first["one"]
    assert list(more["one"]) == [0, 1, 2, 3, 4]
    assert told == [(0, 2, "one"), (1, 2, "one"), (2, 2, "one")]
    assert more == run_tasks({"one": Drawing()}, 5)  # a folder changes nothing
    assert list(run_tasks({"one": Drawing()}, 2, tmp_path)["one"]) == [0, 1]


def test_an_interruption_keeps_what_is_done(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run_tasks({"one": Drawing(stops=2)}, 5, tmp_path)
    assert list(stored_runs("one", "a", tmp_path)) == [0, 1]
    assert run_tasks({"one": Drawing()}, 5, tmp_path) == run_tasks({"one": Drawing()}, 5)


@pytest.mark.ci
def test_processes_give_the_same(tmp_path: Path) -> None:
    both = {"one": Drawing("a"), "two": Drawing("b")}
    assert run_tasks(both, 3, tmp_path, engine=Local(2)) == run_tasks(both, 3)
    assert list(stored_runs("two", "b", tmp_path)) == [0, 1, 2]


@pytest.mark.parametrize("cut", [1, 7, 25])
def test_a_line_that_was_cut_off_is_run_again_and_swallows_nothing(tmp_path: Path, cut: int) -> None:
    whole = run_tasks({"one": Drawing()}, 3, tmp_path)
    path = tmp_path / runs_file_name("one")
    path.write_bytes(path.read_bytes()[:-cut])
    assert list(stored_runs("one", "a", tmp_path)) == ([0, 1, 2] if cut == 1 else [0, 1])
    append_runs("one", "a", {7: [{"number": 0.5}]}, tmp_path)
    assert stored_runs("one", "a", tmp_path)[7] == [{"number": 0.5}]
    assert run_tasks({"one": Drawing()}, 3, tmp_path) == whole
    path.write_text("no line\n[]\n3\n" + path.read_text())
    assert run_tasks({"one": Drawing()}, 3, tmp_path) == whole


def test_runs_of_another_study_are_refused(tmp_path: Path) -> None:
    run_tasks({"one": Drawing("a")}, 1, tmp_path)
    with pytest.raises(InputError, match=r"one\.jsonl: holds runs of a study with other settings; move it away"):
        run_tasks({"one": Drawing("b")}, 1, tmp_path)


@pytest.mark.parametrize("cut", [1, 7, 25, 60])
def test_what_was_cut_off_is_dropped_when_runs_go_on(tmp_path: Path, cut: int) -> None:
    run_tasks({"one": Drawing()}, 2, tmp_path)
    path = tmp_path / runs_file_name("one")
    whole = path.read_text()
    path.write_bytes(path.read_bytes()[:-cut])
    run_tasks({"one": Drawing()}, 2, tmp_path)
    assert path.read_text() == whole  # nothing of the line that was cut off is left


@dataclass(frozen=True)
class Telling(Drawing):
    """A task that says what it is made of."""

    seed: int = 1
    code: str = "x" * 50

    @property
    def parts(self) -> dict[str, str]:
        return {"seed": str(self.seed), "plant": self.code}


def test_a_refusal_names_what_differs(tmp_path: Path) -> None:
    run_tasks({"one": Telling("a")}, 1, tmp_path)
    run_tasks({"one": Telling("a")}, 2, tmp_path)
    for other, words in (
        (Telling("b", seed=2), r"other settings: seed \(1 there, 2 now\); move"),
        (Telling("b", code="y" * 50), "other settings: plant; move"),
        (Telling("b", seed=3, code="y"), r"seed \(1 there, 3 now\), plant; move"),
        (Drawing("b"), "other settings; move"),
    ):
        with pytest.raises(InputError, match=words):
            run_tasks({"one": other}, 1, tmp_path)
    path = tmp_path / runs_file_name("one")
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    with pytest.raises(InputError, match="other settings; move"):
        run_tasks({"one": Telling("b", seed=2)}, 1, tmp_path)
    path.unlink()
    run_tasks({"one": Telling("b", seed=2)}, 1, tmp_path)  # a new study in the same folder is told from then on
    with pytest.raises(InputError, match=r"seed \(2 there, 1 now\)"):
        run_tasks({"one": Telling("a")}, 1, tmp_path)


def test_one_writer_at_a_time_and_whole_numbers(tmp_path: Path) -> None:
    with folder_lock(tmp_path), pytest.raises(OutputError, match="another process is writing"):
        run_tasks({"one": Drawing()}, 1, tmp_path)
    with pytest.raises(SettingError, match="'runs' is a whole number from 1, found 0"):
        run_tasks({"one": Drawing()}, 0)
    (tmp_path / runs_file_name("two")).mkdir()
    with pytest.raises(OutputError, match="cannot write"):
        append_runs("two", "a", {0: []}, tmp_path)


def test_what_cannot_be_sent_is_said_before_anything_starts() -> None:
    task = Drawing()
    object.__setattr__(task, "key", lambda: None)
    with pytest.raises(SettingError, match=r"one: cannot be sent to other processes .* or use one worker"):
        run_tasks({"one": task}, 1, engine=Local(2))


def test_a_killed_process_leaves_whole_lines(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from aegis.validation.replications import run_tasks\n"
        "class Slow:\n"
        "    key = 'slow'\n"
        "    def prepare(self):\n"
        "        return lambda run: time.sleep(0.01 * (run > 3)) or [{'run': run}]\n"
        "run_tasks({'one': Slow()}, 10_000, Path(sys.argv[1]))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], env=os.environ)
    for _ in range(3000):
        if len(stored_runs("one", "slow", tmp_path)) > 4:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    found = stored_runs("one", "slow", tmp_path)
    assert len(found) > 4 and list(found) == list(range(len(found)))
    with folder_lock(tmp_path):  # the lock went with the process
        lines = (tmp_path / runs_file_name("one")).read_text().splitlines()
    assert [json.loads(line)["run"] for line in lines[: len(found)]] == list(found)


def test_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("aegis.validation.replications.time.monotonic", lambda: clock[0])
    said: list[str] = []
    report = timed_progress(said.append)
    for done, now in ((0, 0.0), (1, 3.0), (2, 60.0), (3, 61.0), (4, 62.0)):
        clock[0] = now
        report(done, 4, "one")
    assert said == ["one: 2/4 runs, 1.0 min left", "one: 4/4 runs, 0.0 min left"]
