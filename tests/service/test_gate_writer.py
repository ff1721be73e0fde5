"""The writer of a gate: one process at a time, the gate as it was opened, and writes that are not confirmed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
from service_cases import GATE, make_live, play, records, small_problem, started, told

from aegis.errors import SettingError
from aegis.handover import GateSettings
from aegis.problem import Problem, parse_problem
from aegis.service.gate_writer import SLOW, GateWriter
from aegis.service.http_errors import NotWriter, StoreUnavailable
from aegis.service.live_gate import LiveGate
from aegis.service.live_state import KEYED, OPENED, WRITER
from aegis.service.store.database import Database
from aegis.service.store.journal import JournalEntry

NOTE = JournalEntry(KEYED, {"episode": "a note"})  # it changes nothing


def writer_of(database: Database, name: str = GATE, problem: Problem | None = None) -> GateWriter:
    """Return a writer that is not started."""
    return GateWriter(database, name, problem or small_problem(), GateSettings(), 7)


@pytest.mark.parametrize("name", ["", " press", "_press", "a/b", "..", "p" * 65])
def test_the_name_of_a_gate_can_be_part_of_the_name_of_a_file(file_database: Database, name: str) -> None:
    with pytest.raises(SettingError, match=r"the name of a gate.*a letter or digit first.*problem file: give --name"):
        writer_of(file_database, name)


def test_a_live_gate_does_not_explore_in_the_place_of_the_controller(file_database: Database) -> None:
    with pytest.raises(SettingError, match="'explore' is for a gate that runs a plant"):
        GateWriter(file_database, GATE, small_problem(), GateSettings(explore=0.1), 7)


def test_a_new_gate_is_opened_once_and_every_start_is_written(file_database: Database) -> None:
    for starts in (1, 2, 3):
        writer = writer_of(file_database)
        assert (writer.started, writer.failure) == (False, "not the writer")
        writer.start()
        assert (writer.started, writer.resumed, writer.failure) == (True, True, None)
        writer.stop()
        assert (writer.started, writer.resumed) == (False, True)
        kinds = [item.kind for item in records(make_live(file_database))]
        assert kinds == [OPENED, *[WRITER] * starts]


def test_one_process_writes_at_a_time(file_database: Database) -> None:
    first, second = writer_of(file_database), writer_of(file_database)
    first.start()
    with pytest.raises(NotWriter, match="--standby"):
        second.start()
    with pytest.raises(NotWriter, match="is not served by this process"):
        second.note(NOTE)
    first.note(NOTE)
    first.stop()
    with pytest.raises(NotWriter):
        first.note(NOTE)
    second.start()
    second.note(NOTE)
    second.stop()


def test_a_gate_keeps_what_it_was_opened_with(file_database: Database) -> None:
    with started(file_database):
        pass
    with pytest.raises(SettingError, match="another settings"):
        make_live(file_database, delta=0.01).start()
    changed = parse_problem(
        "episode: batch\nreward: {column: m, range: [0, 1]}\nlevels:\n  - {name: a, action: {column: b, "
        "values: [1, 2]}, propensity: {column: p}}\n"
    )
    for attempt in (GateWriter.start, GateWriter.follow):
        with pytest.raises(SettingError, match="another problem file"):
            attempt(writer_of(file_database, problem=changed))
    with started(file_database):  # the attempts have let go
        pass


def test_one_who_follows_knows_what_the_writer_knows(file_database: Database) -> None:
    other = make_live(file_database)
    other.follow()
    assert other.state.gate is None
    with started(file_database) as live:
        for number in range(3):
            play(live, f"e{number}")
            other.follow()
            assert told(other) == told(live)
        assert not other.resumed


def test_a_change_is_announced(file_database: Database) -> None:
    writer = writer_of(file_database)
    writer.start()
    heard = threading.Event()

    def listen() -> None:
        with writer.changed:
            ready.set()
            if writer.changed.wait(60):
                heard.set()

    for announce in (lambda: writer.note(NOTE), writer.wake, writer.stop):
        ready = threading.Event()
        heard.clear()
        thread = threading.Thread(target=listen)
        thread.start()
        ready.wait(60)
        announce()
        thread.join(60)
        assert heard.is_set()


def test_gates_of_one_plant_are_counted(file_database: Database) -> None:
    for number, name in enumerate(("first", "second", "third"), 1):
        writer = writer_of(file_database, name)
        writer.start()
        assert (writer.count.number, writer.count.risk) == (number, pytest.approx(0.05 * number))
        writer.stop()


# ---- a write that hangs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def hanging(file_database: Database) -> LiveGate:
    """Return a gate one of whose threads waits for a store that does not answer."""
    live = make_live(file_database)
    live.start()
    held = threading.Event()

    def hang() -> None:
        with live.changed:
            live.journal._writing_since, live.journal.doubtful = time.monotonic(), True
            held.set()
            time.sleep(3 * SLOW)
            live.journal._writing_since, live.journal.doubtful = None, False

    threading.Thread(target=hang, daemon=True).start()
    held.wait(60)
    return live


def _read(live: LiveGate) -> None:
    with live.reading():
        pass


@pytest.mark.ci
@pytest.mark.parametrize("ask", [_read, lambda live: live.note(NOTE)])
def test_nobody_waits_for_a_write_that_hangs(hanging: LiveGate, ask: Callable[[LiveGate], None]) -> None:
    with pytest.raises(StoreUnavailable, match="try again"):
        ask(hanging)
    assert hanging.failure == "the last write was not confirmed"
    with hanging.changed:  # until it is confirmed
        pass
    ask(hanging)
    assert hanging.failure is None
    hanging.stop()


@pytest.mark.ci
def test_a_gate_stops_although_a_write_hangs(hanging: LiveGate) -> None:
    hanging.wake()
    hanging.stop()
    assert hanging.journal._writing_since is not None  # it still does
    assert hanging.failure == "not the writer"


def test_readers_take_turns(file_database: Database) -> None:
    with started(file_database) as live:
        for _ in range(2):
            with live.reading(), live.reading():
                play(live, f"e{live.journal.last}")
