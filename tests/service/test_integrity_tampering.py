"""Attacks on a store with direct SQL: which of them is found by which means."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from service_cases import GATE, key, make_live, play, played, quick_database, started

from aegis.errors import AegisError, SettingError
from aegis.handover import HOSTS
from aegis.service.http_errors import NotWriter, StoreDamaged
from aegis.service.integrity import check_gate, check_store, rekey_gate
from aegis.service.store.backup import restore_backup, write_backup
from aegis.service.store.chain import JOURNAL_KEY, START, ChainHead
from aegis.service.store.database import Database, journal_table
from aegis.service.store.journal import Journal, JournalEntry, list_gates, list_heads
from aegis.service.store.journal_keys import JournalKeys, make_journal_key
from aegis.service.trainer import TrainerSetup, resume_trainer

KEYS = JournalKeys((bytes(range(32)),))
ROTATED = JournalKeys((bytes(range(1, 33)), bytes(range(32))))
Row = dict[str, Any]


# ---- what an attacker does ---------------------------------------------------------------------------------------------------


def rows_of(database: Database) -> list[Row]:
    """Return the journal."""
    with database.engine.connect() as connection:
        return [dict(row) for row in connection.execute(journal_table.select().order_by(journal_table.c.seq)).mappings()]


def put(database: Database, rows: list[Row], recompute: bool = True) -> None:
    """Replace the journal, numbered from 1. recompute: with hashes that anyone can compute."""
    head = START
    for seq, row in enumerate(rows, 1):
        row["seq"] = seq
        fields = [row[name] for name in ("seq", "at", "kind", "episode", "key", "request", "body")]
        fields += [] if row["caller"] is None else [row["caller"]]
        head = sha256("\n".join([head, *("" if item is None else str(item) for item in fields)]).encode()).hexdigest()
        row["hash"] = head if recompute else row["hash"]
    with database.engine.begin() as connection:
        connection.execute(journal_table.delete())
        connection.execute(journal_table.insert(), rows)


def results_of(rows: list[Row], episode: str) -> Row:
    return next(row for row in rows if row["kind"] == "results" and f'"{episode}"' in row["body"])


def _cut(database: Database, _: Path) -> None:
    put(database, rows_of(database)[:-500], recompute=False)


def _reward(database: Database, _: Path, recompute: bool = True) -> None:
    rows = rows_of(database)
    row = results_of(rows, "e7")
    row["body"] = row["body"].replace('"reward":4.0', '"reward":9.0')
    assert '"reward":9.0' in row["body"]
    put(database, rows, recompute)


def _reward_alone(database: Database, place: Path) -> None:
    _reward(database, place, recompute=False)


def _swapped(database: Database, _: Path) -> None:
    rows = rows_of(database)
    one, two = results_of(rows, "e7"), results_of(rows, "e8")
    one["body"], two["body"] = two["body"], one["body"]
    put(database, rows)


def _key_removed(database: Database, _: Path) -> None:
    put(database, [row for row in rows_of(database) if row["kind"] != JOURNAL_KEY])


def _old_backup(database: Database, place: Path) -> None:
    with database.engine.begin() as connection:
        for name in ("journal", "challengers", "tokens"):
            connection.execute(sa.text(f"DELETE FROM {name}"))
    restore_backup(database, place / "old.gz", KEYS if (place / "signed").exists() else None)


ATTACKS: dict[str, Callable[[Database, Path], None]] = {
    "500 records cut off": _cut,
    "a reward rewritten, hashes left": _reward_alone,
    "a reward rewritten, hashes recomputed": _reward,
    "two episodes swapped, hashes recomputed": _swapped,
    "the key removed, hashes recomputed": _key_removed,
    "an old backup restored": _old_backup,
}
# What finds an attack on a journal without a key, and on one with: nothing but the store, a head kept elsewhere, the key, both.
UNSIGNED: dict[str, set[str]] = {
    "500 records cut off": {"head"},
    "a reward rewritten, hashes left": {"nothing", "head"},
    "a reward rewritten, hashes recomputed": {"head"},
    "two episodes swapped, hashes recomputed": {"head"},
    "an old backup restored": {"head"},
}
SIGNED: dict[str, set[str]] = {
    "500 records cut off": {"head", "both"},
    "a reward rewritten, hashes left": {"key", "both"},
    "a reward rewritten, hashes recomputed": {"head", "key", "both"},
    "two episodes swapped, hashes recomputed": {"head", "key", "both"},
    "the key removed, hashes recomputed": {"head", "key", "both"},
    "an old backup restored": {"head", "both"},
}


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a store of more than 500 records and an old backup of it, without a key and with one."""
    place = tmp_path_factory.mktemp("stores")
    for name, keys in (("unsigned", None), ("signed", KEYS)):
        (place / name).mkdir()
        database = quick_database(place / name / "gate.sqlite")
        played(database, 10, keys)
        write_backup(database, place / name / "old.gz")
        with started(database, keys=keys) as live:
            live.journal.append([JournalEntry("note", {"number": number}) for number in range(500)])
        database.close()
    (place / "signed" / "signed").touch()
    return place


