"""What a restarted control system still has to report, and calls that must not stop a plant."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from client_cases import TAKEN, TIMEOUT
from postgres_server import free_port
from service_cases import ALL, LEGACY, RECIPE, served, small_problem

from aegis.errors import InputError
from aegis.service.app import Service
from aegis.service.client.gate_client import ActionChoice, Client, Episode
from aegis.service.client.spool import Spool

pytestmark = pytest.mark.usefixtures("quick_retries")
OUTER = {**LEGACY, "taken": "fast"}


def away(tmp_path: Path, **settings: Any) -> Client:
    """Return a client whose gate is not there."""
    return Client(f"http://127.0.0.1:{free_port()}", timeout=TIMEOUT, spool=tmp_path / "spool", **settings)


def begin(gate: Client, name: str = "e") -> tuple[Episode, ActionChoice, ActionChoice, ActionChoice]:
    """Open an episode with a recipe and two doses."""
    episode = gate.open_episode(name)
    outer = episode.decide("recipe", RECIPE, OUTER, available=ALL)
    return (episode, outer, *(episode.decide("dose", {"temperature": 1.0}, TAKEN, outer) for _ in range(2)))  # type: ignore[return-value]


def crash(gate: Client) -> None:
    """End a client as a process that is killed does: nothing more is delivered or written."""
    gate._delivering.stop(5)
    gate._asking.shutdown()
    gate._spooling.shutdown()
    gate._line.hang_up()
    gate.spool._safe.close()
    gate.spool._quick.close()


def test_after_a_crash_the_choices_without_a_result_are_known(service: Service, tmp_path: Path) -> None:
    with served(service) as http:
        gate = Client(str(http.base_url), timeout=10.0, spool=tmp_path / "spool", problem=small_problem())
        episode, _, first, second = begin(gate)
        episode.report(first, 4.0, guards={"scrap": 0.5})
        assert [item.id for item in episode.unreported] == [second.id]
        gate.spool.choose("e", "dose-4", None)  # the answer to this question was never seen
        crash(gate)
        with Client(str(http.base_url), timeout=10.0, spool=tmp_path / "spool", problem=small_problem()) as again:
            listed = again.unreported()
            assert [(item.episode, item.id, item.level, item.answered) for item in listed] == [
                ("e", second.id, "dose", True),
                ("e", "dose-4", "dose", False),
            ]
            assert listed[0].choice == second
            taken_up = again.open_episode("e")
            assert {item.id for item in taken_up.unreported} == {second.id, "dose-4"}
            taken_up.report(second, 4.0, guards={"scrap": 0.5})
            assert [item.id for item in taken_up.unreported] == ["dose-4"]  # reported as missing by the client itself
            taken_up.close()
            assert again.unreported() == [] and again.flush()


def test_without_the_problem_choices_of_every_level_are_listed(tmp_path: Path) -> None:
    gate = away(tmp_path)
    episode, outer, first, second = begin(gate)
    assert [item.id for item in gate.unreported()] == [outer.id, first.id, second.id]
    episode.report_all([{"decision": first.id, "reward": 1.0}, {"decision": second.id, "reward": 2.0}])
    assert [item.id for item in gate.unreported()] == [outer.id] == [item.id for item in episode.unreported]
    episode.report(None, 3.0)
    assert gate.unreported() == [] == episode.unreported
    gate.close(0.0)


def test_a_spool_of_an_earlier_version_is_taken_up(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "spool")
    connection.execute("CREATE TABLE choices (number INTEGER PRIMARY KEY AUTOINCREMENT, episode TEXT, id TEXT, choice TEXT)")
    connection.execute("INSERT INTO choices (episode, id, choice) VALUES ('e', 'dose-1', NULL)")
    connection.commit()
    connection.close()
    spool = Spool(tmp_path / "spool")
    assert [(item.id, item.reported) for item in spool.choices()] == [("dose-1", False)]
    spool.close()


# ---- nothing is raised into the plant ----------------------------------------------------------------------------------------


class Odd:
    """A value that cannot be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def test_values_that_cannot_be_encoded(tmp_path: Path) -> None:
    gate = away(tmp_path)
    loop: list[Any] = []
    loop.append(loop)
    episode = gate.open_episode("\ud800 e")
    for value in (Odd(), loop, 10**5000, "\udcff", {Odd(): 1}, {1, 2}):
        assert episode.decide("dose", {"temperature": value}, TAKEN).by == "fallback"
        episode.report("dose-1", value)  # type: ignore[arg-type]
        episode.overrule("dose-1", value)
    episode.report_all([{"decision": "d", "reward": 1.0}, 3])  # type: ignore[list-item]
    with pytest.raises(InputError, match="name of a level"):
        episode.decide(["dose"])  # type: ignore[arg-type]
    with pytest.raises(InputError, match="one flag for each"):
        episode.decide("dose", {}, TAKEN, available=3)  # type: ignore[arg-type]
    gate.close(0.0)


def test_a_closed_client_lets_the_legacy_decide(tmp_path: Path) -> None:
    gate = away(tmp_path)
    episode = gate.open_episode("e")
    gate.close(0.0)
    choice = episode.decide("dose", {"temperature": 1.0}, TAKEN)
    assert (choice.action, choice.by, dict(gate._counter.reasons)) == (0.0, "fallback", {"closed": 1})
    episode.report(choice, 1.0)
    episode.overrule(choice, 1.0)
    episode.close()
    gate.close()
    assert gate.unreported() == [] and gate.refused == [] and not gate.flush(0.01)


def test_a_fork_of_the_control_system_lets_the_legacy_decide(tmp_path: Path) -> None:
    gate = away(tmp_path)
    episode = gate.open_episode("e")
    gate._process = os.getpid() + 1  # as in a child, which has none of the threads
    choice = episode.decide("dose", {"temperature": 1.0}, TAKEN)
    assert (choice.action, choice.by, choice.propensity) == (0.0, "fallback", None)
    gate.close()
    gate._process = os.getpid()
    assert gate.undelivered == 1  # the child wrote nothing
    gate.close(0.0)


def test_a_spool_that_fails_in_any_way_raises_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> Any:
        raise OSError("no such device")

    Spool(tmp_path / "spool").learn("problem", {"wrong": 1})
    gate = away(tmp_path)
    for name in ("put", "choose", "waits", "begin", "resume", "choices", "refused", "forget", "__len__", "close"):
        monkeypatch.setattr(Spool, name, fail)
    episode = gate.open_episode("e")
    choice = episode.decide("dose", {"temperature": 1.0}, TAKEN)
    assert choice.by == "fallback"
    episode.report(choice, 1.0)
    episode.close()
    assert gate.counters.by_fallback == 1 and gate.unreported() == []
    gate.close(0.0)
