"""Engines: the same results in order on any of them."""

from __future__ import annotations

import math
import multiprocessing

import pytest

from aegis.engine import (
    IN_PROCESS,
    Local,
    engine_for_function,
    map_in_order,
    map_parts,
    warm_engine,
)
from aegis.errors import SettingError


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order(workers: int) -> None:
    # The first part takes longest, so that with several workers it ends last.
    parts = [60_000, 3, 2, 1, 0]
    assert list(map_parts(math.factorial, parts, workers)) == [math.factorial(part) for part in parts]


@pytest.mark.parametrize("workers", [0, -1, 1.5, True])
def test_a_wrong_number_of_workers_is_refused_at_once(workers: int) -> None:
    with pytest.raises(SettingError, match="'workers' is a whole number from 1"):
        map_parts(math.sqrt, [1.0], workers)


def test_processes_on_standby_do_the_work_and_end() -> None:
    with warm_engine(Local(2), "aegis.problem") as engine:
        assert isinstance(engine, Local)
        assert list(map_in_order(engine, math.factorial, range(5))) == [1, 1, 2, 6, 24]
        assert list(map_in_order(engine, math.factorial, range(3))) == [1, 1, 2]  # they were taken; others are started
    assert not multiprocessing.active_children()
    with warm_engine(Local(2), "no.such.module") as engine:  # the process that needs a module reports what is wrong with it
        assert list(map_in_order(engine, math.factorial, range(4))) == [1, 1, 2, 6]
    with warm_engine(Local(2), "aegis.problem"):
        pass  # nothing came of it
    assert not multiprocessing.active_children()
    with warm_engine(IN_PROCESS, "aegis.problem") as engine:
        assert engine is IN_PROCESS


def test_what_cannot_be_sent_stays_here() -> None:
    assert engine_for_function(Local(2), math.factorial) == Local(2)
    assert engine_for_function(Local(2), lambda part: part) == IN_PROCESS
    assert engine_for_function(IN_PROCESS, lambda part: part) == IN_PROCESS