def copy_of(folder: Path, to: Path) -> Database:
    shutil.copytree(folder, to, dirs_exist_ok=True)
    return quick_database(to / "gate.sqlite")


@pytest.fixture
def signed(stores: Path, tmp_path: Path) -> Iterator[Database]:
    """Return a store whose journal is signed."""
    database = copy_of(stores / "signed", tmp_path)
    yield database
    database.close()


@pytest.mark.parametrize(("name", "attack"), [*(("unsigned", item) for item in UNSIGNED), *(("signed", item) for item in SIGNED)])
def test_which_attack_is_found_by_which_means(stores: Path, tmp_path: Path, name: str, attack: str) -> None:
    database = copy_of(stores / name, tmp_path)
    try:
        heads, keys = list_heads(database), KEYS if name == "signed" else None
        means: dict[str, tuple[Any, Any]] = {"nothing": (None, ()), "head": (None, heads)}
        means |= {} if keys is None else {"key": (keys, ()), "both": (keys, heads)}
        for with_keys, with_heads in means.values():
            check_store(database, with_keys, with_heads)
        ATTACKS[attack](database, tmp_path)
        assert rows_of(database)
        by = set()
        for mean, (with_keys, with_heads) in means.items():
            try:
                check_store(database, with_keys, with_heads)
            except StoreDamaged:
                by.add(mean)
        assert by == (UNSIGNED if keys is None else SIGNED)[attack]
    finally:
        database.close()


def test_a_cut_is_found_with_the_number_of_records(signed: Database, tmp_path: Path) -> None:
    heads = list_heads(signed)
    _cut(signed, tmp_path)
    with pytest.raises(StoreDamaged, match=f"500 records are missing at the end.*ends with record {heads[0].seq - 500}"):
        check_store(signed, KEYS, heads)
    with signed.engine.begin() as connection:
        connection.execute(journal_table.delete())
    with pytest.raises(StoreDamaged, match=f"gate '{GATE}' is not in .*: {heads[0].seq} records are missing"):
        check_store(signed, KEYS, heads)


def test_a_check_says_what_it_covered(stores: Path, signed: Database) -> None:
    last = list_heads(signed)[0].seq
    plain = check_gate(signed, GATE)
    assert (plain.records, plain.signed_from, plain.keys, plain.key_known) == (last, 2, (KEYS.current,), False)
    assert any("records 1 to 1 follows" in text for text in plain.checked)
    assert not any("signature" in text for text in plain.checked)
    assert any(f"hashes of records 2 to {last}, signed by the key {KEYS.current}" in text for text in plain.unchecked)
    known = check_gate(signed, GATE, KEYS)
    assert any(f"records 2 to {last} have the signature of the key {KEYS.current}" in text for text in known.checked)
    assert not any("hashes" in text for text in known.unchecked)
    assert any("cut off: no head was kept" in text for text in known.unchecked)
    both = check_gate(signed, GATE, KEYS, list_heads(signed))
    assert any(f"records {last} have the hashes of the heads" in text for text in both.checked)
    assert both.unchecked == (f"whether records after {last} were cut off", "tokens, which are not in the journal")
    database = quick_database(stores / "unsigned" / "gate.sqlite")
    try:
        open_end = check_gate(database, GATE)
        assert any("altered and every hash computed anew: the journal has no key" in text for text in open_end.unchecked)
        assert not any("no key" in text for text in check_gate(database, GATE, None, list_heads(database)).unchecked)
    finally:
        database.close()


def changed_bytes(value: Any) -> Iterator[bytes]:
    """Yield the text of a value with one byte changed, at each of its places; one byte where there was nothing."""
    before = b"" if value is None else str(value).encode()
    for place in range(len(before)):
        yield before[:place] + bytes([before[place] ^ 1]) + before[place + 1 :]
    if value is None:
        yield b"x"


