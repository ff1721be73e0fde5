"""The counter: episodes in the order of their start, and what pauses the gate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from service_cases import (
    QUICK,
    Direct,
    Here,
    count_all,
    counting_here,
    dose,
    key,
    meta,
    play,
    recipe,
    records,
    result,
    run_plant,
    small_plant,
    started,
)

from aegis.cli.simulated_controller import run_episode
from aegis.handover import OVERRULED, AuditResponse, Postponed, UnitCounted, event_from_plain
from aegis.service.episode_counter import SILENT, EpisodeCounter
from aegis.service.http_errors import Conflict
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Ask, Report
from aegis.service.store.database import Database


def test_an_episode_that_broke_off_pauses_the_gate(file_database: Database) -> None:
    with started(file_database) as live:
        counting = counting_here(live)
        play(live, "whole")
        live.open_episode(key(), "broken")
        live.decide(key(), "broken", Ask(**recipe()))
        live.close(key(), "broken")
        play(live, "next")
        count_all(counting)
        assert live.state.opened.episode == 3
        assert "'broken'" in str(live.state.opened.paused)
        assert live.state.trees == {}
        live.say(key(), "resume", "me", "it was a power cut")
        assert live.state.opened.paused is None
        play(live, "later")
        count_all(counting)
        assert live.state.opened.paused is None


def test_episodes_are_counted_in_the_order_of_their_start(file_database: Database) -> None:
    with started(file_database) as live:
        counting = counting_here(live)
        live.open_episode(key(), "first")
        live.decide(key(), "first", Ask(**recipe()))
        play(live, "second")
        count_all(counting)
        assert live.state.opened.episode == 0  # the first is still going on
        live.decide(key(), "first", Ask(**dose()))
        live.close(key(), "first", abandoned=True)
        count_all(counting)
        assert live.state.opened.episode == 2
        late = live.report(key(), [Report(**result("first"))])
        assert late["late"]


def test_abandoned_episodes_are_closed_after_a_while(file_database: Database) -> None:
    with started(file_database) as live:
        counting = counting_here(live, abandon=0.0)
        live.open_episode(key(), "e")
        live.decide(key(), "e", Ask(**recipe()))
        live.decide(key(), "e", Ask(**dose()))
        live.open_episode(key(), "empty")
        counting.once()
        count_all(counting)
        assert live.state.trees == {}
        assert live.state.opened.episode == 1
        assert live.state.opened.paused is None


def test_a_silence_pauses_the_gate(file_database: Database) -> None:
    with started(file_database, first=10_000) as live:
        for place in range(SILENT):
            live.open_episode(key(), f"e{place}")
            live.decide(key(), f"e{place}", Ask(**recipe()))
            live.decide(key(), f"e{place}", Ask(**dose()))
            live.close(key(), f"e{place}", abandoned=True)
            if place == SILENT // 2:
                count_all(counting_here(live))
        assert live.state.opened.paused is None
        count_all(counting_here(live))  # a silence is counted the same after a restart
        assert "no reward" in str(live.state.opened.paused)


def test_a_host_that_fails_pauses_the_gate(file_database: Database) -> None:
    plant = small_plant()

    class Broken:
        """Raises whatever it is asked."""

        def call(self, method: str, *_: Any) -> Any:
            """Refuse to judge."""
            from aegis.errors import AegisError

            if method in ("judge", "freeze"):
                raise AegisError("my host has a bug")
            return []

        def stop(self) -> None:
            """Do nothing."""

    with started(file_database, plant.problem, **QUICK) as live:
        run_plant(plant, live, 0, 2)
        count_all(EpisodeCounter(live, Broken()))  # type: ignore[arg-type]
        assert "my host has a bug" in str(live.state.opened.paused)
        assert live.state.opened.episode == 2
        run_plant(plant, live, 2, 1)  # decisions go on


# ---- what happens around the audit of a decision -----------------------------------------------------------------------------


@dataclass(slots=True)
class Watched(Here):
    """Does what a worker does. after: maps each answer of an audit, its unit and whether it decides to the answer that counts."""

    after: Callable[[Any, int | None, bool], Any] = field(default=lambda answer, number, deciding: answer)

    def call(self, method: str, *arguments: Any) -> Any:
        answer = Here.call(self, method, *arguments)
        if method != "audit":
            return answer
        tree = arguments[1]
        return self.after(answer, None if tree is None else tree.number, arguments[2])


class Tripping(Direct):
    """An episode in which an interlock replaces the last action."""

    def open_episode(self, name: str, time: Any = None) -> Direct:
        self.live.open_episode(key(), name, time)
        return Tripping(self.live, name)

    def report_all(self, results: Sequence[Mapping[str, Any]]) -> None:
        self.live.replace(key(), self.id, results[-1]["decision"], used="off")
        Direct.report_all(self, results)


def watch(live: LiveGate, after: Callable[[Any, int | None, bool], Any]) -> EpisodeCounter:
    counting = counting_here(live)
    counting.worker = Watched(counting.worker.workshop, after)  # type: ignore[attr-defined, assignment]
    return counting


def units(live: LiveGate) -> dict[int, UnitCounted]:
    events = [event_from_plain(item.body["event"]) for item in records(live, "event")]
    return {event.episode: event for event in events if isinstance(event, UnitCounted)}


def test_an_episode_that_the_audit_does_not_see_decides_nothing_that_was_put_off(file_database: Database) -> None:
    plant = small_plant()

    def doubt(answer: Any, number: int | None, deciding: bool) -> Any:
        return (True, AuditResponse(Postponed(0, "for a test", "some-code", "inner"))) if deciding else answer

    with started(file_database, plant.problem, mode="live", **QUICK) as live:
        counting, number = watch(live, doubt), 0
        while live.state.opened.put_off is None:
            run_plant(plant, live, number, 1, counting)
            number += 1
            assert number < 120
        run_plant(plant, live, number, 40, counting)  # so that one episode at its worst does not undo what was shown
        assert any(item.certified for item in live.state.opened.challenges)
        run_episode(plant, Tripping(live), number + 40)  # type: ignore[arg-type]
        count_all(counting)
        assert any(item.certified for item in live.state.opened.challenges)
        assert list(units(live).values())[-1].arm == OVERRULED
        gate = live.state.opened
        assert gate.put_off is not None and not gate.deployed and not any(item.crossed for item in gate.challenges)


def test_a_decision_by_an_episode_that_the_audit_does_not_see_is_audited_first(file_database: Database) -> None:
    plant, asked = small_plant(), list[tuple[int | None, bool]]()

    def note(answer: Any, number: int | None, deciding: bool) -> Any:
        asked.append((number, deciding))
        return answer

    with started(file_database, plant.problem, mode="live", **{**QUICK, "patience": 1.5}) as live:
        counting, number = watch(live, note), 0
        while not any(item.crossed for item in live.state.opened.challenges):
            run_plant(plant, live, number, 1, counting)
            number += 1
            assert number < 120
        asked.clear()
        while not live.state.opened.deployed:
            run_episode(plant, Tripping(live), number)  # type: ignore[arg-type]
            count_all(counting)
            number += 1
            assert number < 200
        assert asked and asked[-1] == (None, True)


def test_a_late_decision_that_comes_while_the_stream_is_audited_counts(file_database: Database) -> None:
    plant, late = small_plant(), list[int]()
    with started(file_database, plant.problem, mode="live", **QUICK) as live:

        def interfere(answer: Any, number: int | None, deciding: bool) -> Any:
            if deciding and number is not None and not late:
                late.append(number)
                with pytest.raises(Conflict, match="closed"):
                    live.decide(key(), f"episode-{number}", meta(key()))
            return answer

        counting, number = watch(live, interfere), 0
        while not late:
            run_plant(plant, live, number, 1, counting)
            number += 1
            assert number < 120
        unit = units(live)[late[0]]
        assert unit.arm == "mixed" and not unit.evidence and not live.state.opened.deployed
