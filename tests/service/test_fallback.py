"""A control system that says wrong things, or is restarted: it goes on, and what the gate counts stays right."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from postgres_server import free_port
from service_cases import ALL, LEGACY, RECIPE, count_all, counting_here, records, served, small_problem

from aegis.errors import InputError
from aegis.handover import UnitCounted, event_from_plain
from aegis.service.app import Service
from aegis.service.client.fallback import ProblemFacts, draw_legacy_action
from aegis.service.client.gate_client import Client

TAKEN = {**LEGACY, "taken": 0.0}


pytestmark = pytest.mark.usefixtures("quick_retries")


def units(service: Service) -> list[UnitCounted]:
    """Count what is settled, and return what was counted."""
    count_all(counting_here(service.live))
    found = [event_from_plain(item.body["event"]) for item in records(service.live, "event")]
    return [event for event in found if isinstance(event, UnitCounted)]


# ---- wrong things ------------------------------------------------------------------------------------------------------------


def test_what_the_gate_refuses_is_decided_by_the_legacy(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool", seed=1) as gate:
        episode = gate.open_episode("e")
        outer = episode.decide("recipe", RECIPE, LEGACY, available=ALL)
        wrong = [
            episode.decide("dose", {"temperatur": 1.0}, TAKEN, outer),
            episode.decide("dose", {"temperature": float("nan")}, TAKEN, outer),
            episode.decide("dose", {"temperature": object()}, TAKEN, outer),
            episode.decide("doze", {"temperature": 1.0}, TAKEN, outer),
        ]
        assert [(choice.by, choice.action) for choice in wrong] == [("fallback", 0.0)] * 4
        right = episode.decide("dose", {"temperature": 1.0}, TAKEN, outer)
        assert right.by == "legacy"
        for choice in [*wrong, right]:
            episode.report(choice, 4.0, guards={"scrap": 0.5})
        episode.close()
        assert gate.flush(30)
        refused = gate.refused
        assert [item.path for item in refused] == ["/v1/episodes/e/overruled"] * 4 + ["/v1/results"] * 4
        assert "temperatur" in refused[0].why
        assert '"nan"' in refused[1].why
        assert "the gate refuses decision" in caplog.text
        (unit,) = units(service)  # decisions are not known: no evidence, and nothing goes on as if they had not been
        assert (unit.arm, unit.evidence) == ("mixed", {})
        assert service.live.state.opened.paused is None


def test_an_unknown_episode_stops_no_plant(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool") as gate:
        episode = gate.open_episode("not\na name")
        assert episode.decide("recipe", RECIPE, {**LEGACY, "taken": "fast"}, available=ALL).by == "fallback"
        episode.close()
        assert gate.flush(30)
        assert len(gate.refused) == 3


def test_a_refused_reward_does_not_hold_up_the_others(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool") as gate:
        episode = gate.open_episode("e")
        outer = episode.decide("recipe", RECIPE, LEGACY, available=ALL)
        made = [episode.decide("dose", {"temperature": i}, LEGACY, outer) for i in range(4)]
        guards = {"guards": {"scrap": 0.5}}
        rewards: list[Any] = [4.0, 99.0, float("nan"), 5.0]
        episode.report_all([{"decision": c.id, "reward": r, **guards} for c, r in zip(made, rewards, strict=True)])
        assert gate.flush(30)
        tree = service.live.state.trees["e"]
        assert {name: item.reward for name, item in tree.results.items()} == {made[0].id: 4.0, made[3].id: 5.0}
        episode.report(made[1], 9.0, guards={"scrap": 0.5})  # put right in time
        episode.close()
        assert gate.flush(30)
        assert [tree.results[choice.id].reward for choice in made] == [4.0, 9.0, None, 5.0]
        assert tree.settled(service.live.problem)
        assert len(gate.refused) == 2


def test_a_reward_that_is_refused_after_the_end_is_missing(service: Service, tmp_path: Path) -> None:
    with served(service) as http, Client(str(http.base_url), timeout=10, spool=tmp_path / "spool") as gate:
        episode = gate.open_episode("e")
        outer = episode.decide("recipe", RECIPE, LEGACY, available=ALL)
        inner = episode.decide("dose", {"temperature": 1.0}, LEGACY, outer)
        episode.close()
        assert gate.flush(30)
        episode.report(inner, -1.0, guards={"scrap": 0.5})
        assert gate.flush(30)
        assert service.live.state.trees["e"].results[inner.id].reward is None


def test_a_legacy_that_cannot_be_drawn_from_gives_its_action() -> None:
    import random

    for wrong in (
        {"action": 1, "epsilon": "x"},
        {"action": 7, "epsilon": 0.1},
        {"action": 1},
        {"action": 1, "distribution": [3]},
    ):
        own = draw_legacy_action("dose", wrong, None, ProblemFacts({"dose": [0, 1]}), random.Random(1))
        assert (own.action, own.chance, own.explored) == (wrong["action"], None, False)


@pytest.mark.parametrize("wrong", [{}, {"acton": 1, "epsilon": 0.1}, {"distribution": [0.5, 0.6]}, {"distribution": [0.5]}])
def test_nothing_is_made_up_for_a_plant(wrong: dict[str, Any]) -> None:
    import random

    with pytest.raises(InputError, match="does not follow"):
        draw_legacy_action("dose", wrong, None, ProblemFacts({"dose": [0, 1]}), random.Random(1))
    if not wrong:
        uniform = {
            draw_legacy_action("dose", {}, None, ProblemFacts({"dose": [0, 1]}, True), random.Random(i)).action for i in range(20)
        }
        assert uniform == {0, 1}


def test_what_is_no_mapping_is_said(tmp_path: Path) -> None:
    with Client(f"http://127.0.0.1:{free_port()}", timeout=0.1, spool=tmp_path / "spool") as gate:
        episode = gate.open_episode("e")
        for context, legacy in (([1, 2], {"taken": 1}), ({}, 5), ({}, "low")):
            with pytest.raises(InputError, match="mapping"):
                episode.decide("dose", context, legacy)  # type: ignore[arg-type]
        gate.close(0.0)


# ---- restarts ----------------------------------------------------------------------------------------------------------------


def test_a_restarted_control_system_goes_on(service: Service, tmp_path: Path) -> None:
    with served(service) as http:
        url = str(http.base_url)
        with Client(url, timeout=10, spool=tmp_path / "spool") as gate:
            episode = gate.open_episode("e")
            outer = episode.decide("recipe", RECIPE, LEGACY, available=ALL)
            inner = episode.decide("dose", {"temperature": 1.0}, LEGACY, outer)
        with Client(url, timeout=10, spool=tmp_path / "spool") as gate:
            episode = gate.open_episode("e")
            assert episode.choices == [outer, inner]
            assert (episode.last("recipe"), episode.last("dose")) == (outer, inner)
            more = episode.decide("dose", {"temperature": 2.0}, LEGACY, episode.last("recipe"))
            assert more.by == "legacy"
            for choice in (inner, more):
                episode.report(choice, 4.0, guards={"scrap": 0.5})
            episode.close()
            assert gate.flush(30)
            assert gate.refused == []
        assert service.live.state.trees["e"].settled(service.live.problem)
        assert service.live.state.trees["e"].arm == "agent"
        with Client(url, timeout=10, spool=tmp_path / "spool") as gate:
            again = gate.open_episode("e")  # it is closed: the plant goes on all the same
            assert again.choices == []
            assert again.decide("recipe", RECIPE, {**LEGACY, "taken": "fast"}, available=ALL).by == "fallback"


BREAKS = """
import os, sys
from aegis.service.client.gate_client import Client
gate = Client(sys.argv[1], timeout=10, spool=sys.argv[2])
episode = gate.open_episode("e")
outer = episode.decide("recipe", {"task": "easy"}, {"distribution": [0.5, 0.3, 0.2]}, available=[True] * 3)
real = gate._request
def asked(*given):
    real(*given)
    print("asked", flush=True)
    import time
    time.sleep(600)
