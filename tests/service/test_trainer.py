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
    recipe,
    records,
    run_plant,
    small_plant,
    started,
)

from aegis.errors import AegisError
from aegis.handover import HOSTS, UnitCounted
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Ask
from aegis.service.store.database import Database
from aegis.service.trainer import Trainer, TrainerGone, TrainerProcess


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