def test_any_changed_byte_of_a_signed_record_is_found(small: Database) -> None:
    first, *rows = rows_of(small)
    head = ChainHead(GATE).check(first, KEYS)  # without a key: the next test covers it
    for row in rows:
        for column, value in row.items():
            for after in changed_bytes(value):
                with pytest.raises((StoreDamaged, SettingError)):  # another key may be named
                    head.check({**row, column: after.decode("utf-8", "surrogateescape")}, KEYS)
        head = head.check(row, KEYS)
    assert head.seq == len(rows) + 1 == 12


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_changed_byte_in_the_store_of_a_signed_journal_is_found(small: Database, data: st.DataObject) -> None:
    row = data.draw(st.sampled_from(rows_of(small)))
    column = data.draw(st.sampled_from(sorted(row)))
    before = b"x" if row[column] is None else str(row[column]).encode()
    place = data.draw(st.integers(0, len(before) - 1))
    byte = data.draw(st.integers(0, 255).filter(lambda value: row[column] is None or value != before[place]))
    after = before[:place] + bytes([byte]) + before[place + 1 :]
    where = f"WHERE rowid = {row['seq']}"  # in the order in which they were written
    try:
        with small.engine.begin() as connection:
            connection.exec_driver_sql(f"UPDATE journal SET {column} = CAST(? AS TEXT) {where}", (after,))
    except sa.exc.IntegrityError:  # another record has this number, or key
        assume(False)
    try:
        with pytest.raises(AegisError):
            check_store(small, KEYS)
    finally:
        put_back(small, row, where)
    check_store(small, KEYS)


def put_back(database: Database, row: Row, where: str) -> None:
    with database.engine.begin() as connection:
        values = ", ".join(f"{name} = :{name}" for name in row)
        connection.execute(sa.text(f"UPDATE journal SET {values} {where}"), row)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """Return a small store whose journal is signed, with callers."""
    database = quick_database(tmp_path_factory.mktemp("small") / "gate.sqlite")
    with started(database, keys=KEYS) as live:
        play(live, "e0")
        live.open_episode(key(), "e1", caller="reactor-7")
        live.close(key(), "e1", caller="reactor-7")
    yield database
    database.close()


# ---- a gate that is served ---------------------------------------------------------------------------------------------------


def test_a_signed_gate_does_not_start_without_its_key(signed: Database) -> None:
    with pytest.raises(SettingError, match=f"signed by the key {KEYS.current}: name the file.*--journal-key"):
        make_live(signed).start()
    with pytest.raises(SettingError, match="signed by the journal key"):
        make_live(signed, keys=JournalKeys((b"x" * 32,))).start()
    with started(signed, keys=KEYS) as live:
        play(live, "more")
    check_store(signed, KEYS)


def test_a_gate_that_is_new_is_signed_from_its_second_record_on(file_database: Database) -> None:
    played(file_database, 1, KEYS)
    kinds = [record.kind for record in Journal(file_database, GATE, keys=KEYS).read()]
    assert kinds[:3] == ["opened", JOURNAL_KEY, "writer"]
    assert check_gate(file_database, GATE, KEYS).signed_from == 2


@pytest.mark.parametrize("attack", ["the key removed, hashes recomputed", "a reward rewritten, hashes recomputed"])
def test_a_gate_with_a_key_does_not_go_on_with_what_was_altered(signed: Database, tmp_path: Path, attack: str) -> None:
    ATTACKS[attack](signed, tmp_path)
    before = rows_of(signed)
    with pytest.raises(StoreDamaged, match=r"altered|has no signature"):
        make_live(signed, keys=KEYS).start()
    assert rows_of(signed) == before  # it did not sign it again


def test_a_record_that_only_looks_like_a_key_is_no_key(signed: Database) -> None:
    rows = rows_of(signed)
    rows[1]["kind"] = "note"
    put(signed, rows)
    with pytest.raises(StoreDamaged):
        make_live(signed, keys=KEYS).start()
    with pytest.raises(StoreDamaged):
        check_store(signed, KEYS)


def test_a_key_record_that_vanishes_while_the_gate_is_served_stops_it(signed: Database) -> None:
    with started(signed, keys=KEYS) as live:
        with signed.engine.begin() as connection:
            connection.execute(journal_table.delete().where(journal_table.c.kind == JOURNAL_KEY))
        live.journal._chain = None  # as after the store was away
        with pytest.raises(StoreDamaged, match="does not name the key"):
            live.open_episode(key(), "new")


