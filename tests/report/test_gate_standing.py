"""The standing of a gate: its trajectory ends there, and evidence certifies exactly when the bound does."""

from __future__ import annotations

from dataclasses import replace

import pytest

from aegis.handover import Handover, apply_event, replay_events
from aegis.ope import reward_measure
from aegis.report import (
    challenge_bound,
    challenge_evidence,
    leading_challenge,
    level_standings,
)
from aegis.report.charts.handover_charts import flips_of
from aegis.report.gate_standing import replay_trajectory


def test_the_trajectory_ends_where_the_gate_stands(run: Handover) -> None:
    measure = reward_measure(run.problem)
    path = replay_trajectory(run.events, measure)
    last = path.bounds["meta"][-1][-1]
    ahead = leading_challenge(run.state, "meta", measure)
    assert ahead is not None and (last.episode, last.challenge, last.bound) == (90, ahead[0].name, ahead[1])
    assert ahead[1] == max(challenge_bound(item, measure) for item in run.state.challenges if item.level == "meta")  # type: ignore[type-var]
    courses = {course.name: course for course in path.courses}
    for item in run.state.challenges:
        assert courses[item.name].points[-1] == (90, challenge_evidence(item).share)
        assert courses[item.name].points[0] == (item.since - 1, 0.0)
    won = [course for course in path.courses if course.won]
    assert [course.level for course in won] == ["inner"] and won[0].points[-1][1] >= 1.0
    # The bound that was handed over at is on the line, in the phase that ends there.
    flip = flips_of(run.events)[0]
    end = path.bounds["inner"][0][-1]
    assert (end.episode, end.bound) == (flip.episode, pytest.approx(measure.gain(flip.gain_lower)))


def test_evidence_reaches_its_threshold_exactly_when_the_bound_exceeds_the_margin(run: Handover) -> None:
    measure = reward_measure(run.problem)
    state, seen = replay_events(run.events[:1]), set()
    for event in run.events[1:]:
        state = apply_event(state, event)
        for item in state.challenges:
            if item.units and item.crossed is None:
                share, bound = challenge_evidence(item).share, challenge_bound(item, measure)
                assert bound is not None
                assert (share >= 1.0) is (bound > 0.0) or share == pytest.approx(1.0, abs=1e-6)
                seen.add(share >= 1.0)
    assert seen == {True, False}


def test_the_claim_that_is_furthest_behind_counts(run: Handover) -> None:
    challenge = next(item for item in run.state.challenges if item.units)
    gain = challenge.claim("gain")
    behind = replace(gain, what="guard scrap", margin=gain.margin + 0.05)
    guarded = replace(challenge, claims=(*challenge.claims, behind))
    assert challenge_evidence(guarded).wealth < challenge_evidence(challenge).wealth
    ahead = replace(gain, what="guard scrap", margin=gain.margin - 0.05)
    assert challenge_evidence(replace(challenge, claims=(*challenge.claims, ahead))) == challenge_evidence(challenge)


def test_flips_are_looked_at_whatever_the_stations(run: Handover, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aegis.report.gate_standing.EARLY_LOOK_FACTOR", 1e9)
    path = replay_trajectory(run.events, reward_measure(run.problem), stations=1)
    assert [item.episode for item in path.bounds["inner"][0]] == [flips_of(run.events)[0].episode]


def test_standings_know_how_much_is_missing(run: Handover) -> None:
    measure = reward_measure(run.problem)
    inner, meta = level_standings(run.state, measure)
    assert (inner.level, inner.control, inner.leading) == ("inner", "agent", None)
    assert meta.control == "legacy" and meta.leading is not None and meta.leading.evidence is not None
    assert meta.leading.bound < meta.leading.margin and meta.leading.evidence.share < 1
