"""The arithmetic of certification against plain loops: what is certified, when, at which risk, by which numbers."""

from __future__ import annotations

import math
from dataclasses import replace

import hypothesis.strategies as st
import pytest
from gate_cases import ONE, REACH, frozen, gain, guard, propose, run, unit, value
from hypothesis import assume, given, settings

from aegis.evidence import Blend
from aegis.handover import Challenge, ChallengeCertified, ClaimState, Flipped, Paused, challenge_share, step
from aegis.handover.challenge import PartState
from aegis.handover.schedule import freeze_is_due

UNITS = 25
numbers = st.one_of(st.none(), st.integers(-2 * ONE, 2 * ONE)) | st.integers(0, ONE)


@st.composite
def parts(draw: st.DrawFn) -> tuple[PartState, ...]:
    """Draw the parts of a claim: bets with weights, each part with its offset."""
    found = []
    for _ in range(draw(st.integers(1, 3))):
        size, offset = draw(st.integers(1, 4)), draw(st.sampled_from([0.0, 0.5, 1.25]))
        top = 0.95 / REACH if offset < REACH else 8.0
        bets = tuple(draw(st.floats(0.05, top)) for _ in range(size))
        raw = [draw(st.floats(0.1, 1.0)) for _ in range(size)]
        found.append(PartState(offset, bets, tuple(math.log(one / sum(raw)) for one in raw), (0,) * size))
    return tuple(found)


def naive_log_wealth(claim: ClaimState, units: list[tuple[tuple[int | None, ...], ...]]) -> float:
    """Return the log of the average over parts of sum_j p_j prod_k E_kj / (1 + bet_j (margin + offset)), by plain loops."""
    total = 0.0
    for place, part in enumerate(claim.parts):
        wealth = 0.0
        for j, bet in enumerate(part.bets):
            own = math.exp(part.log_weights[j])
            for logs in units:
                log = logs[place][j]
                own *= 0.0 if log is None else math.exp(log / ONE) / (1.0 + bet * (claim.margin + part.offset))
            wealth += own
        total += wealth / len(claim.parts)
    return math.log(total) if total > 0 else -math.inf


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_crossing_is_that_of_plain_loops(data: st.DataObject):
    margin, worsening = data.draw(st.sampled_from([0.0, 0.02, 0.1])), data.draw(st.sampled_from([0.0, 0.05]))
    claims = [replace(gain(), margin=margin, parts=data.draw(parts())), value()]
    if data.draw(st.booleans()):
        claims.append(replace(guard(), margin=-worsening, parts=data.draw(parts())))
    state, _ = frozen(propose("dose", 2.0, *claims), propose("dose", 3.0), delta=0.4, patience=1, first=UNITS)
    drift = data.draw(st.integers(0, ONE))  # in favour, so that there is something to cross
    tested = [claim for claim in state.challenge("1-dose-2").claims if claim.what != "value"]
    risk = 0.4 * 6 / math.pi**2 / 2 / len(tested)
    seen: dict[str, list[tuple[tuple[int | None, ...], ...]]] = {claim.what: [] for claim in tested}
    for count in range(1, UNITS + 1):
        following = unit(state, lambda item, what: 0.0)
        own = dict(following.evidence["1-dose-2"])
        for claim in tested:
            drawn = [tuple(data.draw(numbers) for _ in part.bets) for part in claim.parts]
            own[claim.what] = tuple(tuple(None if one is None else one + drift for one in logs) for logs in drawn)
            seen[claim.what].append(own[claim.what])
        state, told = step(state, replace(following, evidence={**following.evidence, "1-dose-2": own}))
        logs = [naive_log_wealth(claim, seen[claim.what]) for claim in tested]
        assume(all(abs(log - math.log(1 / risk)) > 1e-7 for log in logs))
        crossed = all(log >= math.log(1 / risk) for log in logs)
        assert [event for event in told if isinstance(event, ChallengeCertified | Paused)] == [] or crossed
        if crossed:
            assert isinstance(told[1], ChallengeCertified | Paused)
            if isinstance(told[1], ChallengeCertified):
                assert (told[1].challenge, told[1].units) == ("1-dose-2", count)
                assert told[1].gain_lower >= margin
            else:
                assert "contradicts" in told[1].why
            return


