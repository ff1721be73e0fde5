"""Episodes that are not all there: cut off by the gate, by a controller, or told of too late. They are evidence of nothing."""

from __future__ import annotations

import threading
import time
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from service_cases import (
    QUICK,
    count_all,
    counting_here,
    dose,
    inner,
    key,
    make_live,
    meta,
    play,
    recipe,
    records,
    result,
    run_plant,
    say,
    small_plant,
    started,
    taken_up,
)

from aegis.agents import uniform_legacy
from aegis.certificate import GAP_COLUMN, certify
from aegis.errors import RefusedError
from aegis.handover import UnitCounted, event_from_plain, verify_events
from aegis.logs import Source
from aegis.problem import load_problem
from aegis.service import episode_counter
from aegis.service.episode_counter import BLOCK
from aegis.service.http_errors import Conflict, NotFound
from aegis.service.journal_export import export_gate
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Ask, Report
from aegis.service.status import GateStatus
from aegis.service.store import journal
from aegis.service.store.database import Database


def begin(live: LiveGate, name: str) -> None:
    """Open an episode with one dose whose reward is known, and leave it open."""
    live.open_episode(key(), name)
    live.decide(key(), name, Ask(**recipe()))
    live.decide(key(), name, Ask(**dose()))
    live.report(key(), [Report(**result(name))])


def arms(live: LiveGate) -> dict[int, str]:
    """Return who acted in the episodes that were counted."""
    found = [event_from_plain(item.body["event"]) for item in records(live, "event")]
    return {event.episode: event.arm for event in found if isinstance(event, UnitCounted)}


def long_ago(live: LiveGate, name: str) -> None:
    """Let an episode have been silent for a day."""
    live.state.trees[name].heard -= 86_400.0


