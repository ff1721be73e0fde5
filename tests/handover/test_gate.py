"""What a gate does not take: an error that says what was found, and nothing changes."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from gate_cases import frozen, gain, guard, nothing, opened, propose, run, through_json, unit, value

from aegis.errors import InputError, SettingError
from aegis.handover import (
    ClaimState,
    GateState,
    OperatorAction,
    Paused,
    apply_event,
    challenge_share,
    step,
)
from aegis.handover.challenge import PartState
from aegis.handover.risk_budget import freeze_share


def refuse(state: GateState, given: object, match: str, started: int | None = None) -> None:
    """Check that a gate does not take something."""
    with pytest.raises(InputError, match=match):
        step(state, given, started)  # type: ignore[arg-type]


def with_parts(claim: ClaimState, **changes: object) -> ClaimState:
    """Return a claim whose part is changed."""
    return replace(claim, parts=(replace(claim.parts[0], **changes),))  # type: ignore[arg-type]


# ---- units -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"episode": 1}, "expected episode 2, found 1"),
        ({"episode": 3}, "expected episode 2, found 3"),
        ({"episode": -2}, "expected episode 2"),
        ({"reward": 1.0000001}, "between 0 and 1"),
        ({"reward": -0.1}, "between 0 and 1"),
        ({"reward": math.nan}, "between 0 and 1"),
        ({"reward": math.inf}, "between 0 and 1"),
        ({"reward": "0.5"}, "between 0 and 1"),
        ({"reward": True}, "between 0 and 1"),
        ({"arm": "agents"}, "did you mean 'agent'"),
        ({"evidence": {}}, "expected evidence for the challenges .'1-dose-2'."),
        ({"arm": "mixed"}, "expected evidence for the challenges .., found"),
        ({"arm": "legacy", "evidence": {}}, "left to 'legacy': that takes a 'holdback'"),
    ],
)
def test_units_that_cannot_be(changes: dict[str, object], match: str):
    state, _ = frozen()
    refuse(state, replace(unit(state, nothing), **changes), match)


def test_evidence_that_does_not_fit_its_tests():
    state, _ = frozen()
    good = unit(state, nothing)
    own = good.evidence["1-dose-2"]
    logs = own["gain"][0]
    for wrong, match in [
        ({"gain": own["gain"]}, r"bets .'gain': .14.., by claim, and .'gain': .14., 'value': .2.. were"),
        ({**own, "guard scrap": own["gain"]}, r"'guard scrap': .14.., by claim"),
        ({"value": own["value"], "other": own["gain"]}, r"'other': .14.., by claim"),
        ({**own, "gain": ()}, r"'gain': \[\], .* were frozen"),
        ({**own, "gain": own["gain"] * 2}, r"'gain': .14, 14., .* were frozen"),
        ({**own, "gain": (logs[:-1],)}, r"'gain': .13., .*'gain': .14., .* were frozen"),
        ({**own, "gain": ((*logs, 0),)}, r"'gain': .15., .*'gain': .14., .* were frozen"),
        ({**own, "gain": ((0.5, *logs[1:]),)}, "whole numbers"),
        ({**own, "gain": ((True, *logs[1:]),)}, "whole numbers"),
        ({**own, "value": ((math.nan, 0),)}, "whole numbers"),
        ({**own, "gain": ((2**62 + 1, *logs[1:]),)}, "beyond 2"),
        ({**own, "gain": ((-(2**63), *logs[1:]),)}, "beyond 2"),
    ]:
        refuse(state, replace(good, evidence={"1-dose-2": wrong}), match)
    largest = {**own, "gain": ((-(2**62), None, *logs[2:]),)}
    after, events = step(state, replace(good, evidence={"1-dose-2": largest}))
    assert apply_event(state, through_json(events[0])) == after


def test_evidence_of_units_that_were_in_flight_at_the_freeze():
    state, _ = opened()
    state = run(state, 1, nothing)
    state, _ = step(state, [propose("dose", 2.0)], started=4)
    early = unit(state, nothing)
    assert early.evidence == {}
    late = replace(early, evidence={"1-dose-2": {}})
    refuse(state, late, "expected evidence for the challenges ..")
    with pytest.raises(InputError, match="started before"):
        apply_event(state, late)
    state = run(state, 3, nothing)
    assert state.challenge("1-dose-2").units == 0
    refuse(state, replace(unit(state, nothing), evidence={}), "expected evidence for the challenges .'1-dose-2'")
    assert run(state, 1, nothing).challenge("1-dose-2").units == 1


@pytest.mark.parametrize("said", [0, 1, 3])
def test_no_fewer_episodes_have_started_than_is_known(said: int):
    state, _ = opened()
    state = run(state, 1, nothing)
    state, _ = step(state, [propose("dose", 2.0)], started=4)
    refuse(state, unit(state, nothing), "4 are known to have", said)
    refuse(state, OperatorAction("pause", "ann", "fire", 0), "4 are known to have", said)


# ---- freezing ----------------------------------------------------------------------------------------------------------------


def test_freezes_that_are_not_due():
    state, _ = opened(first=2)
    state = run(state, 1, nothing)
    refuse(state, [propose("dose", 2.0)], "due after episode 2")
    state = run(state, 1, nothing)
    paused, _ = step(state, Paused(0, "no data"))
    refuse(paused, [propose("dose", 2.0)], "no data")
    state, _ = step(state, [propose("dose", 2.0)])
    refuse(state, [propose("dose", 2.0)], "due after episode 4")


@pytest.mark.parametrize(
    ("claims", "match"),
    [
        ((value(),), "claims one gain"),
        ((gain(), gain()), "at most once"),
        ((gain(), guard("guard a"), guard("guard a")), "at most once"),
        ((replace(gain(), count=1),), "starts without evidence"),
        ((with_parts(gain(), sums=(1, *gain().parts[0].sums[1:])),), "starts without evidence"),
        ((with_parts(gain(), sums=(None, *gain().parts[0].sums[1:])),), "starts without evidence"),
        ((with_parts(gain(), log_weights=(0.0,) * 14),), "sum to at most one"),
        ((with_parts(gain(), log_weights=(math.nan,) * 14),), "sum to at most one"),
        ((with_parts(gain(), log_weights=gain().parts[0].log_weights[1:]),), "one weight each"),
        ((with_parts(gain(), bets=(0.0, *gain().parts[0].bets[1:])),), "bets above 0"),
        ((with_parts(gain(), bets=(math.inf, *gain().parts[0].bets[1:])),), "bets above 0"),
        ((with_parts(gain(), bets=(), log_weights=(), sums=()),), "bets above 0"),
        ((with_parts(gain(), sums=(0,)),), "one weight each"),
        ((replace(gain(), low=-0.6),), "cannot cover means in"),
        ((replace(gain(), low=0.5),), "cannot cover means in"),
        ((replace(gain(), margin=math.nan),), "finite 'margin', found nan"),
        ((replace(gain(), margin=-math.inf),), "finite 'margin', found -inf"),
        ((replace(gain(), high=math.inf),), "finite 'high', found inf"),
        ((with_parts(gain(), offset=math.nan),), "cannot cover means in"),
    ],
)
def test_challengers_whose_tests_are_not_tests(claims: tuple[ClaimState, ...], match: str):
    state, _ = opened()
    refuse(run(state, 1, nothing), [propose("dose", 2.0, *claims)], match)


def test_challengers_that_cannot_be_told_apart_or_have_no_place():
    state, _ = opened()
    state = run(state, 1, nothing)
    refuse(state, [propose("dose", 2.0), propose("dose", 2.0, policy="another")], "differ in level or cap")
    refuse(state, [propose("dosis", 2.0)], "did you mean 'dose'")
    refuse(state, [propose("dose", math.nan)], "number from 1")
    refuse(state, [propose("dose", 0.5)], "number from 1")


def test_no_upgrades_where_there_are_to_be_none():
    state, _ = frozen(delta=0.5, patience=1, upgrades=False)
    state = run(state, 12, lambda item, what: 0.45)
    assert state.at("dose") is not None
    refuse(run(state, 1, nothing), [propose("dose", 2.0)], "makes no upgrades")


# ---- operators ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (OperatorAction("stop", "ann", "fire", 0), "unknown action"),
        (OperatorAction("pause", "", "fire", 0), "says who and why"),
        (OperatorAction("pause", "ann", "\t ", 0), "says who and why"),
        (OperatorAction("resume", "ann", "fire", 0), "not paused"),
        (OperatorAction("revert", "ann", "fire", 0), "names a level of dose"),
        (OperatorAction("revert", "ann", "fire", 0, "dosis"), "did you mean 'dose'"),
        (OperatorAction("revert", "ann", "fire", 0, "dose"), "controlled by the legacy"),
        (OperatorAction("approve", "ann", "fine", 0), "names a level of dose"),
        (OperatorAction("approve", "ann", "fine", 0, "dose"), "mode 'live'"),
        (Paused(0, ""), "says why"),
    ],
)
def test_what_operators_cannot_do(said: object, match: str):
    state, _ = frozen()
    refuse(state, said, match)


def test_nothing_to_approve():
    state, _ = frozen(mode="approve", delta=0.5, patience=1)
    approve = OperatorAction("approve", "ann", "fine", 0, "dose")
    refuse(state, approve, "no certified flip of level 'dose' waits")
    state = run(state, 12, lambda item, what: 0.45)
    assert [item.level for item in state.waiting] == ["dose"]
    paused, _ = step(state, Paused(0, "no data"))
    refuse(paused, approve, "resume it first")
    resumed, _ = step(paused, OperatorAction("resume", "ann", "data again", 0))
    refuse(resumed, approve, "no certified flip")
    shadow, _ = frozen(mode="shadow")
    refuse(shadow, approve, "mode 'shadow'")


# ---- events and settings -----------------------------------------------------------------------------------------------------


def test_shares_of_nothing():
    with pytest.raises(SettingError, match="counted from 1"):
        freeze_share(0.05, 0)
    with pytest.raises(SettingError, match="at least one challenge"):
        challenge_share(0.05, 1, 0)


def test_a_dead_bet_stays_dead():
    part = PartState(0.0, (1.0, 2.0), (math.log(0.5),) * 2, (0, 0))
    part = part.add((5, None)).add((7, 9))
    assert part.sums == (12, None)
