"""Kept challengers are part of what is certified: one that was altered or removed is found, wherever it would be used."""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from service_cases import GATE, counting_here, inner, key, meta, records, run_plant, small_plant, taken_up

from aegis.cli import main
from aegis.handover import UnitCounted, event_from_plain
from aegis.handover.challenger_archive import STORED_KINDS, StoredChallenger
from aegis.policies import policy_from_bytes, policy_to_bytes
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.gate_problem import live_problem
from aegis.service.http_errors import StoreDamaged, StoreUnavailable
from aegis.service.integrity import StoreCheck, check_gate, check_stored_policy, piece_digest
from aegis.service.journal_export import export_gate
from aegis.service.live_gate import LiveGate
from aegis.service.live_state import ChallengerSeal
from aegis.service.store.backup import restore_backup, write_backup
from aegis.service.store.chain import ChainHead
from aegis.service.store.database import Database, challengers_table, journal_table
from aegis.service.store.journal import Journal

Alters = Callable[[Database, str], None]


def change(database: Database, challenge: str, **values: Any) -> None:
    """Do something to the table that a gate never does."""
    with database.transaction() as connection:
        connection.execute(challengers_table.update().where(challengers_table.c.name == challenge).values(**values))


def names(database: Database) -> list[str]:
    """Return all kept challengers."""
    with database.engine.connect() as connection:
        return list(connection.execute(sa.select(challengers_table.c.name)).scalars())


def other(database: Database, challenge: str) -> bytes:
    """Return another challenger of the same level."""
    level = challenge.split("-")[1]
    name = next(item for item in names(database) if item != challenge and item.split("-")[1] == level)
    return Journal(database, GATE).challenger(name)


def _another_policy(database: Database, challenge: str) -> None:
    change(database, challenge, content=other(database, challenge))


def _other_terms(database: Database, challenge: str) -> None:
    """Alter what the claims are made by, and leave the policy."""
    found = policy_from_bytes(Journal(database, GATE).challenger(challenge), live_problem(small_plant().problem), STORED_KINDS)
    assert isinstance(found, StoredChallenger)
    change(database, challenge, content=policy_to_bytes(replace(found, terms=replace(found.terms, allowed=0.5))))


def _noise(database: Database, challenge: str) -> None:
    change(database, challenge, content=b"noise")


def _removed(database: Database, challenge: str) -> None:
    with database.transaction() as connection:
        connection.execute(challengers_table.delete().where(challengers_table.c.name == challenge))


ALTERED: dict[str, Alters] = {
    "another policy": _another_policy,
    "other terms": _other_terms,
    "noise": _noise,
    "removed": _removed,
}


@pytest.fixture(params=list(ALTERED))
def alter(request: pytest.FixtureRequest) -> Alters:
    """Return what somebody does to a kept challenger."""
    return ALTERED[request.param]


def waits(live: LiveGate) -> str:
    """Return the challenge that waits for an operator."""
    (item,) = live.state.opened.waiting
    return item.challenge


def typed(*words: str) -> int:
    """Run the command line."""
    with pytest.raises(SystemExit) as stop:
        main(list(words))
    return int(stop.value.code or 0)


# ---- looking after a store ---------------------------------------------------------------------------------------------------


