"""The gates of the paper are registered by name, and registering them again changes nothing."""

from __future__ import annotations

import pytest

from aegis.errors import SettingError
from aegis.handover import GATES, HOSTS, GateKind, make_gate, register_gate
from aegis.paper import PublishedGate, register_gates
from aegis.paper.gates import PAPER_GATES
from aegis.worlds import make_world


def test_the_gates_are_there_by_name() -> None:
    register_gates()
    register_gates()
    assert {name: GATES[name] for name in PAPER_GATES} == dict(PAPER_GATES)
    world = make_world("additive", inner_steps=3)
    gates = {name: make_gate(name, world, world.legacy("uniform"), HOSTS["greedy"](), {"stride": 10}, 1) for name in PAPER_GATES}
    assert not gates["published"].certificate and gates["pac-bayes"].certificate
    with pytest.raises(SettingError, match="there is another gate 'published' already"):
        register_gate("published", GateKind(PublishedGate, dict))
