"""The gate audits what it certifies from: it pauses on what would refuse a log, puts off what is in doubt, and says so."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from visits_plant import Learning, Visits, gate

from aegis.audit import CODES, Auditor, make_finding
from aegis.errors import InputError
from aegis.handover import (
    HOSTS,
    AuditNote,
    ChallengeCertified,
    DoubtPassed,
    Flipped,
    Frozen,
    GateSettings,
    Handover,
    OperatorAction,
    Paused,
    Postponed,
    Restarted,
    StreamAudit,
    UnitCounted,
    apply_event,
    events_table,
    is_audit_due,
    make_gate,
    read_events,
    replay_events,
    run_in_folder,
    standing_postponement,
    summarise_run,
)
from aegis.handover.stream_audit import ALPHA, CHUNK, PAUSING, STATED, UNSTATED, pauses_gate
from aegis.ope.comparator import AVERAGE_WORDS, LOG_WRITER_WORDS
from aegis.report import render_handover

ANN = ("ann", "carry-over is declared now")


def flips(run: Handover) -> list[Flipped]:
    return [event for event in run.events if isinstance(event, Flipped)]


def stops(run: Handover) -> list[Paused]:
    return [event for event in run.events if isinstance(event, Paused)]


@pytest.mark.parametrize(
    ("plant", "code"),
    [
        (Visits(later=0.3), "carry-over"),
        (Visits(redone=True), "episodes-redone"),
        (Visits(drawn=0.15), "miscalibrated-propensities"),
        (Visits(across=0.5), "episodes-interfere"),
    ],
)
def test_a_plant_that_is_not_as_declared_stops_the_gate_before_anything_changes_hands(plant: Visits, code: str) -> None:
    run = gate(plant, seed=2)
    run.advance(400)
    assert not flips(run) and not run.deployed
    (stop,) = stops(run)
    assert stop.code == code and stop.level == "visit" and stop.fix == CODES[code].fix
    assert run.state.paused == stop.why and not run.state.challenges
    found = summarise_run(run)
    assert "Probability of any wrong handover" not in found["sentence"]
    assert f"The gate is paused: {stop.why}" in found["sentence"] and CODES[code].fix in found["sentence"]
    assert [item["code"] for item in found["audit"]["refused"]] == [code]
    later = [event for event in run.events if isinstance(event, UnitCounted) and event.episode > stop.episode]
    assert later and not any(event.evidence for event in later)


def test_the_same_plant_as_declared_changes_hands_and_never_pauses() -> None:
    run = gate(Visits(), seed=2)
    run.advance(400)
    assert [event.level for event in flips(run)] == ["visit"] and not stops(run)
    assert "Probability of any wrong handover: at most 0.05." in summarise_run(run)["sentence"]


def doubted(run: Handover) -> Postponed:
    """Put off what the next decision of a run would be, as if the audit had some evidence."""
    delay = Postponed(run.state.episode, "decisions carry over", "carry-over", "visit")
    run.state = apply_event(run.state, delay)
    run.events.append(delay)
    return delay


def test_a_doubt_that_has_passed_is_shown_no_more_although_nothing_is_decided() -> None:
    run = gate(Visits(now=0.0), seed=2)
    run.advance(41)
    delay = doubted(run)
    run.advance(47)
    assert run.state.put_off == delay and "put off since episode 41" in summarise_run(run)["sentence"]
    run.advance(48)  # the next multiple of eight
    assert run.events[-1] == DoubtPassed(48, "carry-over", "visit")
    assert run.state.put_off is None and summarise_run(run)["audit"]["put_off"] is None
    assert "put off" not in summarise_run(run)["sentence"] and replay_events(run.events) == run.state
    assert ">doubt passed<" in render_handover(run).lower()
    again = gate(Visits(now=0.0), seed=2)
    again.advance(200)
    assert not any(isinstance(event, DoubtPassed | Postponed) for event in again.events)


def test_a_doubt_that_has_passed_does_not_hold_up_a_periodic_gate() -> None:
    plant = Visits(now=0.0)
    run = make_gate("pac-bayes", plant, plant.legacy, gate(plant).host, None, 2)
    run.advance(40)
    run._happened(Postponed(40, "decisions carry over", "carry-over", "visit"))
    run.advance(51)
    assert run.state.put_off is None and DoubtPassed(50, "carry-over", "visit") in run.events


def moving_gate(follows: bool, stated: bool = False) -> Handover:
    """Return a gate on visits whose legacy learns; no challengers are frozen."""
    plant = Learning(now=0.0, follows=follows, stated=stated)
    return Handover(plant, plant.legacy, HOSTS["greedy"](), GateSettings(first=1000), 5)


def test_a_legacy_that_follows_earlier_rewards_is_noted_and_changes_what_a_gain_is_over() -> None:
    run = moving_gate(follows=True)
    run.advance(280)
    notes = [event for event in run.events if isinstance(event, AuditNote)]
    assert notes[-1].code == "propensities-move" and notes[-1].level == "visit" and not stops(run)
    found = summarise_run(run)
    assert f"Found after episode {notes[-1].episode}: at like contexts the logged probabilities" in found["sentence"]
    assert "Gains at 'visit' are over the average of a legacy that changes, not over one policy." in found["sentence"]
    assert found["levels"][0]["comparator"] == AVERAGE_WORDS and found["audit"]["noted"][-1]["fix"] == UNSTATED
    assert found["sentence"].count("Found after episode") == 1
    assert ">noted<" in render_handover(run).lower() and replay_events(run.events) == run.state


def test_over_a_stated_incumbent_a_legacy_that_moves_changes_nothing() -> None:
    run = moving_gate(follows=True, stated=True)
    run.advance(280)
    assert run.state.moving == {"visit"}
    found = summarise_run(run)
    assert "Gains at 'visit' over the stated incumbent hold all the same" in found["sentence"]
    assert found["levels"][0]["comparator"].startswith("the incumbent (") and found["audit"]["noted"][-1]["fix"] == STATED


def test_a_legacy_that_stays_as_it_is_is_not_noted() -> None:
    run = moving_gate(follows=False)
    run.advance(280)
    assert not run.state.notes and "Found after" not in summarise_run(run)["sentence"]
    assert summarise_run(run)["levels"][0]["comparator"] == LOG_WRITER_WORDS


def test_shared_capacity_that_is_seen_after_the_handover_pauses_the_gate_and_asks_for_a_revert() -> None:
    run = gate(Visits(shared=0.3, visits=1), seed=3, caps=[1.5])
    run.advance(1400)
    (flip,), (stop,) = flips(run), stops(run)
    assert stop.episode > flip.episode and stop.code == "neighbours-interfere" and run.state.deployed[0].doubted
    words = summarise_run(run)["sentence"]
    assert "after the handover the audit found that an assumption is broken (neighbours-interfere)" in words
    assert "Give 'visit' back to the legacy (revert)." in words and "Probability of any wrong handover" not in words


def test_a_capacity_that_no_audit_can_see_any_more_shows_in_the_mean_and_is_named() -> None:
    run = gate(Visits(shared=0.15), seed=1)
    run.advance(500)
    assert flips(run) and not stops(run)
    words = summarise_run(run)["sentence"]
    assert "Since the handover the mean reward is" in words and "Give 'visit' back to the legacy (revert)" in words
    clean = gate(Visits(), seed=1)
    clean.advance(500)
    assert flips(clean) and "Since the handover" not in summarise_run(clean)["sentence"]


def test_what_is_certified_in_doubt_is_put_off_until_the_audit_has_decided() -> None:
    run = gate(Visits(later=0.2), seed=4)
    run.advance(90)
    (delay,) = [event for event in run.events if isinstance(event, Postponed)]
    assert delay.code == "carry-over" and run.state.put_off == delay and not run.state.waiting
    assert not any(isinstance(event, ChallengeCertified | Flipped) for event in run.events)
    assert f"put off since episode {delay.episode}" in summarise_run(run)["sentence"]
    run.advance(200)
    assert stops(run) and run.state.put_off is None


def test_the_audit_looks_at_everything_a_flip_rests_on(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, bool]] = []
    ask = StreamAudit.asked

    def noted(self: StreamAudit, *given: object, **more: object) -> object:
        found = ask(self, *given, **more)  # type: ignore[arg-type]
        asked.append((self.episodes + bool(given), self._latest is not None))
        return found

    monkeypatch.setattr(StreamAudit, "asked", noted)
    run = gate(Visits(), seed=2)
    run.advance(200)
    (flip,) = flips(run)
    assert flip.episode % CHUNK and (flip.episode, True) in asked
    assert run._audit.segment == 2 and run._audit.episodes == 200 - flip.episode


def test_approval_is_audited_too() -> None:
    run = gate(Visits(), seed=2, mode="approve")
    run.advance(110)
    assert run.state.waiting
    broken = Visits(later=0.4)
    for number in range(110, 260):  # as if the plant had changed since, with no chunk full in between
        run._audit.add(broken.episodes(number, 1, run.legacy, 2), 0)
    told = run.say(OperatorAction("approve", "ann", "looks good", 0, "visit"))
    assert [type(event) for event in told] == [OperatorAction, Paused] and told[1].code == "carry-over"  # type: ignore[union-attr]
    assert not run.deployed and not run.state.waiting


def test_a_resumed_gate_tests_anew_on_later_episodes_at_the_next_share_of_the_risk() -> None:
    run = gate(Visits(later=0.3), seed=2)
    run.advance(200)
    (stop,) = stops(run)
    before = run.state.freeze
    with pytest.raises(InputError, match="who and why"):
        run.say(OperatorAction("resume", "ann", " ", 0))
    run.plant = Visits()
    told = run.say(OperatorAction("resume", *ANN, 0))
    assert isinstance(told[1], Restarted) and told[1].since == 201 and run.state.paused is None
    run.advance(400)
    again = [event for event in run.events if isinstance(event, Frozen) and event.episode >= 200]
    assert again[0].freeze == before + 1 and all(item.since > 200 for event in again for item in event.challenges)
    (flip,) = flips(run)
    words = summarise_run(run)["sentence"]
    assert flip.episode > 200 and "since the gate was resumed by ann, from episode 201 on: at most 0.05, if" in words
    assert "Probability of any wrong handover: at most" not in words and "Nothing is promised" not in words
    assert run._audit.segment == 3 and run._audit.alpha == pytest.approx(ALPHA * 6 / (math.pi * 3) ** 2)
    assert len(run.state.refusals) == 1 and run.state.refusals[0] == stop


def test_nothing_is_promised_of_what_was_handed_over_before_the_audit_refused() -> None:
    run = gate(Visits(), seed=2)
    run.advance(150)
    (flip,) = flips(run)
    run.plant = Visits(drawn=-0.3)
    run.advance(700)
    (stop,) = stops(run)
    assert stop.code == "miscalibrated-propensities" and run.state.at("visit") is not None
    assert run.state.deployed[0].doubted and run.deployed
    found = summarise_run(run)
    assert "Probability of any wrong handover" not in found["sentence"]
    assert f"Nothing is promised about what was handed over up to episode {stop.episode}" in found["sentence"]
    page = render_handover(run)
    assert "Paused" in page and stop.why.replace("'", "&#39;") in page and "not bounded" in page
    run.say(OperatorAction("resume", *ANN, 0))
    assert "Nothing is promised" in summarise_run(run)["sentence"] and ">In doubt<" in render_handover(run)
    run.say(OperatorAction("revert", *ANN, 0, "visit"))
    assert "Nothing is promised" not in summarise_run(run)["sentence"]
    assert replay_events(run.events) == run.state and flip in run.events


def test_the_answer_depends_on_the_episodes_and_not_on_the_blocks_they_come_in() -> None:
    whole = gate(Visits(later=0.2), seed=3)
    whole.advance(200)
    pieces = gate(Visits(later=0.2), seed=3)
    for stop in (*range(1, 30, 5), 64, 90, 91, 127, 128, 129, 200):
        pieces.advance(stop)
    assert whole.events == pieces.events and stops(whole)


@pytest.mark.ci
def test_a_run_with_pauses_is_replayed_restored_and_told_from_an_edited_one(tmp_path: Path) -> None:
    plant = Visits(later=0.3)
    first = gate(plant, seed=2)
    run_in_folder(tmp_path / "run", first, 200)
    path = tmp_path / "run" / "events.jsonl"
    assert replay_events(read_events(path)) == first.state and first.state.paused
    again = gate(plant, seed=2)
    run_in_folder(tmp_path / "run", again, 260, actions=[OperatorAction("resume", *ANN, 0)])
    assert again.state.paused is None and again.events[: len(first.events)] == first.events
    lines = path.read_bytes().splitlines(keepends=True)
    stop = next(place for place, line in enumerate(lines) if b'"kind": "paused"' in line)
    for kept in (stop, len(lines)):  # killed before the pause was written, and much later
        other = gate(plant, seed=2)
        other.restore(read_events(path)[:kept])
        assert other.events == again.events[: len(other.events)]
        assert isinstance(other.events[stop], Paused)
    edited = read_events(path)
    edited[stop] = replace(stops(first)[0], code="actions-held")  # type: ignore[assignment]
    with pytest.raises(InputError, match=f"line {stop + 1} of the events"):
        gate(plant, seed=2).restore(edited)
    without = [event for event in read_events(path) if not isinstance(event, Paused)]
    with pytest.raises(InputError, match=f"line {stop + 1} of the events"):
        gate(plant, seed=2).restore(without)


def test_events_tables_hold_what_the_audit_found() -> None:
    run = gate(Visits(later=0.2), seed=4)
    run.advance(200)
    rows = {row["kind"]: row for row in events_table(run.events).to_pylist()}
    assert rows["put off"]["code"] == "carry-over" and rows["paused"]["code"] == "siblings-interfere"
    assert rows["paused"]["level"] == "visit" and rows["paused"]["fix"] == CODES["siblings-interfere"].fix


def test_the_pac_bayes_gate_audits_before_it_looks() -> None:
    plant = Visits(later=0.3)
    run = make_gate("pac-bayes", plant, plant.legacy, gate(plant).host, None, 2)
    run.advance(200)
    assert [event.code for event in run.events if isinstance(event, Paused)] == ["carry-over"] and not run.deployed
    looks = run.looks
    stop = next(event.episode for event in run.events if isinstance(event, Paused))
    assert all(look.episode < stop for look in looks)


def test_only_tests_that_hold_at_every_time_pause_a_gate() -> None:
    assert set(PAUSING) - {"siblings-interfere"} <= set(CODES)
    for code in ("size-follows-reward", "few-units", "deterministic-level", "reward-repeated"):
        assert not pauses_gate(make_finding(code, "refused", "x", log10_evidence=99.0), ALPHA)
    scores = make_finding("miscalibrated-propensities", "refused", "x", score=9.0)
    assert not pauses_gate(scores, ALPHA) and pauses_gate(replace(scores, figures={"log10_evidence": 4.0}), ALPHA)
    assert not pauses_gate(make_finding("carry-over", "warning", "x", log10_evidence=9.0), ALPHA)
    paired = make_finding("episodes-interfere", "refused", "x", log10_evidence=10.0, bets=8.0)
    assert not pauses_gate(paired, ALPHA) and pauses_gate(replace(paired, figures={"log10_evidence": 12.0, "bets": 8.0}), ALPHA)
    assert pauses_gate(replace(paired, figures={"log10_evidence": 5.0, "bets": 8.0, "overlap": 1.0}), ALPHA)


def test_the_shares_of_all_segments_together_stay_within_alpha() -> None:
    audit, spent = StreamAudit(Visits().problem), 0.0
    for _ in range(2000):
        spent += audit.alpha
        audit.start(audit.segment + 1)
    assert 0.999 * ALPHA < spent < ALPHA


def test_cuts_are_placed_by_a_fixed_number_of_episodes() -> None:
    plant = Visits()
    batch = plant.episodes(0, 90, plant.legacy, 1)
    for count in (20, 90):
        auditor = Auditor(plant.problem)
        auditor.place(batch.take_episodes(np.arange(count)), 12)
        cuts = auditor._cuts
        assert cuts is not None and cuts.used == 12
        assert cuts.context["visit"][0].edge == float(np.median(batch.levels["visit"].context["need"][:48]))


@pytest.mark.parametrize("arm", ["legacy", "before", "overruled"])
def test_a_unit_that_is_not_audited_decides_nothing_without_the_audit(arm: str) -> None:
    run = gate(Visits(), seed=2)
    run.advance(20)
    state, decided = replace(run.state, put_off=None), [ChallengeCertified("1-visit-2", "visit", 21, 12, 0.1)]
    unit = UnitCounted(21, 0.5, arm, {})
    assert not state.audits(unit) and is_audit_due(state, unit, decided) and not is_audit_due(state, unit, [])
    doubted = replace(state, put_off=Postponed(20, "for a test", "some-code", "visit"))
    assert not is_audit_due(doubted, unit, decided)
    assert standing_postponement(doubted, decided).instead == doubted.put_off
    assert standing_postponement(doubted, []).instead is None