def test_a_gate_is_signed_later_and_its_key_replaced(file_database: Database, tmp_path: Path) -> None:
    played(file_database, 2)
    with pytest.raises(StoreDamaged, match=r"has no signature.*aegis store rekey"):
        make_live(file_database, keys=KEYS).start()
    head = rekey_gate(file_database, GATE, KEYS)
    assert (head.signer, rekey_gate(file_database, GATE, KEYS)) == (KEYS.current, head)  # once
    with started(file_database, keys=KEYS) as live:
        play(live, "signed")
        with pytest.raises(NotWriter, match="stop it first"):
            rekey_gate(file_database, GATE, ROTATED)
    assert check_gate(file_database, GATE, KEYS).signed_from == 15
    with pytest.raises(SettingError, match="not known here"):
        rekey_gate(file_database, GATE, JournalKeys(ROTATED.secrets[:1]))
    with pytest.raises(StoreDamaged, match=f"is signed by the key {KEYS.current}.*aegis store rekey"):
        make_live(file_database, keys=ROTATED).start()
    rekey_gate(file_database, GATE, ROTATED)
    with started(file_database, keys=ROTATED) as live:
        play(live, "again")
    assert check_gate(file_database, GATE, ROTATED).keys == (KEYS.current, ROTATED.current)
    with pytest.raises(SettingError, match="not known here"):
        check_gate(file_database, GATE, KEYS)
    _reward_of_the_first(file_database)
    with pytest.raises(StoreDamaged, match="record 15 was altered"):
        check_gate(file_database, GATE, ROTATED)  # what was there before any key is covered, too


def _reward_of_the_first(database: Database) -> None:
    rows = rows_of(database)
    hashes = [row["hash"] for row in rows]
    results_of(rows, "e0")["body"] = results_of(rows, "e0")["body"].replace('"reward":4.0', '"reward":9.0')
    put(database, rows)
    for row, digest in list(zip(rows, hashes, strict=True))[14:]:
        row["hash"] = digest
    put(database, rows, recompute=False)


# ---- who has no key ----------------------------------------------------------------------------------------------------------


def test_readers_without_the_key_go_on(signed: Database, tmp_path: Path) -> None:
    make_journal_key(tmp_path / "wrong.key")
    live = make_live(signed, keys=KEYS)
    setup = TrainerSetup(str(signed.file), GATE, live.problem, HOSTS["greedy"](), 7)
    assert resume_trainer(setup)[0].arms == []
    with pytest.raises(SettingError, match="not known here"):
        resume_trainer(TrainerSetup(*(getattr(setup, name) for name in setup.__slots__[:5]), str(tmp_path / "wrong.key")))
    assert len(list(Journal(signed, GATE).read())) == list_heads(signed)[0].seq
    reader = Journal(signed, GATE)
    list(reader.news())
    with pytest.raises(SettingError, match="not known here"):
        reader.append([JournalEntry("writer", {"writer": "x"})])


def test_a_backup_needs_no_key_and_its_restore_does(signed: Database, tmp_path: Path) -> None:
    backup = write_backup(signed, tmp_path / "backup.gz")
    assert [head.text for head in backup.heads] == [head.text for head in list_heads(signed)]
    again = Database.at(tmp_path / "again.sqlite")
    try:
        with pytest.raises(SettingError, match=r"signed by the key.*--journal-key"):
            restore_backup(again, tmp_path / "backup.gz")
        assert list_gates(again) == []
        assert restore_backup(again, tmp_path / "backup.gz", KEYS).heads[0].signer == KEYS.current
        check_store(again, KEYS, backup.heads)
    finally:
        again.close()


def test_with_a_key_a_gate_without_one_must_be_named(file_database: Database, tmp_path: Path) -> None:
    played(file_database, 1)
    write_backup(file_database, tmp_path / "backup.gz")
    with pytest.raises(StoreDamaged, match="has no signature"):
        check_store(file_database, KEYS)
    check_store(file_database, KEYS, unsigned=[GATE])
    again = Database.at(tmp_path / "again.sqlite")
    try:
        with pytest.raises(StoreDamaged, match="has no signature"):
            restore_backup(again, tmp_path / "backup.gz", KEYS)
        restore_backup(again, tmp_path / "backup.gz", KEYS, unsigned=[GATE])
    finally:
        again.close()


def test_naming_a_signed_gate_unsigned_changes_nothing(signed: Database) -> None:
    _reward_alone(signed, Path())
    with pytest.raises(StoreDamaged, match="was altered"):
        check_store(signed, KEYS, unsigned=[GATE])