def test_a_store_that_nobody_touched_is_whole(waiting: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    check = check_gate(waiting, GATE)
    assert check.challengers == len(names(waiting)) > 1
    assert typed("store", "verify", "--store", str(waiting.file), "--json") == 0
    (plain,) = json.loads(capsys.readouterr().out)["gates"]
    assert (plain["gate"], plain["records"], plain["challengers"]) == (GATE, check.records, check.challengers)
    assert (plain["key"], plain["signed_from"], plain["head"]) == (None, None, Journal(waiting, GATE).newest().plain())
    assert (plain["checked"], plain["not_checked"]) == (list(check.checked), list(check.unchecked))
    write_backup(waiting, tmp_path / "backup.gz")
    again = Database.at(tmp_path / "again.sqlite")
    try:
        restore_backup(again, tmp_path / "backup.gz")
        assert check_gate(again, GATE) == check
    finally:
        again.close()


def test_verify_finds_an_altered_challenger(waiting: Database, alter: Alters, capsys: pytest.CaptureFixture[str]) -> None:
    challenge = names(waiting)[0]
    alter(waiting, challenge)
    with pytest.raises(StoreDamaged, match=f"gate '{GATE}'.*'{challenge}'"):
        check_gate(waiting, GATE)
    assert typed("store", "verify", "--store", str(waiting.file)) != 0
    said = capsys.readouterr().err
    assert f"gate '{GATE}'" in said and f"challenge '{challenge}'" in said and "Traceback" not in said


def test_verify_finds_a_decision_that_does_not_follow(waiting: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the journal had been written again from there on, its chain too."""
    records = list(Journal(waiting, GATE).read())
    certified = next(item for item in records if item.kind == "event" and item.body["event"]["kind"] == "certified")
    event = {**certified.body["event"], "gain_lower": certified.body["event"]["gain_lower"] + 0.1}
    altered = [replace(item, body={**item.body, "event": event}) if item is certified else item for item in records]
    for kept in (altered, [item for item in records if item is not certified]):
        monkeypatch.setattr(Journal, "walk", lambda self, after=0, kept=kept: ((ChainHead(GATE), item) for item in kept))
        with pytest.raises(StoreDamaged, match=f"gate '{GATE}'.*the journal was altered"):
            check_gate(waiting, GATE)


def test_an_altered_challenger_is_not_restored(waiting: Database, alter: Alters, tmp_path: Path) -> None:
    challenge = names(waiting)[-1]
    alter(waiting, challenge)
    write_backup(waiting, tmp_path / "backup.gz")
    again = Database.at(tmp_path / "again.sqlite")
    try:
        with pytest.raises(StoreDamaged, match=f"gate '{GATE}'.*'{challenge}'"):
            restore_backup(again, tmp_path / "backup.gz")
        assert names(again) == []
        with again.engine.connect() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(journal_table)).scalar() == 0
    finally:
        again.close()


def test_a_challenger_that_is_altered_in_a_backup_is_found(waiting: Database, tmp_path: Path) -> None:
    path = tmp_path / "backup.gz"
    write_backup(waiting, path)
    with gzip.open(path, "rt", encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    rows = [line[1] for line in lines if isinstance(line, list) and line[0] == "challengers" and "inner" in line[1]["name"]]
    rows[0]["content"] = rows[1]["content"]
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    again = Database.at(tmp_path / "again.sqlite")
    try:
        with pytest.raises(StoreDamaged, match=rows[0]["name"]):
            restore_backup(again, path)
    finally:
        again.close()


def test_an_altered_challenger_is_not_exported(waiting: Database, alter: Alters, tmp_path: Path) -> None:
    with taken_up(waiting) as live:
        challenge = waits(live)
        live.say(key(), "approve", "me", "for a test", "inner")
        run_plant(small_plant(), live, live.state.started, 1, counting_here(live))
    alter(waiting, challenge)
    with pytest.raises(StoreDamaged, match=challenge):
        export_gate(waiting, GATE, tmp_path / "out")


def test_a_piece_is_checked_by_its_seal(waiting: Database) -> None:
    name, problem = names(waiting)[0], live_problem(small_plant().problem)
    piece = Journal(waiting, GATE).challenger(name)
    check_stored_policy(GATE, name, ChallengerSeal(piece_digest(piece)), piece, problem)
    for seal, content in (
        (ChallengerSeal("0" * 64), piece),
        (ChallengerSeal(piece_digest(piece)), other(waiting, name)),
        (None, piece),
    ):
        with pytest.raises(StoreDamaged, match="restore a backup"):
            check_stored_policy(GATE, name, seal, content, problem)


def test_a_freeze_without_an_opening_is_damage(waiting: Database) -> None:
    found = StoreCheck(GATE)
    for record in Journal(waiting, GATE).read():
        if record.kind != "opened":
            found.record(record.kind, record.body)
    with pytest.raises(StoreDamaged, match="opened"):
        found.piece(names(waiting)[0], b"")


def test_the_seal_is_of_every_byte(waiting: Database) -> None:
    # A piece that says the same in other bytes was not written by the gate.
    name = names(waiting)[0]
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(Journal(waiting, GATE).challenger(name))) as old, zipfile.ZipFile(packed, "w") as new:
        for item in reversed(old.namelist()):
            new.writestr(item, old.read(item))
    change(waiting, name, content=packed.getvalue())
    with pytest.raises(StoreDamaged, match="its content is not that of the freeze"):
        check_gate(waiting, GATE)


# ---- a gate that runs --------------------------------------------------------------------------------------------------------


def test_an_altered_policy_never_acts_and_pauses_the_gate_once(waiting: Database, alter: Alters) -> None:
    with taken_up(waiting) as live:
        challenge = waits(live)
        alter(waiting, challenge)
        live.say(key(), "approve", "me", "for a test", "inner")
        live.open_episode(key(), "e")
        live.decide(key(), "e", meta())
        for _ in range(3):
            with pytest.raises(StoreUnavailable, match="not the one that was certified"):
                live.decide(key(), "e", inner("i1"))
        assert challenge in (live.state.opened.paused or "")
        assert sum(item.body["event"]["kind"] == "paused" for item in records(live, "event")) == 1
        assert live.overrule(key(), "e", inner("i1"), -2.0, True)["by"] == "legacy"


def test_a_policy_that_cannot_be_fetched_now_pauses_nothing(waiting: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any) -> None:
        raise StoreUnavailable("the store does not answer")

    with taken_up(waiting) as live:
        live.say(key(), "approve", "me", "for a test", "inner")
        live.open_episode(key(), "e")
        live.decide(key(), "e", meta())
        with monkeypatch.context() as patched:
            patched.setattr(Journal, "challenger", away)
            with pytest.raises(StoreUnavailable, match="does not answer"):
                live.decide(key(), "e", inner("i1"))
        assert live.state.opened.paused is None
        assert live.decide(key(), "e", inner("i1"))["by"] == "agent"


def _units(live: LiveGate, after: int) -> list[UnitCounted]:
    found = [event_from_plain(item.body["event"]) for item in records(live, "event")]
    return [event for event in found if isinstance(event, UnitCounted) and event.episode > after]


def _all(counting: EpisodeCounter) -> None:
    for _ in range(20):
        if not counting.once():
            return
    raise AssertionError("it never comes to an end")


def test_an_altered_challenger_is_not_judged(waiting: Database, alter: Alters) -> None:
    with taken_up(waiting) as live:
        before, challenge = live.state.opened.episode, live.state.opened.challenges[0].name
        counting = counting_here(live)
        alter(waiting, challenge)
        run_plant(small_plant(), live, live.state.started, 3)
        _all(counting)
        assert f"challenge '{challenge}'" in (live.state.opened.paused or "")
        units = _units(live, before)
        assert [unit.episode for unit in units] == [before + 1, before + 2, before + 3]
        assert all(unit.evidence == {} for unit in units)
        assert all(unit.reward is not None for unit in units)  # what they earned is still known
        assert sum(item.body["event"]["kind"] == "paused" for item in records(live, "event")) == 1


def test_an_altered_policy_in_control_is_not_learned_from(waiting: Database, alter: Alters) -> None:
    plant = small_plant()
    with taken_up(waiting) as live:
        counting, challenge = counting_here(live), waits(live)
        live.say(key(), "approve", "me", "for a test", "inner")
        run_plant(plant, live, live.state.started, 1, counting)  # it acts, and stays in memory
        frozen = live.state.opened.freeze
        alter(waiting, challenge)
        for _ in range(60):
            run_plant(plant, live, live.state.started, 1, counting)
            if live.state.opened.paused is not None:
                break
        assert f"challenge '{challenge}'" in (live.state.opened.paused or "")
        assert live.state.opened.freeze == frozen
        assert live.state.opened.episode == live.state.started
