"""Parts on a Dask cluster: the same results, whichever workers die; and what is wrong with an engine is told."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aegis.engine import IN_PROCESS, Dask, Local, dask_pool, map_in_order, parse_engine
from aegis.errors import InputError, ModelError, SettingError

distributed = pytest.importorskip("distributed", reason="Dask is not installed: pip install 'aegis-handover[distributed]'")
# What a cluster that is being killed leaves open is not ours.
pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.filterwarnings("ignore::UserWarning")]


def slow_square(value: int) -> int:
    """Take longer for small numbers, so that results come out of order."""
    time.sleep(0.02 * max(0, 4 - value))
    return value * value


def killing(part: tuple[str, int]) -> int:
    """Kill the worker at the first try of part 3."""
    marker, number = part
    if number == 3 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number + 1


def refusing(part: int) -> int:
    """Raise an error of ours."""
    raise InputError(f"row {part}: not a number")


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Yield the address of a cluster of two workers that is there."""
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as found:
        yield f"dask://{found.scheduler_address.removeprefix('tcp://')}"


def test_the_same_results_in_order(cluster: str) -> None:
    expected = [value * value for value in range(12)]
    for engine in (IN_PROCESS, parse_engine(cluster)):
        assert list(map_in_order(engine, slow_square, range(12))) == expected


@pytest.mark.ci
def test_parts_of_a_worker_that_dies_are_done_again(tmp_path: Path) -> None:
    parts = [(str(tmp_path / "died"), number) for number in range(8)]
    assert list(map_in_order(parse_engine("dask", 2), killing, parts)) == list(range(1, 9))
    assert (tmp_path / "died").exists()


def test_what_a_part_raises_is_raised_here(cluster: str) -> None:
    with pytest.raises(InputError, match="row 0: not a number"):
        list(map_in_order(parse_engine(cluster), refusing, [0]))


def test_what_is_there_is_given_to_whoever_is_interrupted(cluster: str) -> None:
    with parse_engine(cluster).team(slow_square, range(6)) as team:
        results = iter(team)
        first = next(results)
        time.sleep(0.5)
        found = dict(team.finished())
    assert found[first[0]] == first[1]
    assert all(found[place] == place * place for place in found)
    assert len(found) > 1


def test_a_part_that_kills_every_worker_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    team: Any = dask_pool.DaskPool(slow_square, [1], None, 1)

    class Killed:
        def result(self) -> int:
            raise distributed.KilledWorker("task", None, 5)

    with pytest.raises(ModelError, match="died at one part"):
        team.result(Killed())


def test_a_cluster_with_other_versions_is_refused(cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {**dask_pool.library_versions(), "numpy": "0.1"}
    real = dask_pool.library_versions
    calls = iter([here])
    monkeypatch.setattr(dask_pool, "library_versions", _Once(real, calls))
    with pytest.raises(SettingError, match=r"has numpy .* \(here 0\.1\).*install the same there"):
        list(map_in_order(parse_engine(cluster), slow_square, [1]))


class _Once:
    """Tells something else here; elsewhere, where it arrives as a copy, the truth."""

    def __init__(self, real: Any, calls: Iterator[Any]) -> None:
        self.real, self.calls = real, calls

    def __call__(self) -> Any:
        return next(self.calls)

    def __reduce__(self) -> Any:
        return _real, ()


def _real() -> Any:
    return dask_pool.library_versions


@pytest.mark.parametrize(
    "name", ["dusk", "dask://", "dask://host", "dask://host:port", "dask://h:1/x", "", "tcp://h:1", "dask://u@h:1"]
)
def test_engines_that_are_none(name: str) -> None:
    with pytest.raises(SettingError, match="an engine is local, dask or dask://host:port"):
        parse_engine(name)


def test_engines_by_name() -> None:
    assert parse_engine("local", 3) == Local(3)
    assert parse_engine("dask", 2) == Dask(None, 2)
    assert parse_engine("dask://10.0.0.7:8786", 2) == Dask("tcp://10.0.0.7:8786", 2)
    assert parse_engine("local").workers >= 1
    with pytest.raises(SettingError, match="workers"):
        parse_engine("dask", 0)


def test_a_scheduler_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_pool, "SCHEDULER_TIMEOUT", "300ms")
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    with pytest.raises(SettingError, match=f"no Dask scheduler answers at tcp://127.0.0.1:{port}"):
        list(map_in_order(parse_engine(f"dask://127.0.0.1:{port}"), slow_square, [1]))


def test_without_dask_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    real = builtins.__import__

    def missing(name: str, *more: Any) -> Any:
        if name == "distributed":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(SettingError, match=r"aegis-handover\[distributed\]"):
        list(map_in_order(parse_engine("dask"), slow_square, [1]))
