"""Events in words: each kind has a sentence, and what is no certificate is never called one."""

from __future__ import annotations

import math

from aegis.handover import NOT_A_CERTIFICATE, Flipped, Frozen, Handover, UnitCounted
from aegis.ope import reward_measure
from aegis.report import describe_cap, describe_event, describe_held_back, describe_need, describe_wait
from aegis.report.event_text import describe_freeze, format_gain


def test_a_flip_names_level_cap_and_gain_and_whether_it_is_certified(run: Handover) -> None:
    measure = reward_measure(run.problem)
    flip = next(event for event in run.events if isinstance(event, Flipped))
    kind, text = describe_event(flip, measure) or ("", "")
    assert kind == "flip" and f"'{flip.level}'" in text and f"from episode {flip.since} on" in text
    assert f"certified gain at least {format_gain(flip.gain_lower, measure)}" in text
    _, other = describe_event(flip, measure, certificate=False) or ("", "")
    assert NOT_A_CERTIFICATE in other and "certified gain" not in other
    assert "the published estimate of the gain is" in other and "nothing subtracted" in other and "bound" not in other


def test_the_published_gate_hands_over_at_its_margin_too() -> None:
    assert [describe_need("0", certificate) for certificate in (True, False)] == ["needs more than 0", "needs at least 0"]


def test_episodes_and_freezes_have_no_sentence_of_their_own(run: Handover) -> None:
    measure = reward_measure(run.problem)
    frozen = next(event for event in run.events if isinstance(event, Frozen))
    unit = next(event for event in run.events if isinstance(event, UnitCounted))
    assert describe_event(frozen, measure) is None and describe_event(unit, measure) is None
    assert "W = 2" in describe_freeze(frozen)


def test_caps_waits_and_episodes_held_back() -> None:
    assert [describe_cap(cap) for cap in (None, math.inf, 1.5)] == ["no cap", "no cap", "W = 1.5"]
    assert len({describe_wait(mode) for mode in ("live", "approve", "shadow")}) == 3
    rewards = {"held_back": 1.0, "beside": 1.5, "held_back_episodes": 10, "beside_episodes": 20}
    text = describe_held_back({"unit": "EUR", "rewards": rewards})
    assert "a difference of +0.5 EUR" in text and "not a certificate" in text
    assert describe_held_back({"unit": "", "rewards": {**rewards, "held_back": None}}) == ""
