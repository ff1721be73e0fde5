"""The state of a gate as plain data: the same state comes back, bit for bit."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest

from aegis.errors import InputError
from aegis.evidence import Grid
from aegis.handover import (
    AuditNote,
    Challenge,
    ClaimState,
    GateSettings,
    GateState,
    Paused,
    Postponed,
    Restarted,
    Waiting,
    gate_state_from_plain,
    gate_state_to_plain,
)
from aegis.handover.challenge import PartState
from aegis.handover.gate_state import Deployed, MonitorState


def full_state() -> GateState:
    """A state with something in every field."""
    part = PartState.start(0.1, Grid(np.array([0.1, 1 / 3]), np.log([0.5, 0.5]), 0))
    part = replace(part, sums=(2**80 + 1, None))
    claim = replace(ClaimState("gain", 1 / 3, 0.01, -1.0, 1.0, (part,)), count=7)
    challenge = Challenge(
        name="1-dose-1",
        freeze=1,
        level="dose",
        kind="handover",
        policy="p",
        since=4,
        cap=math.inf,
        claims=(claim,),
        crossed=5,
        gain_lower=0.1 + 0.2,
    )
    deployed = Deployed("dose", "1-dose-1", "p", None, 3, 0.1 + 0.2, 0.5, (("recipe", "c"),), ("recipe",), True, ((1, 2),), 2)
    pause = Paused(3, "why", "code", None, "fix")
    return GateState(
        settings=GateSettings(mode="shadow", caps=(2.0, math.inf)),
        levels=("dose", "recipe"),
        episode=9,
        start=2,
        phases=3,
        audited=4,
        freeze=5,
        freezes=6,
        spent=0.1 + 0.2,
        challenges=(challenge,),
        deployed=(deployed,),
        retired=(replace(deployed, cap=2.0),),
        monitor=MonitorState(0.3, 4, (5e-324, 1.7976931348623157e308, math.inf)),
        monitored_since=7,
        alarms=8,
        alarmed=9,
        paused="because",
        refusals=(pause,),
        resumed=Restarted(3, 4, "again"),
        put_off=Postponed(4, "doubt", "code"),
        notes=(AuditNote(4, "moves", "code", "dose", "fix"),),
        waiting=(Waiting("dose", "1-dose-1", 4, "asks"),),
        late=3,
    )


def test_the_same_state_comes_back_through_json() -> None:
    empty = GateState(GateSettings(), ("dose",))
    assert all(getattr(full_state(), item.name) != getattr(empty, item.name) for item in fields(GateState))
    for state in (full_state(), GateState(GateSettings(), ("dose",))):
        again = gate_state_from_plain(json.loads(json.dumps(gate_state_to_plain(state))))
        assert again == state
        assert repr(again) == repr(state)  # types and every bit of the numbers, too


def test_plain_data_that_are_no_state_are_refused() -> None:
    plain = gate_state_to_plain(full_state())
    for wrong in ({}, {**plain, "more": 1}, {**plain, "challenges": [{}]}, {**plain, "resumed": plain["put_off"]}):
        with pytest.raises(InputError, match="damaged"):
            gate_state_from_plain(wrong)
    plain["challenges"][0]["progress"]["claims"][0]["sums"] = [[1.5, None]]
    with pytest.raises(InputError, match="whole numbers"):
        gate_state_from_plain(plain)