@settings(max_examples=100, deadline=None)
@given(found=parts(), count=st.integers(1, 50), margin=st.sampled_from([-0.2, 0.0, 0.1]), data=st.data())
def test_the_quick_look_never_hides_a_crossing(found: tuple[PartState, ...], count: int, margin: float, data: st.DataObject):
    sums = [tuple(data.draw(numbers) for _ in part.bets) for part in found]
    filled = tuple(
        replace(part, sums=tuple(None if one is None else one * count // 3 for one in own))
        for part, own in zip(found, sums, strict=True)
    )
    claim = replace(gain(), margin=margin, parts=filled, count=count)
    exact = Blend(tuple(part.sketch(count) for part in filled), tuple(part.offset for part in filled)).log_wealth(margin)
    assert claim.log_evidence == exact
    assert max(part.at_most(count, margin) for part in filled) >= exact - 1e-9
    for nudge in (-1e-9, 0.0, 1e-9, 1.0, -1.0):
        delta = math.exp(-exact - nudge) if abs(exact) < 300 else 0.1
        if 0 < delta < 1:
            assert replace(claim, delta=delta).certified == (exact >= math.log(1.0 / delta))


def test_risk_is_shared_among_challenges_and_among_gain_and_guards():
    claims = [gain(), value(), guard("guard a"), guard("guard b")]
    state, _ = frozen(propose("dose", 2.0, *claims), propose("dose", 3.0), delta=0.05, alarm_floor=0.02)
    whole = 0.05 * 6 / math.pi**2 / 2
    first, second = state.challenges
    assert [claim.delta for claim in first.claims if claim.what != "value"] == [pytest.approx(whole / 3)] * 3
    assert second.claim("gain").delta == pytest.approx(whole)
    assert first.claim("value").delta == pytest.approx(0.02 * 6 / math.pi**2 / 2)
    assert state.spent == pytest.approx(2 * whole)
    assert challenge_share(0.05, state.freeze + 1, 2) / 3 == pytest.approx(0.05 * 6 / math.pi**2 / 4 / 2 / 3)


def test_upgrades_and_handovers_of_one_freeze_share_its_risk():
    proposed = [propose("dose", 2.0), propose("dose", 3.0), propose("recipe", 2.0)]
    state, _ = frozen(proposed[0], levels=("dose", "recipe"), first=10, delta=0.5, patience=1)
    while not freeze_is_due(state) or not state.deployed:
        state = run(state, 1, lambda item, what: 0.45)
    before = state.spent
    state, _ = step(state, proposed)
    risks = {item.name: item.claim("gain").delta for item in state.challenges}
    assert [item.kind for item in state.challenges] == ["upgrade", "upgrade", "handover"]
    assert sum(risks.values()) == pytest.approx(0.5 * 6 / math.pi**2 / 4)
    assert risks["2-dose-2"] == risks["2-dose-3"]
    assert state.spent == pytest.approx(before + sum(risks.values()))


def first_crossing(values: dict[str, float], *claims: ClaimState, units: int = 30) -> int | None:
    """Return after how many units a challenger is certified."""
    state, events = frozen(propose("dose", 2.0, *claims), first=40, patience=1)
    run(state, units, lambda item, what: values[what], events)
    return next((event.units for event in events if isinstance(event, ChallengeCertified)), None)


def test_a_guard_that_worsens_holds_a_gain_back_and_a_value_never_does():
    claims = (gain(), value(), guard())
    good = {"gain": 0.45, "value": 0.9, "guard scrap": 0.4}
    alone = first_crossing(good, *claims[:2])
    assert alone is not None
    assert first_crossing({**good, "value": 0.0}, *claims[:2]) == alone
    with_guard = first_crossing(good, *claims)
    assert with_guard is not None
    assert with_guard > alone  # the risk is shared
    assert first_crossing({**good, "guard scrap": -0.2}, *claims) is None


def test_a_margin_is_to_be_exceeded():
    assert first_crossing({"gain": 0.3, "value": 0.0}, gain(0.1), value()) is not None
    assert first_crossing({"gain": 0.3, "value": 0.0}, gain(0.35), value()) is None


def test_margins_outside_what_can_be_need_no_data_or_never_hold():
    values = {"gain": 0.45, "value": 0.0, "guard scrap": -0.45}
    wide = guard(margin=-0.7)  # whatever the challenger does, the guard cannot worsen by so much
    alone = first_crossing(values, gain(), value(), guard(margin=-0.1))
    assert alone is None
    assert first_crossing(values, gain(), value(), wide) is not None
    assert first_crossing(values, gain(REACH), value()) is None
    assert first_crossing(values, gain(2.0), value()) is None
    assert not replace(gain(REACH), parts=(PartState(0.0, (1.0,), (0.0,), (90 * ONE,)),), count=1).certified
    # A value that no cap allows kills bets: the range that a wide margin rests on does not hold.
    assert first_crossing({**values, "guard scrap": -0.9}, gain(), value(), wide) is None


def test_a_challenger_that_does_the_same_is_never_certified():
    same = replace(gain(), parts=())
    state, _ = frozen(propose("dose", 2.0, same, value()), first=30, delta=0.9)
    state = run(state, 20, lambda item, what: 0.45)
    challenge = state.challenges[0]
    assert (challenge.units, challenge.certified, challenge.claim("gain").lower) == (20, False, -REACH)
    assert challenge.claim("gain").log_evidence == -math.inf


def test_a_challenger_whose_bets_are_all_dead_is_never_certified():
    one = replace(gain(), parts=(PartState(0.0, (1.5,), (0.0,), (0,)),))
    state, _ = frozen(propose("dose", 2.0, one, value()), first=30, delta=0.9)
    state = run(state, 1, lambda item, what: -0.9)
    state = run(state, 20, lambda item, what: 0.45)
    assert state.challenges[0].claim("gain").parts[0].sums == (None,)
    assert state.challenges[0].claim("gain").log_evidence == -math.inf
    assert state.deployed == ()


def test_evidence_that_cannot_be_pauses_the_gate_and_hands_nothing_over():
    state, events = frozen(delta=0.5, patience=1)

    def impossible(item: Challenge, what: str) -> float:
        return 20.0 if what == "gain" else 0.5

    while state.paused is None and state.episode < 20:
        state = run(state, 1, impossible, events)
    assert "contradicts what it rests on: the data certify a mean above 0.5" in str(state.paused)
    assert not any(isinstance(event, ChallengeCertified | Flipped) for event in events)
    after = run(state, 5, impossible)
    assert (after.episode, after.deployed) == (state.episode + 5, ())
    assert [item.units for item in after.challenges] == [item.units for item in state.challenges]
