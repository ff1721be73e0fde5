"""The trainer: a process that is killed is started again and finds the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from service_cases import (
    QUICK,
    count_all,
    counting_here,
    key,
    order_of,
    play,
    quick_database,
    recipe,
    records,
    run_plant,
    small_plant,
    started,
)

from aegis.errors import AegisError
from aegis.handover import HOSTS, GateState, UnitCounted, stream_audit
from aegis.service import trainer as trainer_module
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.http_errors import StoreDamaged
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Ask
from aegis.service.snapshot_writer import SnapshotWriter
from aegis.service.store import blocks
from aegis.service.store.database import Database, blocks_table, snapshots_table
from aegis.service.trainer import Trainer, TrainerGone, TrainerProcess, resume_trainer


def counted(counting: EpisodeCounter) -> None:
    """Count what is settled, by a worker that may be gone."""
    while True:
        try:
            count_all(counting)
            return
        except TrainerGone:
            continue


@pytest.mark.ci
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
                counted(counting)
            if kill:
                with pytest.raises(AegisError, match="AttributeError"):  # raised there, and the same process goes on
                    worker.call("nothing")
                assert worker.call("unknown", live.state.opened) == []
            worker.stop()
            states.append((live.state.gate, live.state.started, [item.body["event"] for item in records(live, "event")]))
        database.close()
    assert states[0][0].freeze == 1
    assert states[0][0].challenges[0].units == 6
    assert states[0] == states[1]


def test_episodes_are_taken_up_once_and_broken_ones_keep_their_place(file_database: Database) -> None:
    with started(file_database) as live:
        play(live, "whole")
        live.open_episode(key(), "broken")
        live.decide(key(), "broken", Ask(**recipe()))
        live.close(key(), "broken")
        whole, broken = live.state.trees["whole"], live.state.trees["broken"]
        trainer = Trainer(live.problem, HOSTS["greedy"](), live.seed)
        for tree, number in ((whole, 1), (whole, 1), (broken, 2)):
            trainer.counted(tree, UnitCounted(number, None, tree.arm, {}))
        assert trainer.arms == ["agent", "broken"]
        (judgement,) = trainer.judge([whole], live.state.opened, {})
        assert judgement.reward == pytest.approx(0.4)  # 4 on a range from 0 to 10
        assert judgement.evidence == {}
        assert trainer.unknown(live.state.opened) == []
        with pytest.raises(StoreDamaged, match="episode 4 was counted, expected episode 3"):
            trainer.counted(whole, UnitCounted(4, None, whole.arm, {}))  # one between was written and not confirmed


# ---- resuming from stored blocks ---------------------------------------------------------------------------------------------


def answers(trainer: Trainer, state: GateState) -> Any:
    """What a trainer says of a state: its audit, the auditor behind it, and the challengers that it would freeze."""
    while not trainer.audit_some(state):
        pass
    known, response = trainer.audit(state, None, True)
    auditor = trainer._audit._auditor
    findings = None if auditor is None else auditor.result().plain()
    return known, response, trainer._audit.episodes, findings, frozen(trainer, state)


def frozen(trainer: Trainer, state: GateState) -> Any:
    """What a trainer would freeze: proposals with their tests, and digests of policies; a stored piece also holds the time."""
    return [(proposed, digest) for proposed, digest, _ in trainer.freeze(state, {}, {})]


def test_a_trainer_that_resumes_from_blocks_is_the_one_that_never_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LARGEST", 8)
    monkeypatch.setattr(trainer_module, "LARGEST", 8)
    monkeypatch.setattr(stream_audit, "CHUNK", 8)
    store, plant = str(tmp_path / "gate.sqlite"), small_plant()
    database, read = quick_database(store), list[int]()
    with started(database, plant.problem, **{**QUICK, "first": 1000}) as live:
        counting, writer = counting_here(live), SnapshotWriter(live)
        never = counting.worker.workshop  # type: ignore[attr-defined]
        monkeypatch.setattr(
            blocks.EpisodeBlock,
            "from_bytes",
            lambda content, real=blocks.EpisodeBlock.from_bytes: read.append(1) or real(content),
        )
        for number in range(45):
            run_plant(plant, live, number, 1, counting)
            if number in (9, 30):
                writer.write()
        order, expected = order_of(live, store), answers(never, live.state.opened)
        assert expected[0] is True
        assert expected[2] == 45
        resumed, state = resume_trainer(order)
        assert state == live.state.gate
        assert resumed.stored.last == 31
        assert len(read) > 4
        assert answers(resumed, live.state.opened) == expected
        # Learning from the latest episodes only is the same, however they came here; older ones are audited from the store.
        monkeypatch.setattr(trainer_module, "WINDOW", 14)
        windowed, _ = resume_trainer(order)
        assert windowed.blocks[0].first > 15
        assert len(windowed.arms) < 30
        assert answers(windowed, live.state.opened)[:4] == expected[:4]
        assert answers(windowed, live.state.opened)[4] == frozen(never, live.state.opened) != expected[4]
        # Without snapshots, or with damaged blocks, the journal is read.
        with database.transaction() as connection:
            connection.execute(blocks_table.update().where(blocks_table.c.last <= 8).values(content=b"damaged"))
        damaged, _ = resume_trainer(order)
        assert damaged.blocks[0].first > 15  # not more than it learns from
        assert answers(damaged, live.state.opened)[:4] == expected[:4]
        with database.transaction() as connection:
            connection.execute(snapshots_table.delete())
        monkeypatch.setattr(trainer_module, "WINDOW", 200_000)
        whole, _ = resume_trainer(order)
        assert answers(whole, live.state.opened) == expected
        database.close()


def test_episodes_that_are_not_audited_for_long_come_from_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "LARGEST", 4)
    monkeypatch.setattr(trainer_module, "LARGEST", 4)
    monkeypatch.setattr(trainer_module, "WINDOW", 8)
    store, plant = str(tmp_path / "gate.sqlite"), small_plant()
    database = quick_database(store)
    with started(database, plant.problem, **{**QUICK, "first": 1000}) as live:
        trainer, _ = resume_trainer(order_of(live, store))
        live.state.on_counted = trainer.counted
        counting = counting_here(live)
        for number in range(30):
            run_plant(plant, live, number, 1, counting)
        assert len(trainer.arms) <= 16
        with pytest.raises(AegisError, match="in no stored block"):
            trainer.audit_some(live.state.opened)
        SnapshotWriter(live).write()
        while not trainer.audit_some(live.state.opened):
            pass
        assert trainer._audit.episodes == 30
    database.close()