gate._request = asked
episode.decide("dose", {"temperature": 1.0}, {"distribution": [0.5, 0.3, 0.2]}, outer)
"""


def test_killed_between_an_answer_and_what_was_done_with_it(service: Service, tmp_path: Path) -> None:
    with served(service) as http:
        url, spool = str(http.base_url), tmp_path / "spool"
        with subprocess.Popen([sys.executable, "-c", BREAKS, url, str(spool)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "asked"
            os.kill(process.pid, signal.SIGKILL)
        with Client(url, timeout=10, spool=spool) as gate:
            episode = gate.open_episode("e")
            inner = episode.decide("dose", {"temperature": 2.0}, LEGACY, episode.last("recipe"))
            assert inner.by == "legacy"
            episode.report(inner, 4.0, guards={"scrap": 0.5})
            episode.close()
            assert gate.flush(30)
            assert gate.refused == []
        tree = service.live.state.trees["e"]
        assert [tree.results[name].reward for name in list(tree.decisions)[1:]] == [None, 4.0]
        (unit,) = units(service)
        assert unit.arm == "mixed"


def test_nobody_is_told_twice_that_an_episode_was_opened(service: Service, tmp_path: Path) -> None:
    port = free_port()
    for _ in range(3):
        with Client(f"http://127.0.0.1:{port}", timeout=0.1, spool=tmp_path / "spool", problem=small_problem()) as gate:
            gate.open_episode("e")
            gate.close(0.0)
    with served(service, port=port), Client(f"http://127.0.0.1:{port}", spool=tmp_path / "spool") as gate:
        assert gate.flush(30)
        assert gate.refused == []
    assert len(records(service.live, "episode")) == 1
