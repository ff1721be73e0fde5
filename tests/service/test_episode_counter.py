"""The counter: episodes in the order of their start, and what pauses the gate."""

from __future__ import annotations

from typing import Any

from service_cases import (
    QUICK,
    count_all,
    counting_here,
    dose,
    key,
    play,
    recipe,
    result,
    run_plant,
    small_plant,
    started,
)

from aegis.service.episode_counter import SILENT, EpisodeCounter
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
