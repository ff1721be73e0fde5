"""The chain of a journal: what follows from what, with a key and without, and heads that are kept elsewhere."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aegis.errors import InputError, SettingError
from aegis.service.http_errors import StoreDamaged
from aegis.service.store.chain import JOURNAL_KEY, START, ChainHead, parse_heads
from aegis.service.store.journal_keys import JournalKeys

OLD, NEW = JournalKeys((b"o" * 32,)), JournalKeys((b"n" * 32, b"o" * 32))


def row(seq: int, kind: str = "event", body: Any = None, **changed: Any) -> dict[str, Any]:
    plain = {"gate": "g", "seq": seq, "at": "now", "kind": kind, "episode": None, "key": None, "request": None}
    return {**plain, "body": json.dumps(body or {}), "caller": None, **changed}


def written(rows: list[dict[str, Any]], keys: JournalKeys | None, head: ChainHead | None = None) -> list[dict[str, Any]]:
    head = head or ChainHead("g")
    for item in rows:
        head = head.follow(item, keys)
        item["hash"] = head.hash
    return rows


def checked(rows: list[dict[str, Any]], keys: JournalKeys | None) -> ChainHead:
    head = ChainHead("g")
    for item in rows:
        head = head.check(item, keys)
    return head


def keyed(seq: int, keys: JournalKeys) -> dict[str, Any]:
    return row(seq, JOURNAL_KEY, {"id": keys.current})


def test_a_key_signs_from_its_record_on() -> None:
    rows = written([row(1), row(2), keyed(3, OLD), row(4)], OLD)
    assert checked(rows[:2], None).signer is None
    assert checked(rows[:3], OLD).signer == OLD.current
    head = checked(rows, OLD)
    assert (head.seq, head.hash, head.signer, head.signing) == (4, rows[3]["hash"], OLD.current, OLD.current)
    head.check_end(OLD)
    rows[0]["body"] = "[1]"
    written(rows[:2], None)  # what was before the key, computed anew
    with pytest.raises(StoreDamaged, match="record 3 was altered"):
        checked(rows, OLD)


def test_a_key_is_replaced_under_the_old_one() -> None:
    rows = written([row(1), keyed(2, OLD), keyed(3, NEW), row(4)], NEW)
    assert (checked(rows[:3], NEW).signer, checked(rows[:3], NEW).signing) == (OLD.current, NEW.current)
    assert checked(rows, NEW).signer == NEW.current
    with pytest.raises(SettingError, match=f"record 4 is signed by the journal key {NEW.current}"):
        checked(rows, OLD)
    with pytest.raises(SettingError, match=f"record 2 is signed by the journal key {OLD.current}"):
        checked(rows, JournalKeys(NEW.secrets[:1]))


def test_who_knows_the_old_key_alone_cannot_go_on_in_the_name_of_the_new_one() -> None:
    forged = written([row(1), keyed(2, OLD), row(3, body={"reward": 9}), keyed(4, NEW)], OLD)
    head = checked(forged, NEW)
    assert head.signing == NEW.current
    with pytest.raises(StoreDamaged, match=f"signed by the key {OLD.current}, expected one of the key {NEW.current}"):
        head.check_end(NEW)


def test_a_journal_ends_with_the_key_that_is_expected() -> None:
    signed, plain = checked(written([row(1), keyed(2, OLD)], OLD), OLD), checked(written([row(1)], None), None)
    ChainHead("g").check_end(OLD)
    plain.check_end(None)
    signed.check_end(OLD)
    with pytest.raises(StoreDamaged, match="has no signature, expected one of the key"):
        plain.check_end(OLD)
    with pytest.raises(SettingError, match="AEGIS_JOURNAL_KEY_FILE"):
        signed.check_end(None)


def test_without_the_key_the_sequence_is_checked_and_nothing_is_written() -> None:
    rows = written([row(1), keyed(2, OLD), row(3)], OLD)
    assert checked([*rows[:2], {**rows[2], "body": "[]"}], None).seq == 3
    with pytest.raises(StoreDamaged, match="record 2 is missing"):
        checked([rows[0], rows[2]], None)
    with pytest.raises(SettingError, match="not known here"):
        checked(rows, None).follow(row(4), None)


@pytest.mark.parametrize("body", ["", "[]", "{}", "3", '{"key": 1}'])
def test_a_key_record_without_a_key_is_damage(body: str) -> None:
    with pytest.raises(StoreDamaged, match="record 1 names no key"):
        ChainHead("g").check({**row(1, JOURNAL_KEY), "body": body, "hash": START}, OLD)


def test_fields_do_not_run_into_each_other_where_they_are_signed() -> None:
    head = checked(written([keyed(1, OLD)], OLD), OLD)
    pairs = (
        ({"key": None}, {"key": ""}),
        ({"key": "a\nb", "request": "c"}, {"key": "a", "request": "b\nc"}),
        ({"caller": None}, {"caller": ""}),
        ({"episode": 1}, {"episode": "1"}),
        ({"gate": "g"}, {"gate": "h"}),
        ({"key": b"a"}, {"key": "a"}),
    )
    for one, two in pairs:
        assert head.follow(row(2, **one), OLD).hash != head.follow(row(2, **two), OLD).hash, (one, two)


@pytest.mark.parametrize("digest", ["ü" * 64, None, b"", "\ud800"])
def test_a_hash_that_is_none_is_damage(digest: Any) -> None:
    with pytest.raises(StoreDamaged, match="record 1 was altered"):
        ChainHead("g").check({**row(1), "hash": digest}, None)


def test_heads_are_read_as_they_are_printed(tmp_path: Path) -> None:
    heads = [ChainHead("plant", 12, "ab" * 32), ChainHead("line 3: press", 1, "cd" * 32)]
    text = "\n".join(["", *(head.text for head in heads), json.dumps({**heads[0].plain(), "keyed": True})])
    assert parse_heads(text) == [*heads, heads[0]]
    for wrong in (
        "plant",
        "plant 12",
        "plant 12 abc",
        f"plant twelve {'ab' * 32}",
        f"plant 0 {'ab' * 32}",
        '{"gate": 1}',
        "{",
        "[]",
    ):
        with pytest.raises(InputError, match="line 1 is no head"):
            parse_heads(wrong)
