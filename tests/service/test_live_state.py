"""After any history a gate that is started again is where it was; and so is who counts, although its process was killed."""

from __future__ import annotations

import shutil
from copy import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from service_cases import (
    count_all,
    counting_here,
    dose,
    key,
    make_live,
    make_service,
    play,
    recipe,
    result,
    started,
    told,
)

from aegis.problem import Problem
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.http_errors import ServiceError
from aegis.service.live_episodes import LiveEpisode
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Ask, Report
from aegis.service.snapshot_writer import SnapshotWriter
from aegis.service.status import GateStatus
from aegis.service.store.blocks import BlockMark
from aegis.service.store.database import Database
from aegis.service.store.snapshots import snapshot_entry

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
            going = {name: tree for name, tree in live.state.trees.items() if not tree.settled(live.problem)}
            assert dict(live.state.going) == going
            assert [tree.last for tree in live.state.going.values()] == sorted(tree.last for tree in going.values())
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


def test_a_snapshot_of_an_older_record_changes_nothing(file_database: Database) -> None:
    with started(file_database) as live:
        counting = counting_here(live)
        play(live, "a")
        early = live.journal.last, live.journal.head
        play(live, "b")
        count_all(counting)
        SnapshotWriter(live).write()
        play(live, "c")
        count_all(counting)
        names = ("snapshot", "blocks", "uncovered")
        before = {name: copy(getattr(live.state, name)) for name in names}
        live.note(snapshot_entry(*early, "digest", BlockMark(), False))
        assert {name: getattr(live.state, name) for name in names} == before
        assert live.state.uncovered is not None
        assert live.state.blocks.last + 1 == live.state.uncovered.trees[0].number


# ---- what readers ask for ----------------------------------------------------------------------------------------------------


def test_no_reader_walks_all_open_episodes(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    live = make_live(file_database)
    service = make_service(live)
    live.start()
    for place in range(20):
        live.open_episode(key(), f"e{place}")
        live.decide(key(), f"e{place}", Ask(**recipe()))
    play(live, "settled")
    asked, settled = [0], LiveEpisode.settled

    def counted(tree: LiveEpisode, problem: Problem) -> bool:
        asked[0] += 1
        return settled(tree, problem)

    monkeypatch.setattr(LiveEpisode, "settled", counted)
    assert (live.state.waiting(), service.reading.gate()["episodes"]["open"]) == (1, 20)
    service.metrics.text(service.reading, service.counting)
    assert asked[0] < 10
    live.stop()