def set_clock(hours: int) -> type[datetime]:
    """Return a clock that was set by some hours; no other clock is."""

    class SetClock(datetime):
        """The time of day."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            """Return a wrong time."""
            return datetime.now(tz) + timedelta(hours=hours)

    return SetClock


# ---- by the gate -------------------------------------------------------------------------------------------------------------


def test_an_episode_that_the_gate_closes_is_no_evidence(file_database: Database) -> None:
    with started(file_database) as live:
        begin(live, "cut")
        begin(live, "closed")
        live.decide(key(), "closed", Ask(**dose(id="d2")))
        live.close(key(), "closed")
        begin(live, "going")
        counting = counting_here(live, abandon=3600.0)
        for name in ("cut", "closed"):
            long_ago(live, name)
        for _ in range(2):  # what was closed is counted at the next look
            count_all(counting)
        assert arms(live) == {1: "mixed", 2: "agent"}  # of the second only a reward was missing, and that is known
        assert list(live.state.trees) == ["going"]  # something was heard of it
        with pytest.raises(Conflict, match="counted"):
            live.decide(key(), "cut", Ask(**dose(id="d3")))
        assert live.state.opened.paused is None  # it never was evidence


def test_while_nobody_listened_nothing_is_too_old(file_database: Database) -> None:
    with started(file_database) as live:
        begin(live, "e")
        long_ago(live, "e")
        counting = counting_here(live, abandon=3600.0)
        counting._since = time.monotonic()
        count_all(counting)
        assert not live.state.trees["e"].closed


def test_a_clock_that_is_set_closes_nothing(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(file_database) as live:
        begin(live, "before")
        for hours in (48, -48):
            monkeypatch.setattr(journal, "datetime", set_clock(hours))
            monkeypatch.setattr(episode_counter, "datetime", set_clock(hours), raising=False)
            begin(live, f"by {hours} hours")
            counting = counting_here(live, abandon=3600.0)
            count_all(counting)
        assert [tree.closed for tree in live.state.trees.values()] == [False] * 3
    again = make_live(file_database)
    again.start()
    monkeypatch.setattr(journal, "datetime", set_clock(96))
    counting = counting_here(again, abandon=3600.0)
    count_all(counting)
    assert len(again.state.going) == 3
    now = time.monotonic()
    monkeypatch.setattr(episode_counter.time, "monotonic", lambda: now + 3601.0)
    count_all(counting)
    assert not again.state.going and not again.state.trees
    again.stop()


def test_many_that_are_closed_at_once_do_not_hold_up_decisions(file_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with started(file_database) as live:
        for place in range(BLOCK + 3):
            live.open_episode(key(), f"e{place}")
            long_ago(live, f"e{place}")
        counting, between = counting_here(live, abandon=3600.0), list[int]()

        own, sleep = threading.current_thread(), time.sleep

        def other(seconds: float) -> None:
            if threading.current_thread() is not own:  # threads of other tests
                sleep(seconds)
                return

            def look() -> None:
                with live.changed:
                    between.append(len(live.state.trees))

            thread = threading.Thread(target=look, daemon=True)
            thread.start()
            thread.join(5)

        monkeypatch.setattr(episode_counter.time, "sleep", other)
        assert counting.once()
        assert between == list(range(BLOCK + 2, 2, -1))  # others get a turn after each of them


# ---- too late ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["decision", "overruled", "incomplete"])
def test_what_comes_after_the_end_shows_that_it_was_not_all(file_database: Database, how: str) -> None:
    def late(live: LiveGate, name: str, under: str) -> Any:
        if how == "decision":
            return live.decide(under, name, Ask(**dose(id="d2")))
        if how == "overruled":
            return live.overrule(under, name, Ask(**dose(id="d2")), 0.0, True)
        return live.close(under, name, incomplete=True)

    with started(file_database) as live:
        begin(live, "closed")
        live.close("its-close", "closed")
        if how == "incomplete":
            late(live, "closed", "late")
        else:
            for _ in range(2):
                with pytest.raises(Conflict, match="closed"):
                    late(live, "closed", "late")
            assert len(records(live, "cut")) == 1
        assert live.close("its-close", "closed")["episode"] == "closed"  # the same request gets the same answer
        play(live, "counted")
        count_all(counting_here(live))
        assert arms(live) == {1: "mixed", 2: "agent"}
        with pytest.raises(Conflict, match="counted"):
            live.close(key(), "counted")
        assert live.state.opened.paused is None  # closing twice says nothing new
        with pytest.raises(Conflict, match="counted"):
            late(live, "counted", "later")
        gate = live.state.opened
        assert gate.paused is None and gate.late == 1  # the gate goes on by itself, and says what happened
        [event] = [item.body["event"] for item in records(live, "event") if item.body["event"]["kind"] == "late"]
        assert event["unit"] == 2 and "'counted' came after" in event["why"]
        with pytest.raises(Conflict, match="counted"):
            late(live, "counted", "once more")
        assert live.state.opened is gate  # once for each episode
        count_all(counting_here(live))


def test_a_gate_that_starts_again_knows_what_was_cut(file_database: Database) -> None:
    with started(file_database) as live:
        begin(live, "e")
        live.close(key(), "e")
        with pytest.raises(Conflict):
            live.decide(key(), "e", Ask(**dose(id="d2")))
        before = live.state.trees["e"]
    again = make_live(file_database)
    again.start()
    assert again.state.trees["e"] == before
    assert before.gap
    again.stop()


# ---- exported ----------------------------------------------------------------------------------------------------------------


def exported(live: LiveGate, folder: Path) -> tuple[Source, list[bool]]:
    """Return the log of a gate, and which of its episodes are gaps."""
    count_all(counting_here(live))
    export_gate(live.database, live.name, folder)
    source = Source(folder / "log.parquet", load_problem(folder / "problem.yaml"))
    batch = source.read((GAP_COLUMN,))
    return source, np.asarray(batch.extra[GAP_COLUMN])[
        np.flatnonzero(batch.levels["dose"].parent == np.arange(len(batch)))
    ].tolist()


def overruled(live: LiveGate, name: str, explored: bool) -> None:
    """Take an episode through a gate in which somebody else took the dose."""
    live.open_episode(key(), name)
    live.decide(key(), name, Ask(**recipe()))
    live.overrule(key(), name, Ask(**dose()), 0.0, explored)
    live.report(key(), [Report(**result(name))])
    live.close(key(), name)


def test_a_log_with_gaps_certifies_nothing(file_database: Database, tmp_path: Path) -> None:
    with started(file_database) as live:
        for number in range(12):
            play(live, f"e{number}", 4.0 + number % 3)
        overruled(live, "drawn", True)
        source, gaps = exported(live, tmp_path / "whole")
        assert gaps == [False] * 13
        assert certify(source, uniform_legacy(source.problem), ledger=False).verdict.verdict != "refused"
        overruled(live, "person", False)
        play(live, "after")
        source, gaps = exported(live, tmp_path / "gaps")
        assert gaps == [*[False] * 13, True, False]
        found = certify(source, uniform_legacy(source.problem), ledger=False)
        assert found.verdict.verdict == "refused"
        assert "gate_gap" in (found.levels[0].reason or "")


def test_an_episode_that_is_left_out_is_told_by_the_next(file_database: Database, tmp_path: Path) -> None:
    with started(file_database) as live:
        play(live, "first")
        live.open_episode(key(), "broken")
        live.decide(key(), "broken", Ask(**recipe()))
        live.close(key(), "broken", incomplete=True)
        play(live, "last")
        _, gaps = exported(live, tmp_path / "export")
        assert gaps == [False, True]
        live.open_episode(key(), "broken too")
        live.decide(key(), "broken too", Ask(**recipe()))
        live.close(key(), "broken too", incomplete=True)
        _, gaps = exported(live, tmp_path / "again")
        assert gaps == [False, True]


def test_comparisons_refuse_gaps_too(file_database: Database, tmp_path: Path) -> None:
    from aegis.certificate import Candidate
    from aegis.comparison.unit_series import CertifiedLog

    with started(file_database) as live:
        overruled(live, "person", False)
        for number in range(12):
            play(live, f"e{number}")
        source, _ = exported(live, tmp_path / "gaps")
        log = CertifiedLog.of(source, [Candidate.of(uniform_legacy(source.problem))], False)
        with pytest.raises(RefusedError, match="gate_gap"):
            list(log.batches())


# ---- too late, and tests rest on it ------------------------------------------------------------------------------------------


def stray(live: LiveGate, episode: str) -> None:
    """Send a decision of an episode that was counted."""
    with pytest.raises(Conflict, match="counted"):
        live.decide(key(), episode, inner(key()))


def test_one_stray_decision_gives_up_the_tests_that_counted_it_and_testing_goes_on(file_database: Database) -> None:
    plant = small_plant()
    with started(file_database, plant.problem, mode="approve", **QUICK) as live:
        reading, counting = GateStatus(live), counting_here(live)
        run_plant(plant, live, 0, 12, counting)
        before = live.state.opened
        assert before.challenges and before.start == 0
        stray(live, "episode-3")  # before the freeze: no open test counted it
        assert live.state.opened.challenges == before.challenges
        stray(live, "episode-11")
        after = live.state.opened
        assert after.paused is None and not after.challenges and after.spent == before.spent and after.late == 2
        assert reading.gate()["episodes"]["late"] == 2 and "late" in [item["kind"] for item in reading.gate()["events"]]
        number = 12
        while not live.state.opened.waiting:  # new tests are frozen, and certify what is there
            run_plant(plant, live, number, 1, counting)
            number += 1
            assert number < 120
        verify_events([event_from_plain(item.body["event"]) for item in records(live) if "event" in item.body])
        assert not any(item.since <= 12 for item in live.state.opened.challenges)


def test_stray_closes_and_results_change_nothing_that_is_tested(file_database: Database) -> None:
    plant = small_plant()
    with started(file_database, plant.problem, mode="approve", **QUICK) as live:
        counting = counting_here(live)
        run_plant(plant, live, 0, 12, counting)
        before, tests = live.state.opened, live.state.opened.challenges
        assert tests
        for episode, words in (("episode-11", "counted"), ("unknown", "no episode")):
            for abandoned in (False, True):
                with pytest.raises((Conflict, NotFound), match=words):
                    live.close(key(), episode, abandoned=abandoned)
        with pytest.raises(NotFound):
            live.close(key(), "unknown", incomplete=True)
        with pytest.raises(NotFound):
            live.report(key(), [Report(episode="unknown", decision="d", reward=0.0)])
        assert live.state.opened == before
        live.open_episode(key(), "twice")
        live.decide(key(), "twice", meta())
        live.decide(key(), "twice", inner("i"))
        for _ in range(2):
            live.report(key(), [Report(episode="twice", decision="i", reward=0.0, outcome=0.0)])
        live.close("once", "twice")
        assert live.close("once", "twice")["episode"] == "twice"
        with pytest.raises(Conflict, match="closed already"):
            live.close(key(), "twice")
        count_all(counting)
        live.report(key(), [Report(episode="twice", decision="i", reward=0.0, outcome=0.0)])  # late: kept, and no evidence
        after = live.state.opened
        assert after.paused is None and after.episode == before.episode + 1 and after.late == 0
        assert [item.name for item in after.challenges] == [item.name for item in tests]
        last = [event_from_plain(item.body["event"]) for item in records(live, "event")][-1]
        assert isinstance(last, UnitCounted) and last.arm == "agent" and set(last.evidence) == {item.name for item in tests}


def test_a_stray_decision_ends_an_approval_that_waits(waiting: Database) -> None:
    with taken_up(waiting) as live:
        stray(live, f"episode-{live.state.opened.episode}")
        assert not live.state.opened.waiting
        with pytest.raises(Conflict, match="waits for approval"):
            say(live, "approve", "inner")


def test_nothing_is_promised_about_a_level_whose_test_counted_what_was_not_whole(waiting: Database, tmp_path: Path) -> None:
    with taken_up(waiting) as live:
        reading, last = GateStatus(live), live.state.opened.episode
        say(live, "approve", "inner")
        stray(live, "episode-1")  # its test began later
        assert reading.gate()["audit"]["doubted"] == [] and "at most 0.05" in reading.gate()["promise"]
        stray(live, f"episode-{last}")
        shown, gate = reading.gate(), live.state.opened
        assert gate.paused is None and gate.at("inner") is not None  # it stays in control: an operator decides
        assert shown["audit"]["doubted"] == ["inner"] and "at most" not in shown["promise"]
        assert f"a decision of episode {last} came after" in shown["promise"]
        export_gate(live.database, live.name, tmp_path)
        batch = Source(tmp_path / "log.parquet", load_problem(tmp_path / "problem.yaml")).read((GAP_COLUMN,))
        assert set(batch.episode[batch.episode_of("inner")[np.asarray(batch.extra[GAP_COLUMN])]]) == {
            "episode-1",
            f"episode-{last}",
        }
        say(live, "revert", "inner")
        assert reading.gate()["audit"]["doubted"] == []


def test_a_stray_decision_of_an_episode_without_decisions_says_nothing(file_database: Database) -> None:
    with started(file_database) as live:
        live.open_episode(key(), "empty")
        live.close(key(), "empty")
        play(live, "e")
        with pytest.raises(Conflict, match="counted"):
            live.decide(key(), "empty", Ask(**recipe()))
        assert live.state.opened.late == 0


def test_a_stray_decision_does_not_resume_a_gate_that_was_paused(file_database: Database) -> None:
    with started(file_database) as live:
        play(live, "e")
        count_all(counting_here(live))
        live.pause("for a test")
        with pytest.raises(Conflict, match="counted"):
            live.decide(key(), "e", Ask(**dose(id="d2")))
        assert live.state.opened.paused == "for a test" and live.state.opened.late == 1


def test_a_decision_that_was_asked_for_before_is_not_late(file_database: Database) -> None:
    with started(file_database) as live:
        counting = counting_here(live)
        for name in ("counted", "closed"):
            live.open_episode(key(), name)
            live.decide(key(), name, Ask(**recipe()))
            live.overrule(key(), name, Ask(**dose()), used=0.0, explored=True)
            live.report(key(), [Report(**result(name))])
            live.close(key(), name)
            if name == "counted":
                count_all(counting)
        for name in (
            "counted",
            "closed",
        ):  # a copy that was under way for long: the same decision, under the key of another request
            with pytest.raises(Conflict, match="was asked for before"):
                live.decide(key(), name, Ask(**dose()))
            with pytest.raises(Conflict, match="was asked for before"):
                live.decide(key(), name, Ask(**dose(parent="r")))
        assert live.state.opened.late == 0 and not live.state.trees["closed"].cut
        for changed in ({"context": {"temperature": 3.0}}, {"context": {}}, {"id": "another"}, {"parent": "no"}):
            with pytest.raises(Conflict, match=r"counted|takes no more"):
                live.decide(key(), "counted", Ask(**dose(**changed)))
        assert live.state.opened.late == 1  # once for an episode
        with pytest.raises(Conflict, match="takes no more"):
            live.decide(key(), "closed", Ask(**dose(context={"temperature": 3.0})))
        assert live.state.trees["closed"].cut


@pytest.mark.parametrize("counted", [True, False])
def test_a_late_note_that_another_action_was_used_counts(file_database: Database, counted: bool) -> None:
    with started(file_database) as live:
        play(live, "e")
        if counted:
            count_all(counting_here(live))
        with pytest.raises(Conflict, match=r"counted|takes no more"):  # the decision is known, and something else was done
            live.overrule(key(), "e", Ask(**dose()), used=1.0, explored=True)
        assert live.state.opened.late == 1 if counted else live.state.trees["e"].cut


@pytest.mark.parametrize(("whole", "late"), [(True, 1), (False, 0)])
def test_a_late_decision_counts_unless_the_gate_itself_had_cut_the_episode_off(
    file_database: Database, whole: bool, late: int
) -> None:
    with started(file_database) as live:
        counting = counting_here(live, abandon=0.0)
        counting._since = -1e9
        live.open_episode(key(), "e")
        live.decide(key(), "e", Ask(**recipe()))
        live.decide(key(), "e", Ask(**dose()))
        if whole:  # its reward alone is abandoned
            live.close(key(), "e")
        count_all(counting)
        last = [event_from_plain(item.body["event"]) for item in records(live, "event")][-1]
        assert isinstance(last, UnitCounted) and last.arm == ("agent" if whole else "mixed")
        stray(live, "e")
        assert live.state.opened.late == late


def test_an_action_that_was_replaced_is_not_overruled_afterwards(file_database: Database) -> None:
    with started(file_database) as live:
        live.open_episode(key(), "e")
        live.decide(key(), "e", Ask(**recipe()))
        live.decide(key(), "e", Ask(**dose()))
        live.replace(key(), "e", "d", used="off")
        with pytest.raises(Conflict, match="replaced already"):
            live.overrule(key(), "e", Ask(**dose()), used=0.0, explored=True)
        assert live.state.trees["e"].replaced and live.state.trees["e"].gap
