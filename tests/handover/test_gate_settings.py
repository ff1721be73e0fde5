"""Settings of a gate: what is allowed, and that they survive JSON."""

from __future__ import annotations

import json
import math

import pytest
from gate_cases import frozen, propose, run, through_json

from aegis.errors import InputError, SettingError
from aegis.handover import (
    GateSettings,
    event_to_plain,
    open_gate,
    replay_events,
)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"delta": 0}, "greater than 0"),
        ({"delta": 1}, "less than 1"),
        ({"delta": math.nan}, "'delta' should be .* found nan"),
        ({"delta": True}, "a number, found True"),
        ({"delta": "0.05"}, "a number"),
        ({"first": 0}, "equal to 1"),
        ({"first": 1.5}, "whole number"),
        ({"generations": 0}, "equal to 1"),
        ({"patience": 0.9}, "equal to 1"),
        ({"patience": math.inf}, "finite"),
        ({"wider": []}, "1 or more items"),
        ({"caps": [2, 2.0]}, "different"),
        ({"caps": [1, 2]}, "the legacy itself"),
        ({"caps": 2}, "be a list"),
        ({"caps": [math.nan]}, "number from 1"),
        ({"levels": "dose"}, "be a list"),
        ({"mode": "lives"}, "'live', 'approve' or 'shadow'"),
        ({"upgrades": "no"}, "be true or false"),
        ({"floor": 1}, "less than 1"),
        ({"holdback": -0.1}, "equal to 0"),
        ({"share": 0, "stage": 5}, "greater than 0"),
        ({"share": 0.5}, "give both"),
        ({"stage": -1}, "equal to 0"),
        ({"delay": 1}, "unknown key 'delay'"),
    ],
)
def test_settings_that_cannot_be(given: dict[str, object], match: str):
    with pytest.raises(SettingError, match=match):
        GateSettings.of(given)


def test_settings_given_in_python_are_checked_like_those_in_a_file():
    with pytest.raises(SettingError, match="be a list"):
        GateSettings(levels="dose")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no level 'dosis'"):
        open_gate(GateSettings(levels=("dosis",)), ("dose",))


def test_settings_and_uncapped_challengers_survive_strict_json():
    settings = GateSettings(caps=(1.5, math.inf), levels=("dose",), mode="approve", share=0.5, stage=20, holdback=0.1)
    assert GateSettings.of(json.loads(json.dumps(settings.plain(), allow_nan=False))) == settings
    state, events = frozen(propose("dose", math.inf), delta=0.5, patience=1, caps=[math.inf])
    state = run(state, 12, lambda item, what: 0.45, events)
    assert state.at("dose").cap is None  # type: ignore[union-attr]
    assert replay_events(map(through_json, events)) == state
    assert [json.loads(json.dumps(event_to_plain(event))) for event in events] == [
        event_to_plain(through_json(event)) for event in events
    ]
