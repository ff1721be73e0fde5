"""Overruled choices: an interlock or a person replaced the action, and the episode goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from client_cases import TAKEN, TIMEOUT
from inline import make_plant
from postgres_server import free_port
from service_cases import ALL, LEGACY, RECIPE, count_all, counting_here, key, play, records, served, started

from aegis.api import load_candidate
from aegis.certificate import certify
from aegis.errors import InputError
from aegis.handover import UnitCounted, event_from_plain
from aegis.logs import Source
from aegis.ope import reward_measure
from aegis.problem import load_problem
from aegis.service.app import Service
from aegis.service.client.gate_client import ActionChoice, Client, Episode
from aegis.service.http_errors import Conflict, NotFound
from aegis.service.journal_export import export_gate
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Ask, Report
from aegis.service.store.database import Database

pytestmark = pytest.mark.usefixtures("quick_retries")
OUTER = {**LEGACY, "taken": "fast"}


def begin(gate: Client, name: str = "e") -> tuple[Episode, ActionChoice]:
    """Open an episode with a recipe and a dose of 0."""
    episode = gate.open_episode(name)
    outer = episode.decide("recipe", RECIPE, OUTER, available=ALL)
    return episode, episode.decide("dose", {"temperature": 1.0}, TAKEN, outer)


def finish(episode: Episode, choice: ActionChoice) -> None:
    """Report what came of it, and close it."""
    episode.report(choice, 4.0, guards={"scrap": 0.5})
    episode.close()


def kinds(live: LiveGate) -> list[str]:
    """Return what was written about episodes."""
    return [item.kind for item in records(live) if item.kind not in ("opened", "writer", "keyed")]


# ---- through the client ------------------------------------------------------------------------------------------------------


def test_an_overruled_episode_goes_on(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10.0, spool=tmp_path / "spool") as gate:
        episode, choice = begin(gate)
        episode.overrule(choice, choice.action)  # the same: nothing has changed
        assert gate.flush() and service.live.state.trees["e"].arm == "agent"
        episode.overrule(choice, -1.0, "interlock 12")
        episode.overrule(choice, -1.0)  # once more, nothing new
        later = episode.decide("dose", {"temperature": 2.0}, TAKEN, "recipe-1")
        episode.overrule(later, "valve shut")  # no action of the level
        episode.report(later, 1.0, guards={"scrap": 0.5})
        finish(episode, choice)
        assert gate.flush() and gate.refused == []
        tree = service.live.state.trees["e"]
        assert tree.settled(service.live.problem) and tree.arm == "overruled" and tree.gap and not tree.cut
        assert [(item.action, item.replaced, item.used) for item in tree.decisions.values()] == [
            (1, False, None),
            (1, True, 0),
            (1, True, None),
        ]
        (first, second) = [item.body for item in records(service.live, "replaced")]
        assert (first["used"], first["why"], second["used"], second["why"]) == (-1.0, "interlock 12", "valve shut", None)


def test_while_the_gate_is_away_it_waits_in_the_spool(service: Service, tmp_path: Path) -> None:
    port = free_port()
    gate = Client(f"http://127.0.0.1:{port}", timeout=TIMEOUT, spool=tmp_path / "spool")
    episode, choice = begin(gate)
    episode.overrule(choice, -1.0)
    finish(episode, choice)
    with served(service, port=port):
        assert gate.flush() and gate.refused == []
        assert kinds(service.live) == ["episode", "overruled", "overruled", "replaced", "results", "closed"]
        assert service.live.state.trees["e"].arm == "overruled"
        gate.close()


def test_what_cannot_be_overruled_is_refused_and_nothing_is_lost(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10.0, spool=tmp_path / "spool") as gate:
        episode, choice = begin(gate, "late")
        episode.report(choice, 4.0, guards={"scrap": 0.5})
        episode.overrule(choice, -1.0)
        assert gate.flush()
        assert "before you report" in gate.refused[0].why
        assert service.live.state.trees["late"].cut  # it was counted as something that it is not
        episode.close()
        episode, choice = begin(gate, "unknown")
        episode.overrule("dose-9", -1.0)
        finish(episode, choice)
        assert gate.flush() and "has no decision 'dose-9'" in gate.refused[1].why
        assert service.live.state.trees["unknown"].cut
        episode, choice = begin(gate, "twice")
        episode.overrule(choice, -1.0)
        episode.overrule(choice, 1.0)  # not sent; the first one is kept
        finish(episode, choice)
        assert gate.flush() and len(gate.refused) == 2
        tree = service.live.state.trees["twice"]
        assert (tree.arm, tree.decisions[choice.id].used) == ("overruled", 0)
        episode, choice = begin(gate, "closed")
        finish(episode, choice)
        episode.overrule(choice, -1.0)
        assert gate.flush() and "is closed" in gate.refused[2].why and service.live.state.trees["closed"].cut
        assert all(len(service.live.state.trees[name].results) == 1 for name in ("late", "unknown", "twice", "closed"))


@pytest.mark.parametrize("used", [None, "valve shut", 17.5, [0.1, 0.2], {"pump": "off", "valve": 0.0}])
def test_whatever_was_done_instead_is_kept(service: Service, tmp_path: Path, used: Any) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool") as gate:
        episode = gate.open_episode("e")
        outer = episode.decide("recipe", RECIPE, LEGACY, available=ALL)
        episode.overrule(outer, used)
        assert gate.flush(30) and gate.refused == []
        assert service.live.state.trees["e"].replaced
        assert records(service.live, "replaced")[-1].body["used"] == used


def test_a_strict_client_raises(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10.0, spool=tmp_path / "spool", strict=True) as gate:
        episode, choice = begin(gate)
        with pytest.raises(InputError, match="not known here"):
            episode.overrule("dose-9", -1.0)
        episode.overrule(choice, -1.0)
        with pytest.raises(InputError, match="overruled already"):
            episode.overrule(choice, 1.0)
        finish(episode, choice)
        with pytest.raises(InputError, match="overruled already"):
            episode.overrule(choice, 1.0)


# ---- at the gate -------------------------------------------------------------------------------------------------------------


def test_the_gate_refuses_what_contradicts(file_database: Database) -> None:
    with started(file_database) as live:
        live.open_episode(key(), "e")
        live.decide(key(), "e", Ask(level="recipe", id="r", context=RECIPE, available=ALL, legacy=LEGACY))  # type: ignore[arg-type]
        with pytest.raises(NotFound):
            live.replace(key(), "e", "d", 1.0)
        with pytest.raises(NotFound):
            live.replace(key(), "f", "d", 1.0)
        own = live.state.trees["e"].decisions["r"].action
        names = ["slow", "fast", "boost"]
        assert not live.replace(key(), "e", "r", names[own])["replaced"]
        assert live.replace("k", "e", "r", names[own - 1])["replaced"] and live.replace("k", "e", "r", names[own - 1])["replaced"]
        assert not live.replace(key(), "e", "r", names[own - 1])["replaced"]
        with pytest.raises(Conflict, match="by another one"):
            live.replace(key(), "e", "r", names[own])
        live.decide(key(), "e", Ask(level="dose", id="d", context={"temperature": 1.0}, legacy=LEGACY))  # type: ignore[arg-type]
        assert live.state.trees["e"].arm == "overruled"


def units(live: LiveGate) -> list[UnitCounted]:
    """Return the episodes that were counted."""
    events = [event_from_plain(item.body["event"]) for item in records(live, "event")]
    return [event for event in events if isinstance(event, UnitCounted)]


def run_with_interlock(plant: Any, episodes: int, trips: set[int]) -> None:
    """Run episodes; in some an interlock replaces the last action."""
    report = plant.live.report

    def tripping(name: str, items: list[Report]) -> Any:
        if plant.live.state.started in trips and not name.startswith("again"):
            plant.live.replace(key(), items[-1].episode, items[-1].decision, "shut down")
        return report(name, items)

    plant.live.__class__.report, before = lambda _, name, items: tripping(name, items), plant.live.__class__.report
    report = before.__get__(plant.live)
    try:
        plant.run(episodes)
    finally:
        plant.live.__class__.report = before


def test_tests_go_on_at_their_worst_and_the_export_gives_the_same_bound(tmp_path: Path) -> None:
    plant = make_plant(tmp_path / "gate.sqlite", upgrades=False, caps=(2.0,), levels=("inner",))
    trips = {4, 13, 21}
    while not plant.live.state.opened.deployed:
        run_with_interlock(plant, 5, trips)
        assert plant.live.state.opened.episode < 1000
    gate = plant.live.state.opened
    assert gate.paused is None and {item.episode for item in units(plant.live) if item.arm == "overruled"} == trips
    worst = next(item for item in units(plant.live) if item.episode == 21)
    assert worst.evidence and all(len(set(part)) == 1 for claims in worst.evidence.values() for part in claims["gain"])
    assert all(worst.evidence.values()) and not [
        item for item in records(plant.live, "event") if "restart" in str(item.body)[:40]
    ]
    exported = export_gate(plant.live.database, "plant", tmp_path / "out")
    assert exported["gaps"] == 3
    source = Source([tmp_path / "out" / "log.parquet"], load_problem(tmp_path / "out" / "problem.yaml"))
    (item,) = exported["certificates"]
    (level,) = certify(source, load_candidate(str(tmp_path / "out" / item["folder"]), source.problem), ledger=False).levels
    (deployed,) = gate.deployed
    assert level.gain_lower == reward_measure(source.problem).gain(deployed.gain_lower)


def test_it_may_break_off_and_is_not_learned_from(file_database: Database) -> None:
    with started(file_database) as live:
        counting = counting_here(live)
        play(live, "before")
        live.open_episode(key(), "e")
        live.decide(key(), "e", Ask(level="recipe", id="r", context=RECIPE, available=ALL, legacy=LEGACY))  # type: ignore[arg-type]
        live.replace(key(), "e", "r", "emergency stop")
        live.close(key(), "e")
        play(live, "after")
        count_all(counting)
        assert live.state.opened.paused is None and [item.arm for item in units(live)] == ["agent", "overruled", "agent"]
        assert counting.worker.workshop.arms == ["agent", "broken", "agent"]  # type: ignore[attr-defined]
