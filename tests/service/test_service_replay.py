"""After any history a gate that is started again is where it was; and so is who counts, although its process was killed."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from service_cases import (
    QUICK,
    count_all,
    counting_here,
    dose,
    key,
    make_live,
    order_of,
    play,
    recipe,
    records,
    result,
    run_plant,
    small_plant,
    started,
    told,
)

from aegis.handover import UnitCounted
from aegis.service.episode_counter import SILENT, EpisodeCounter
from aegis.service.http_errors import ServiceError
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Ask, Report
from aegis.service.status import GateStatus
from aegis.service.store.database import Database
from aegis.service.trainer import TrainerGone, TrainerProcess

EPISODES = st.sampled_from(["a", "b", "c", "d"])
DOSES = st.sampled_from(["d1", "d2"])
CALLS = st.one_of(
    st.tuples(st.just("open"), EPISODES),
    st.tuples(st.just("recipe"), EPISODES, st.sampled_from(["easy", "hard"])),
    st.tuples(st.just("dose"), EPISODES, DOSES, st.floats(-5, 5)),
    st.tuples(st.just("overrule"), EPISODES, DOSES, st.booleans()),
    st.tuples(st.just("report"), EPISODES, DOSES, st.one_of(st.none(), st.sampled_from([0.0, 2.5, 10.0]))),
    st.tuples(st.just("close"), EPISODES, st.booleans()),
    st.tuples(st.just("say"), st.sampled_from(["pause", "resume", "shadow", "live", "ask", "revert", "approve"])),
    st.tuples(st.just("count")),
    st.tuples(st.just("play"), st.integers(0, 10)),
)


def done(live: LiveGate, counting: EpisodeCounter, call: tuple[Any, ...]) -> None:
    """Do what a call says; what a gate refuses is part of its life."""
    what, *more = call
    if what == "open":
        live.open_episode(key(), more[0])
    elif what == "recipe":
        live.decide(key(), more[0], Ask(**recipe(context={"task": more[1]})))
    elif what == "dose":
        live.decide(key(), more[0], Ask(**dose(id=more[1], context={"temperature": more[2]})))
    elif what == "overrule":
        live.overrule(key(), more[0], Ask(**dose(id=more[1])), 1.0, more[2])
    elif what == "report":
        said = {"missing": True, "guards": {}} if more[2] is None else {"reward": more[2]}
        live.report(key(), [Report(**{**result(more[0], more[1]), "reward": None, **said})])
    elif what == "close":
        live.close(key(), more[0], more[1])
    elif what == "say":
        live.say(key(), more[0], "me", "for a test", "dose")
    elif what == "count":
        count_all(counting)
    else:
        play(live, key(), float(more[0]))


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an empty store to be copied."""
    path = tmp_path_factory.mktemp("empty") / "gate.sqlite"
    database = Database.at(path)
    database.upgrade()
    database.close()
    return path


@settings(max_examples=25, deadline=None)
@given(calls=st.lists(CALLS, max_size=25))
def test_a_gate_is_what_its_journal_says(empty: Path, tmp_path_factory: pytest.TempPathFactory, calls: list[Any]) -> None:
    path = tmp_path_factory.mktemp("replay") / "gate.sqlite"
    shutil.copy(empty, path)
    database = Database.at(path)
    try:
        live = make_live(database, first=10_000)
        reading = GateStatus(live)
        live.start()
        counting = counting_here(live)
        for call in calls:
            try:
                done(live, counting, call)
            except ServiceError:
                assert not live.journal.doubtful
        before, shown = told(live), reading.gate()
        live.stop()
        again = make_live(database, first=10_000)
        read = GateStatus(again)
        for record in again.journal.news():
            again.state.apply(record)
        assert told(again) == before
        assert read.gate() == shown
    finally:
        database.close()


# ---- who counts --------------------------------------------------------------------------------------------------------------


def counted(counting: EpisodeCounter) -> None:
    """Count what is settled, by a worker that may be gone."""
    while True:
        try:
            count_all(counting)
            return
        except TrainerGone:
            continue


def test_a_worker_that_is_killed_is_started_again_and_finds_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant, states, real = small_plant(), [], LiveGate.step

    def step(live: LiveGate, given: Any, *more: Any, **named: Any) -> Any:
        """Write an episode down, and kill the worker before it is told: it finds that one in the journal, too."""
        found = real(live, given, *more, **named)
        if kill and isinstance(given, UnitCounted) and given.episode == 6:  # before the freeze, which learns from it
            worker._process.kill()
            worker._process.join()
        return found

    monkeypatch.setattr(LiveGate, "step", step)
    for place, kill in enumerate((False, True)):
        store = str(tmp_path / f"{place}.sqlite")
        database = Database.at(store)
        database.upgrade()
        with started(database, plant.problem, **QUICK) as live:
            worker = TrainerProcess(order_of(live, store))
            counting = EpisodeCounter(live, worker) if kill else counting_here(live)
            for number in range(14):
                run_plant(plant, live, number, 1)
                if kill and number == 10:
                    os.kill(worker._process.pid, signal.SIGKILL)
                counted(counting)
            worker.stop()
            states.append((live.state.gate, live.state.started, [item.body["event"] for item in records(live, "event")]))
        database.close()
    assert states[0][0].freeze == 1
    assert states[0][0].challenges[0].units == 6
    assert states[0] == states[1]


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
