"""The journal: chained, one transaction per write, one record per key, and looked at again after a write in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st
from service_cases import GATE, count_records

from aegis.service.http_errors import Conflict, StoreDamaged, StoreUnavailable
from aegis.service.store.database import Database, challengers_table, journal_table
from aegis.service.store.journal import PAGE, Journal, JournalEntry, list_gates


@pytest.fixture
def filled(database: Database) -> Journal:
    """Return a journal with ten records."""
    found = Journal(database, GATE)
    for place in range(10):
        found.append([JournalEntry("episode", {"id": f"e{place}"}, place, f"key-{place}", "r")])
    return found


def change(database: Database, statement: Any) -> None:
    """Do something to the tables that a gate never does."""
    with database.engine.begin() as connection:
        connection.execute(statement)


def at(seq: int) -> Any:
    """Return what chooses a record."""
    return (journal_table.c.gate == GATE) & (journal_table.c.seq == seq)


# ---- the chain ---------------------------------------------------------------------------------------------------------------


def test_the_chain_is_whole(filled: Journal) -> None:
    assert count_records(filled.database, GATE) == 10
    found = list(Journal(filled.database, GATE).read())
    assert [item.seq for item in found] == list(range(1, 11))
    assert [item.body["id"] for item in found] == [f"e{place}" for place in range(10)]
    assert (found[-1].hash, filled.last) == (filled.head, 10)
    assert list_gates(filled.database) == [GATE]


def test_a_long_journal_is_read_in_pages(file_database: Database) -> None:
    written = Journal(file_database, GATE)
    written.append([JournalEntry("episode", {"id": place}) for place in range(PAGE + 1)])
    written.append([JournalEntry("episode", {"id": place}) for place in range(PAGE - 1)])
    assert count_records(file_database, GATE) == 2 * PAGE


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("body", '{"id":"x"}'), ("at", "2020-01-01"), ("kind", "closed"), ("episode", 99), ("key", "x"), ("request", "x")),
        *(("hash", "f" * 64), ("episode", None), ("key", None)),
    ],
)
def test_an_altered_record_is_found(filled: Journal, column: str, value: Any) -> None:
    change(filled.database, journal_table.update().where(at(4)).values({column: value}))
    with pytest.raises(StoreDamaged, match="record 4 was altered"):
        count_records(filled.database, GATE)


def test_a_removed_record_is_found(filled: Journal) -> None:
    change(filled.database, journal_table.delete().where(at(4)))
    with pytest.raises(StoreDamaged, match="record 4 is missing"):
        count_records(filled.database, GATE)


def test_a_removed_record_is_found_although_the_others_move_up(filled: Journal) -> None:
    change(filled.database, journal_table.delete().where(at(4)))
    for seq in range(5, 11):
        change(filled.database, journal_table.update().where(at(seq)).values(seq=seq - 1))
    with pytest.raises(StoreDamaged, match="record 4 was altered"):
        count_records(filled.database, GATE)


def test_records_in_another_order_are_found(filled: Journal) -> None:
    for before, after in ((4, 99), (5, 4), (99, 5)):
        change(filled.database, journal_table.update().where(at(before)).values(seq=after))
    with pytest.raises(StoreDamaged, match="record 4 was altered"):
        count_records(filled.database, GATE)


def test_a_record_of_another_gate_is_found(filled: Journal) -> None:
    other = Journal(filled.database, "other")
    other.append([JournalEntry("episode", {"id": "x"}, 1, "x", "r")])
    assert list_gates(filled.database) == ["other", GATE]
    change(filled.database, journal_table.delete().where(at(1)))
    moved = journal_table.update().where(journal_table.c.gate == "other").values(gate=GATE)
    change(filled.database, moved)
    with pytest.raises(StoreDamaged, match=r"record 2 was altered"):
        count_records(filled.database, GATE)


@settings(max_examples=25, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=8,
    )
)
def test_whatever_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, body: Any) -> None:
    database = Database.at(tmp_path_factory.mktemp("store") / "gate.sqlite")
    try:
        database.upgrade()
        Journal(database, GATE).append([JournalEntry("episode", {"body": body}, None, "k")])
        assert [item.body for item in Journal(database, GATE).read()] == [{"body": body}]
    finally:
        database.close()


# ---- writing -----------------------------------------------------------------------------------------------------------------


def test_a_write_is_all_or_nothing(filled: Journal) -> None:
    entries = [JournalEntry("episode", {"id": "new"}, 1, "new"), JournalEntry("episode", {"id": "again"}, 1, "key-3")]
    with pytest.raises(Conflict):
        filled.append(entries, {"1-dose-2": ("digest", b"content")})
    assert count_records(filled.database, GATE) == 10
    assert filled.under("new") is None
    with pytest.raises(StoreDamaged, match="1-dose-2"):
        filled.challenger("1-dose-2")
    filled.append(entries[:1], {"1-dose-2": ("digest", b"content")})
    assert (count_records(filled.database, GATE), filled.challenger("1-dose-2")) == (11, b"content")


def test_what_does_not_fit_in_json_writes_nothing(filled: Journal) -> None:
    for wrong in (float("nan"), {1, 2}):
        with pytest.raises((TypeError, ValueError)):
            filled.append([JournalEntry("episode", {"id": wrong})])
    assert filled.append([JournalEntry("episode", {"id": "fine"})])[0].seq == 11
    assert count_records(filled.database, GATE) == 11


def test_a_key_is_used_once(filled: Journal) -> None:
    with pytest.raises(Conflict):
        filled.append([JournalEntry("episode", {"id": "other"}, 3, "key-3", "other")])
    found = filled.under("key-3")
    assert found is not None
    assert found.body == {"id": "e3"}
    assert filled.append([JournalEntry("episode", {"id": "next"})])[0].seq == 11  # a refused write leaves no doubt


class Lost(Exception):
    """The answer to a commit is lost."""


@pytest.mark.parametrize("happened", [True, False])
def test_a_write_in_doubt_is_looked_at_before_the_next(filled: Journal, happened: bool) -> None:
    def lose(connection: sa.Connection) -> None:
        if happened:
            connection.connection.dbapi_connection.commit()  # type: ignore[union-attr]
        raise sa.exc.OperationalError("COMMIT", {}, Lost("the server closed the connection"))

    sa.event.listen(filled.database.engine, "commit", lose)
    with pytest.raises(StoreUnavailable, match="closed the connection"):
        filled.append([JournalEntry("episode", {"id": "doubt"}, 11, "doubt")])
    sa.event.remove(filled.database.engine, "commit", lose)
    assert filled.doubtful
    with pytest.raises(StoreUnavailable, match="looked at first"):
        filled.append([JournalEntry("episode", {"id": "next"})])
    news = list(filled.news())
    assert [item.body["id"] for item in news] == (["doubt"] if happened else [])
    assert filled.append([JournalEntry("episode", {"id": "next"})])[0].seq == 11 + happened
    assert count_records(filled.database, GATE) == 11 + happened


def test_a_writer_that_fell_behind_cannot_write(filled: Journal) -> None:
    other = Journal(filled.database, GATE)
    assert len(list(other.news())) == 10
    other.append([JournalEntry("writer", {"writer": "other"})])
    for _ in range(2):
        with pytest.raises(StoreUnavailable):
            filled.append([JournalEntry("episode", {"id": "mine"})])
    assert [item.body for item in filled.news()] == [{"writer": "other"}]
    assert count_records(filled.database, GATE) == 11


def test_two_writers_never_both_write_a_record(filled: Journal) -> None:
    other = Journal(filled.database, GATE)
    list(other.news())
    writers: list[Journal] = [filled, other]
    count: Callable[[], int] = lambda: count_records(filled.database, GATE)  # noqa: E731
    for place in range(6):
        before, one, two = count(), writers[place % 2], writers[1 - place % 2]
        one.append([JournalEntry("episode", {"id": place})])
        with pytest.raises(StoreUnavailable):
            two.append([JournalEntry("episode", {"id": -place})])
        list(two.news())
        assert count() == before + 1


def test_a_kept_challenger_that_is_gone_is_named(filled: Journal) -> None:
    filled.append([JournalEntry("event", {})], {"1-dose-2": ("digest", b"content")})
    change(filled.database, challengers_table.delete())
    with pytest.raises(StoreDamaged, match="1-dose-2"):
        filled.challenger("1-dose-2")
