"""One BLAS thread unless the user chose otherwise, and parts that come back in order from any number of workers."""

from __future__ import annotations

import math
import os

import numpy as np
import pytest
import threadpoolctl

from aegis.engine import THREAD_VARIABLES, map_parts, one_thread
from aegis.errors import ModelError, SettingError


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Unset the thread variables; return the list of limits that will be asked for."""
    found: list[int] = []
    for name in THREAD_VARIABLES:
        monkeypatch.delenv(name)
    monkeypatch.setattr(threadpoolctl, "threadpool_limits", lambda limits: found.append(limits))
    return found


def test_every_variable_is_set_and_loaded_libraries_are_limited(asked: list[int]) -> None:
    one_thread()
    assert [os.environ[name] for name in THREAD_VARIABLES] == ["1", "1", "1"]
    assert asked == [1]


@pytest.mark.parametrize("chosen", THREAD_VARIABLES)
def test_a_users_choice_is_kept_and_the_others_are_set(chosen: str, asked: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(chosen, "4")
    one_thread()
    assert {name: os.environ[name] for name in THREAD_VARIABLES} == {
        name: "4" if name == chosen else "1" for name in THREAD_VARIABLES
    }
    assert asked == ([1] if chosen == "MKL_NUM_THREADS" else [])


def test_loaded_libraries_have_one_thread() -> None:
    assert np.eye(2) @ np.eye(2) is not None
    assert {pool["num_threads"] for pool in threadpoolctl.threadpool_info()} <= {1}


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers: int) -> None:
    # The first part takes longest, so that with several workers it ends last.
    parts = [60_000, 3, 2, 1, 0]
    assert list(map_parts(math.factorial, parts, workers)) == [math.factorial(part) for part in parts]


def test_several_workers_are_other_processes_with_one_thread() -> None:
    found = list(map_parts(eval, ["__import__('os').getpid()", "__import__('os').environ['OPENBLAS_NUM_THREADS']"], 2))
    assert found[0] != os.getpid() and found[1] == "1"


@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_part_raises_is_raised_at_its_turn(workers: int) -> None:
    found = map_parts(math.sqrt, [4.0, -1.0, 9.0], workers)
    assert next(found) == 2.0
    with pytest.raises(ValueError, match=r"math domain error|nonnegative"):
        next(found)


def test_a_worker_that_dies_is_a_clear_error() -> None:
    with pytest.raises(ModelError, match="a worker process died"):
        list(map_parts(os._exit, [3, 3], 2))


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_a_wrong_number_of_workers_is_refused_at_once(workers: int) -> None:
    with pytest.raises(SettingError, match="'workers' is a whole number from 1"):
        map_parts(math.sqrt, [1.0], workers)
