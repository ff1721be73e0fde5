"""Read models: shared by all readers, computed at most once a second, and never without what an operator has done."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from service_cases import ME, counting_here, key, make_live, make_service, play, say, served, started

from aegis.service import read_models
from aegis.service.http_errors import NotWriter, StoreUnavailable
from aegis.service.live_gate import LiveGate
from aegis.service.read_models import VIEWS, ReadModel, ReadModels
from aegis.service.status import GateStatus
from aegis.service.store.database import Database


class Clock(SimpleNamespace):
    """A clock that is set by the test."""

    now = 0.0

    def monotonic(self) -> float:
        """Return its time, a little later each time."""
        self.now += 1e-9
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of the read models."""
    made = Clock()
    monkeypatch.setattr(read_models, "time", made)
    return made


@pytest.fixture
def live(file_database: Database) -> Iterator[LiveGate]:
    """Return a gate."""
    with started(file_database) as gate:
        yield gate


@pytest.fixture
def models(live: LiveGate) -> ReadModels:
    """Return its read models."""
    return ReadModels(GateStatus(live), counting_here(live))


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of views that were computed."""
    names: list[str] = []

    def noted(what: str) -> Callable[[ReadModels], Any]:
        view = VIEWS[what]

        def show(own: ReadModels) -> Any:
            names.append(what)
            return view(own)

        return show

    for what in VIEWS:
        monkeypatch.setitem(VIEWS, what, noted(what))
    return names


@pytest.fixture(autouse=True, scope="module")
def loop() -> Iterator[asyncio.Runner]:
    """Return the event loop of the readers."""
    with asyncio.Runner() as runner:
        LOOPS.append(runner)
        yield runner
    LOOPS.clear()


LOOPS: list[asyncio.Runner] = []


def run(*readers: Awaitable[ReadModel]) -> list[ReadModel]:
    """Return what readers at the same time are answered."""

    async def all_of_them() -> list[ReadModel]:
        return await asyncio.gather(*readers)

    return LOOPS[0].run(all_of_them())


def read(models: ReadModels, what: str = "gate") -> Any:
    """Return what one reader is answered."""
    return json.loads(run(models.read(what))[0].body)


def test_all_readers_share_the_bytes_of_one_computation(models: ReadModels, computed: list[str]) -> None:
    answers = run(*(models.read("gate") for _ in range(50)))
    assert computed == ["gate"]
    assert all(answer is answers[0] for answer in answers)
    assert answers[0].event == b"event: gate\ndata: " + answers[0].body + b"\n\n"
    assert answers[0].event is answers[0].event


def test_while_the_journal_goes_on_an_answer_is_computed_once_a_second(
    live: LiveGate, models: ReadModels, computed: list[str], clock: Clock
) -> None:
    shown = []
    for step in range(21):  # an episode every 0.3 seconds, and two readers after it
        clock.now = 0.3 * step
        play(live, f"e{step}")
        shown.append(json.loads(run(models.read("gate"), models.read("gate"))[1].body)["episodes"]["started"])
    assert computed == ["gate"] * 6
    assert shown == [1 + step // 4 * 4 for step in range(21)]


def test_while_nothing_happens_nothing_is_computed(models: ReadModels, computed: list[str], clock: Clock) -> None:
    for step in range(10):
        clock.now = 100.0 * step
        run(models.read("gate"), models.read("levels"))
    assert sorted(computed) == ["gate", "levels"]


def test_what_an_operator_has_done_is_in_the_next_answer(
    live: LiveGate, models: ReadModels, computed: list[str], clock: Clock
) -> None:
    assert read(models)["paused"] is None
    say(live, "pause")
    assert "for a test" in read(models)["paused"]
    live.say(key(), "resume", ME, "go on")
    assert read(models)["paused"] is None
    assert len(computed) == 3


def test_that_counting_fails_is_in_the_next_answer(models: ReadModels, clock: Clock) -> None:
    assert read(models)["counting"] is None
    models.counting.failure = "no trainer"
    assert read(models)["counting"] == "no trainer"


def test_the_head_is_never_older_than_the_journal(live: LiveGate, models: ReadModels, clock: Clock) -> None:
    for number in range(3):
        play(live, f"e{number}")
        assert read(models, "head")["seq"] == live.journal.last


def test_readers_who_wait_take_an_answer_that_took_longer_than_it_is_young(
    live: LiveGate, models: ReadModels, computed: list[str], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = VIEWS["gate"]

    def slow(own: ReadModels) -> Any:
        play(live, key())
        clock.now += 5.0
        return view(own)

    monkeypatch.setitem(VIEWS, "gate", slow)
    answers = run(*(models.read("gate") for _ in range(30)))
    assert computed == ["gate"]
    assert all(answer is answers[0] for answer in answers)


def test_a_reader_who_goes_away_takes_nothing_from_the_others(models: ReadModels, computed: list[str]) -> None:
    async def some_leave() -> list[Any]:
        tasks = [asyncio.create_task(models.read("gate")) for _ in range(10)]
        await asyncio.sleep(0)
        for task in tasks[:5]:
            task.cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    answers = LOOPS[0].run(some_leave())
    assert all(isinstance(answer, ReadModel) for answer in answers[5:])
    assert len(computed) <= 2
    assert isinstance(run(models.read("gate"))[0], ReadModel)


def test_before_the_gate_is_open_there_is_no_answer(file_database: Database) -> None:
    live = make_live(file_database)
    models = ReadModels(GateStatus(live), counting_here(live))
    for what in VIEWS:
        with pytest.raises(NotWriter, match="not open yet"):
            read(models, what)


def test_a_process_that_only_stands_by_answers_503(file_database: Database) -> None:
    with started(file_database) as writer:
        play(writer, "e")
        with served(make_service(make_live(file_database), standby=True)) as client:
            for what in VIEWS:
                assert client.get(f"/v1/{what}").status_code == 503
            assert client.get("/v1/metrics").status_code == 200


def test_while_a_write_hangs_readers_get_an_error_and_metrics_are_as_they_were(file_database: Database) -> None:
    live = make_live(file_database)
    service = make_service(live)
    held, release = threading.Event(), threading.Event()

    def hang() -> None:
        with live.changed:
            held.set()
            release.wait(60)

    with served(service) as client:
        play(live, "e")
        assert "aegis_episodes_started 1.0" in client.get("/v1/metrics").text
        thread = threading.Thread(target=hang)
        thread.start()
        held.wait(60)
        live.journal._writing_since = 0.0  # as while a transaction is not confirmed
        try:
            answer = client.get("/v1/gate")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
            assert "aegis_episodes_started 1.0" in client.get("/v1/metrics").text
        finally:
            live.journal._writing_since = None
            release.set()
            thread.join(60)
        assert client.get("/v1/gate").status_code == 200


def test_a_view_that_fails_once_is_computed_again(models: ReadModels, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: ReadModels) -> Any:
        raise StoreUnavailable("away")

    with monkeypatch.context() as patched:
        patched.setitem(VIEWS, "gate", broken)
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                read(models)
    assert read(models)["gate"] == models.status.live.name
