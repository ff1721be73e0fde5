"""One BLAS thread unless the user chose otherwise, and parts that come back in order from any number of workers."""

from __future__ import annotations

import contextlib
import math
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import threadpoolctl

from aegis.engine import (
    IN_PROCESS,
    THREAD_VARIABLES,
    Local,
    engines,
    limit_blas_threads,
    map_parts,
    usable_cores,
)
from aegis.engine.processes import ProcessPool
from aegis.errors import ModelError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Unset the thread variables; return the list of limits that will be asked for."""
    found: list[int] = []
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name)
    monkeypatch.setattr(threadpoolctl, "threadpool_limits", lambda limits: found.append(limits))
    return found


def test_every_variable_is_set_and_loaded_libraries_are_limited(asked: list[int]) -> None:
    limit_blas_threads()
    assert [os.environ[name] for name in THREAD_VARIABLES] == ["1", "1", "1"]
    assert asked == [1]


@pytest.mark.parametrize("chosen", THREAD_VARIABLES)
def test_a_users_choice_is_kept_and_the_others_are_set(chosen: str, asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(chosen, "4")
    limit_blas_threads()
    assert {name: os.environ[name] for name in THREAD_VARIABLES} == {
        name: "4" if name == chosen else "1" for name in THREAD_VARIABLES
    }
    assert asked == ([1] if chosen == "MKL_NUM_THREADS" else [])


def test_loaded_libraries_have_one_thread() -> None:
    assert np.eye(2) @ np.eye(2) is not None
    assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} <= {1}


def test_several_workers_are_other_processes_with_one_thread() -> None:
    found = list(map_parts(eval, ["__import__('os').getpid()", "__import__('os').environ['OPENBLAS_NUM_THREADS']"], 2))
    assert found[0] != os.getpid() and found[1] == "1"


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_part_raises_is_raised_at_its_turn(workers: int) -> None:
    found = map_parts(math.sqrt, [4.0, -1.0, 9.0], workers)
    assert next(found) == 2.0
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        next(found)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # a race inside the pool of Python 3.11
def test_a_worker_that_dies_is_a_clear_error() -> None:
    with pytest.raises(ModelError, match="a worker process died"):
        list(map_parts(os._exit, [3, 3], 2))


LONG = "__import__('time').sleep(60)"


@pytest.mark.parametrize("workers", [1, 2])
def test_a_crew_gives_every_result_with_the_place_of_its_part(workers: int) -> None:
    with Local(workers).team(math.factorial, [3, 4, 5]) as crew:
        assert sorted(crew) == [(0, 6), (1, 24), (2, 120)]
    assert multiprocessing.active_children() == []


def test_what_is_done_comes_first_and_a_busy_worker_is_stopped_at_once() -> None:
    started = time.monotonic()
    with ProcessPool(eval, [LONG, "6", "7"], 2) as crew:
        results = iter(crew)
        assert [next(results), next(results)] == [(1, 6), (2, 7)]
        children = multiprocessing.active_children()
    assert time.monotonic() - started < 50
    assert -signal.SIGKILL in [child.exitcode for child in children]
    assert multiprocessing.active_children() == []


def test_who_is_interrupted_gets_what_is_there() -> None:
    with ProcessPool(eval, [LONG, "6", "7"], 2) as crew:
        for place, result in crew:
            assert (place, result) == (1, 6)
            break
        while len(crew.finished()) < 2:
            time.sleep(0.05)
        assert crew.finished() == [(1, 6), (2, 7)]


def test_after_a_part_that_failed_the_others_are_there() -> None:
    with ProcessPool(eval, ["1 / 0", "6"], 1) as crew:
        with pytest.raises(ZeroDivisionError):
            next(iter(crew))
        while not crew.finished():
            time.sleep(0.05)
        assert crew.finished() == [(1, 6)]


def test_results_that_come_together_are_all_given() -> None:
    with ProcessPool(eval, ["1", "2", "3", "4"], 2) as crew:
        results = iter(crew)
        got = [next(results)]
        while len(crew.finished()) < 3:
            time.sleep(0.05)
        assert sorted([*got, *results]) == [(0, 1), (1, 2), (2, 3), (3, 4)]


def test_alone_the_result_in_hand_is_there() -> None:
    with IN_PROCESS.team(math.sqrt, [4.0, 9.0]) as crew:
        next(iter(crew))
        assert crew.finished() == [(0, 2.0)]


class Stubborn(Exception):
    """An error that cannot be sent to another process: it is not made from what it keeps."""

    def __init__(self, left: int, right: int) -> None:
        super().__init__(f"{left} and {right}")


def stubborn(_: int) -> None:
    raise Stubborn(1, 2)


def test_an_error_that_cannot_be_sent_is_told_in_words() -> None:
    with pytest.raises(ModelError, match="Stubborn: 1 and 2"):
        list(map_parts(stubborn, [1, 2], 2))


def test_where_an_error_came_from_is_told() -> None:
    with pytest.raises(ValueError, match="by hand") as raised:
        list(map_parts(exec, ["raise ValueError('by hand')", ""], 2))
    assert any("Traceback" in note for note in raised.value.__notes__)


def test_workers_end_with_whoever_started_them() -> None:
    part = "print(__import__('os').getpid(), flush=True) or __import__('time').sleep(600)"
    script = f"from aegis.engine.processes import ProcessPool\nwith ProcessPool(eval, [{part!r}] * 2, 2) as crew: list(crew)"
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    workers: list[int] = []
    try:
        assert parent.stdout is not None
        workers += [int(parent.stdout.readline()) for _ in range(2)]
        parent.kill()
        assert parent.communicate(timeout=120)[0] == ""  # the end of the output: nobody holds it any more
    finally:
        for process in (parent.pid, *workers):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def test_cores_that_may_be_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(engines, "QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3}, raising=False)
    assert usable_cores() == 4
    for text, cores in (("max 100000", 4), ("150000 100000", 2), ("10000 100000", 1), ("900000 100000", 4), ("what", 4)):
        (tmp_path / "cpu.max").write_text(text + "\n")
        assert usable_cores() == cores
