"""The delivery thread: an episode of which a decision may have been lost is never closed as whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from client_cases import TAKEN, damage
from fault_proxy import FaultProxy
from service_cases import ALL, LEGACY, RECIPE, served, small_problem

from aegis.service.app import Service
from aegis.service.client.gate_client import Client, Episode

pytestmark = pytest.mark.usefixtures("quick_retries")


def begin(gate: Client, name: str = "e") -> Episode:
    """Open an episode, decide in it and report."""
    episode = gate.open_episode(name)
    outer = episode.decide("recipe", RECIPE, {**LEGACY, "taken": "fast"}, available=ALL)
    episode.report(episode.decide("dose", {"temperature": 1.0}, TAKEN, outer), 4.0, guards={"scrap": 0.5})
    return episode


def lose(gate: Client, episode: Episode) -> None:
    """Take a decision that only the spool knows, and lose it."""
    dose = episode.decide("dose", {"temperature": 2.0}, TAKEN, episode.last("recipe"))
    assert dose.by == "fallback"
    episode.report(dose, 0.0, guards={"scrap": 0.9})
    damage(gate.spool)


def close_at_once(gate: Client, episode: Episode, _: Callable[[], Client]) -> Client:
    """Close it before the damage is noticed."""
    episode.close()
    return gate


def close_later(gate: Client, episode: Episode, _: Callable[[], Client]) -> Client:
    """Close it after the damage was noticed."""
    assert gate.undelivered >= 0
    gate.unreported()
    episode.close()
    return gate


def close_after_a_restart(gate: Client, episode: Episode, again: Callable[[], Client]) -> Client:
    """Close it in the next process, which has the new spool."""
    assert gate.undelivered >= 0
    gate.unreported()
    gate.close(0.0)
    new = again()
    new.open_episode(episode.id).close()
    return new


def restart_on_the_damaged_spool(gate: Client, episode: Episode, again: Callable[[], Client]) -> Client:
    """Let the next process find the damage."""
    gate._delivering.stop(5)
    gate._spooling.shutdown()
    gate.spool._hang_up()
    new = again()
    new.open_episode(episode.id).close()
    return new


@pytest.mark.parametrize("ending", [close_at_once, close_later, close_after_a_restart, restart_on_the_damaged_spool])
def test_a_decision_that_was_lost_with_the_spool(
    service: Service, tmp_path: Path, ending: Callable[[Client, Episode, Callable[[], Client]], Client]
) -> None:
    with served(service) as http:
        proxy = FaultProxy(("127.0.0.1", http.base_url.port or 0))

        def connect() -> Client:
            url = f"http://127.0.0.1:{proxy.port}"
            return Client(url, timeout=10.0, spool=tmp_path / "spool", problem=small_problem())

        gate = connect()
        episode = begin(gate)
        assert gate.flush(30)
        before = dict(service.live.state.trees["e"].decisions)
        proxy.refusing.set()
        proxy.reset()
        lose(gate, episode)
        gate = ending(gate, episode, connect)
        proxy.refusing.clear()
        assert gate.flush(30)
        tree = service.live.state.trees["e"]
        assert before.items() <= tree.decisions.items()
        assert (tree.closed, tree.cut, tree.settled(service.live.problem)) == (True, True, True)
        begin(gate, "next").close()
        assert gate.flush(30)
        gate.close()
        proxy.close()
    assert (service.live.state.trees["next"].closed, service.live.state.trees["next"].cut) == (True, False)


def test_an_episode_that_another_spool_began_is_no_evidence(service: Service, tmp_path: Path) -> None:
    with served(service) as http:
        url = str(http.base_url)
        with Client(url, timeout=10.0, spool=tmp_path / "deleted") as gate:
            begin(gate)
            assert gate.flush(30)
        with Client(url, timeout=10.0, spool=tmp_path / "new") as gate:
            gate.open_episode("e").close()
            assert gate.flush(30)
            assert [(item.path, item.why[:3]) for item in gate.refused] == [("/v1/episodes", "409")]
    assert (service.live.state.trees["e"].closed, service.live.state.trees["e"].cut) == (True, True)
