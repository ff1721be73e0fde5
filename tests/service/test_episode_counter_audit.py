"""The live gate audits the episodes it counts: it pauses, is resumed, and counts gates of one plant."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from inline import Inline, make_plant
from service_cases import quick_database

sys.path.insert(0, str(Path(__file__).parents[1] / "handover"))

from visits_plant import VISITS, Visits

from aegis.handover import (
    HOSTS,
    NO_RESPONSE,
    AuditResponse,
    GateSettings,
    GateState,
    Paused,
    Postponed,
    event_from_plain,
    event_to_plain,
    replay_events,
)
from aegis.ope.comparator import AVERAGE_WORDS, LOG_WRITER_WORDS
from aegis.rng import stream
from aegis.service import gate_writer
from aegis.service.episode_counter import EpisodeCounter
from aegis.service.http_errors import Conflict
from aegis.service.live_gate import LiveGate
from aegis.service.live_state import EVENT, LiveState
from aegis.service.schemas import Ask, Legacy, Report
from aegis.service.status import GateStatus
from aegis.service.store import journal
from aegis.service.store.journal import JournalEntry
from aegis.service.trainer import Trainer


@dataclass
class Served:
    """A plant of visits at a live gate."""

    live: LiveGate
    counting: EpisodeCounter
    reading: GateStatus
    later: float = 0.0
    again: bool = False  # every second person comes with the need, and gets the offers, of the one before
    follows: bool = False  # the legacy makes offers more often after an episode that went well
    chance: float = 0.5  # of an offer by the legacy, in the next episode

    def run(self, episodes: int, count: bool = True) -> None:
        """Run so many more episodes, and count them."""
        for number in range(self.live.state.started, self.live.state.started + episodes):
            chance, before, source = stream(3, "served", number), 0, number - number % 2 if self.again else number
            needs = stream(3, "needs", source).random(VISITS)
            name = self.live.open_episode(f"open {number}", f"person-{number}")["episode"]
            items = []
            for visit in range(VISITS):
                draw = int(stream(3, "offers", source).random(VISITS)[visit] < 0.5)
                legacy = Legacy(distribution=[1.0 - self.chance, self.chance], **({"taken": draw} if self.again else {}))
                ask = Ask(level="visit", context={"need": float(needs[visit])}, legacy=legacy)
                answer = self.live.decide(f"{number} {visit}", name, ask)
                reward = 0.35 + 0.4 * chance.random() + 0.1 * answer["index"] - self.later * before
                items.append(Report(episode=name, decision=answer["decision"], reward=max(reward, 0.0)))
                before = answer["index"]
            self.live.report(f"results {number}", items)
            if self.follows:
                self.chance = 0.7 if sum(item.reward or 0.0 for item in items) > VISITS * 0.6 else 0.4
            self.live.close(f"close {number}", name)
            if count:
                self.count()

    def run_until(self, happened: Callable[[GateState], object], limit: int) -> None:
        """Run episodes, four at a time, until something has happened, and at most so many."""
        for _ in range(0, limit, 4):
            if happened(self.live.state.opened):
                return
            self.run(4)

    def count(self) -> None:
        while self.counting.once():
            pass

    @property
    def kinds(self) -> list[str]:
        return [record.body["event"]["kind"] for record in self.live.journal.read() if record.kind == EVENT]


def serve(store: Path, later: float = 0.0, again: bool = False, name: str = "visits", **settings: Any) -> Served:
    database = quick_database(store)
    live = LiveGate(database, name, Visits().problem, GateSettings.of({"upgrades": False, **settings}), 3)
    reading = GateStatus(live)
    live.start()
    counting = EpisodeCounter(live, Inline(_workshop(live)))
    return Served(live, counting, reading, later, again)


def _workshop(live: LiveGate) -> Trainer:
    """Return a workshop that has taken up the journal, as that of a process that was started again."""
    found = Trainer(live.problem, HOSTS["greedy"](), 3)
    state = LiveState(live.problem, on_counted=found.counted)
    for record in live.journal.read():
        state.apply(record)
    return found


def test_a_plant_with_carry_over_pauses_the_gate_and_an_operator_resumes_it(tmp_path: Path) -> None:
    plant = serve(tmp_path / "gate.db", later=0.3)
    plant.run(160)
    gate = plant.reading.gate()
    assert "flip" not in plant.kinds and gate["paused"].startswith("the audit refuses what it counts: level 'visit'")
    (refused,) = gate["audit"]["refused"]
    assert refused["code"] == "siblings-interfere" and "carry_over: within" in refused["fix"] and not gate["audit"]["doubted"]
    assert gate["promise"] == "" and plant.live.state.opened.challenges == ()
    shown = next(item for item in gate["events"] if item["kind"] == "paused")
    assert shown["code"] == "siblings-interfere" and shown["level"] == "visit"
    freezes = plant.live.state.opened.freeze
    plant.live.say("resume it", "resume", "ann", "the plant was mended")
    plant.later = 0.0
    plant.run_until(lambda gate: gate.deployed, 150)
    state = plant.live.state.opened
    assert state.paused is None and state.freeze > freezes and state.at("visit") is not None
    words = plant.reading.gate()["promise"]
    assert "since the gate was resumed by ann" in words and "at most 0.05, if what the audit found (siblings-interfere)" in words


@pytest.mark.ci
def test_a_clean_plant_changes_hands_and_what_is_done_again_does_not(tmp_path: Path) -> None:
    clean = serve(tmp_path / "clean.db")
    clean.run_until(lambda gate: gate.deployed, 180)
    clean.run(4)
    gate = clean.reading.gate()
    assert gate["paused"] is None and clean.live.state.opened.at("visit") is not None
    assert gate["promise"] == "Probability of any wrong handover: at most 0.05." and gate["episodes"]["aborted"] == 0
    assert gate["audit"]["noted"] == gate["audit"]["moved"] == [] and gate["levels"][0]["comparator"] == LOG_WRITER_WORDS
    again = serve(tmp_path / "again.db", again=True)
    again.run(150)
    assert [item["code"] for item in again.reading.gate()["audit"]["refused"]] == ["episodes-redone"]
    assert "flip" not in again.kinds


def test_a_legacy_that_follows_earlier_rewards_is_noted_in_status_and_events_and_does_not_stop_the_gate(tmp_path: Path) -> None:
    plant = serve(tmp_path / "gate.db", first=1000)
    plant.follows = True
    plant.run(260)
    gate = plant.reading.gate()
    assert gate["paused"] is None and gate["audit"]["refused"] == []
    assert gate["audit"]["noted"][-1]["code"] == "propensities-move"
    (words,) = gate["audit"]["moved"]
    assert "go with the reward before" in words and "over the average of a legacy that changes, not over one policy" in words
    assert gate["levels"][0]["comparator"] == AVERAGE_WORDS and "noted" in [item["kind"] for item in gate["events"]]
    plant.counting.worker = Inline(_workshop(plant.live))
    plant.run(1)
    events = [event_from_plain(record.body["event"]) for record in plant.live.journal.read() if "event" in record.body]
    assert replay_events(events) == plant.live.state.opened and plant.live.state.opened.moving == {"visit"}


def test_what_was_handed_over_names_the_average_if_the_legacy_moves(tmp_path: Path) -> None:
    plant = serve(tmp_path / "moves.db")
    plant.follows = True
    plant.run_until(lambda gate: gate.deployed, 180)
    (flip,) = [item for item in plant.reading.gate()["events"] if item["kind"] == "flip"]
    assert flip["comparator"] == AVERAGE_WORDS and "capped by it" in plant.reading.gate()["audit"]["moved"][0]


def test_a_doubt_that_has_passed_is_shown_no_more(tmp_path: Path) -> None:
    plant = serve(tmp_path / "gate.db", first=1000)
    plant.run(41)
    with plant.live.changed:
        delay = Postponed(41, "decisions carry over", "carry-over", "visit")
        plant.live._write([JournalEntry(EVENT, {"event": event_to_plain(delay)})])
    assert plant.reading.gate()["audit"]["put_off"]["code"] == "carry-over"
    plant.run(7)
    assert plant.reading.gate()["audit"]["put_off"] is None and plant.kinds[-1] == "doubt passed"


@pytest.mark.ci
def test_a_gate_that_was_stopped_and_started_again_decides_as_one_that_was_not(tmp_path: Path) -> None:
    whole = serve(tmp_path / "whole.db", later=0.3)
    whole.run(140)
    expected = [item for item in whole.kinds if item != "opened"]
    first = serve(tmp_path / "parts.db", later=0.3)
    for part in (50, 30, 20, 8, 32):  # the workshop forgets everything in between, and blocks are of any size
        first.run(part, count=part == 50)
        first.count()
        first.counting.worker = Inline(_workshop(first.live))
    assert first.kinds == expected and "paused" in expected
    events = [event_from_plain(record.body["event"]) for record in first.live.journal.read() if "event" in record.body]
    assert replay_events(events) == first.live.state.opened == whole.live.state.opened


@pytest.mark.ci
def test_what_is_approved_is_audited_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = serve(tmp_path / "gate.db", mode="approve")
    plant.run_until(lambda gate: gate.waiting, 120)
    assert plant.reading.gate()["levels"][0]["waiting"]
    audit = plant.live.audit
    monkeypatch.setattr("aegis.service.live_gate.PAUSE", 0.0)
    plant.live.audit = lambda gate: (False, NO_RESPONSE)
    with pytest.raises(Conflict, match="not audited yet"):
        plant.live.say("yes", "approve", "ann", "looks good", "visit")
    assert plant.live.state.opened.at("visit") is None and plant.kinds[-1] != "operator"
    plant.live.audit = lambda gate: (True, AuditResponse(Paused(0, "decisions carry over", "carry-over", "visit", "declare it")))
    answer = plant.live.say("yes", "approve", "ann", "looks good", "visit")
    assert answer["instead"] == "paused: decisions carry over" and plant.live.state.opened.at("visit") is None
    assert plant.kinds[-2:] == ["operator", "paused"]
    plant.live.audit = audit
    plant.live.say("again", "resume", "ann", "false alarm")
    plant.run_until(lambda gate: gate.waiting, 120)
    assert plant.live.say("yes now", "approve", "ann", "looks good", "visit")["instead"] is None
    assert plant.live.state.opened.at("visit") is not None


def test_episodes_that_break_off_are_counted_and_shown(tmp_path: Path) -> None:
    plant = make_plant(tmp_path / "gate.db", first=100)
    reading = GateStatus(plant.live)
    plant.run(2)
    name = plant.live.open_episode("open x", "broken")["episode"]
    plant.live.decide("ask x", name, Ask(level="meta", context={"T": 0.5}, legacy=Legacy(distribution=[1 / 3] * 3)))
    plant.count()
    assert reading.gate()["episodes"]["open"] == 1 and reading.gate()["episodes"]["aborted"] == 0
    plant.live.close("close x", name, abandoned=True, incomplete=True)
    plant.count()
    assert reading.gate()["episodes"]["aborted"] == 1


def test_gates_of_one_plant_in_one_store_are_counted(tmp_path: Path) -> None:
    first, second = serve(tmp_path / "gate.db", name="one"), serve(tmp_path / "gate.db", name="two", delta=0.02)
    third = serve(tmp_path / "gate.db", name="three")
    found = [item.reading.gate()["gates"] for item in (first, second, third)]
    assert [item["number"] for item in found] == [1, 2, 3] and found[0]["words"] == ""
    assert found[2]["risk"] == pytest.approx(0.12) and "This is gate 3 of this plant" in found[2]["words"]
    third.live.stop()
    again = serve(tmp_path / "gate.db", name="three")
    assert again.reading.gate()["gates"] == found[2]
    assert make_plant(tmp_path / "gate.db", name="another").live.count.number == 1


def test_a_clock_that_is_set_back_makes_no_gate_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class SetBack(datetime):
        """The time of day, two days too early."""

        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            """Return a wrong time."""
            return datetime.now(tz) - timedelta(days=2)

    first = serve(tmp_path / "gate.db", name="one")
    monkeypatch.setattr(journal, "datetime", SetBack)
    second = serve(tmp_path / "gate.db", name="two")
    found = [item.reading.gate()["gates"] for item in (first, second)]
    assert [item["number"] for item in found] == [1, 2] and found[1]["risk"] == pytest.approx(0.1)


def test_gates_whose_order_is_not_known_count_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gates = [serve(tmp_path / "gate.db", name=name) for name in ("one", "two")]
    openings = gate_writer.list_openings
    earlier = lambda database: {name: {**body, "place": None} for name, body in openings(database).items()}  # noqa: E731
    monkeypatch.setattr(gate_writer, "list_openings", earlier)  # as an earlier release has opened them
    assert [item.live.count.risk for item in gates] == pytest.approx([0.1, 0.1])
