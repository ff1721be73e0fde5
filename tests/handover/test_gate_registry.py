"""All gates behind one table."""

from __future__ import annotations

import pytest
from host_cases import leaning_policy, world_of

from aegis.errors import SettingError
from aegis.handover import GATES, HOSTS, GateSettings, Handover, make_gate, replay_events


@pytest.mark.parametrize("name", GATES)
def test_every_gate_runs_alike(name):
    world, told = world_of(), []
    gate = make_gate(name, world, world.legacy("uniform"), HOSTS["greedy"](), None, 1)
    gate.advance(20, told.extend)
    assert gate.state.episode == len(gate.rewards) == len(gate.arms) == 20
    assert sum(len(batch) for batch in gate.batches) == 20
    assert gate.events[1:] == told
    assert replay_events(gate.events) == gate.state
    assert gate.deployed == {}
    assert gate.problem is world.problem
    again = make_gate(name, world, world.legacy("uniform"), HOSTS["greedy"](), None, 1)
    again.restore(gate.events)
    assert again.state == gate.state
    assert again.rewards == gate.rewards


def test_only_the_published_gate_is_no_certificate():
    world = world_of()
    for name in GATES:
        gate = make_gate(name, world, world.legacy("uniform"), HOSTS["greedy"]())
        assert gate.certificate == (name != "published")


@pytest.mark.parametrize("name", ["published", "pac-bayes"])
def test_settings_of_a_challenger_gate_are_taken_if_nothing_of_them_would_be_lost(name):
    world = world_of()
    gate = make_gate(name, world, world.legacy("uniform"), HOSTS["greedy"](), GateSettings(delta=0.01, levels=("inner",)))
    assert gate.settings.delta == 0.01
    assert gate.state.levels == ("inner",)
    with pytest.raises(SettingError, match=f"'{name}' has no 'patience'"):
        make_gate(name, world, world.legacy("uniform"), HOSTS["greedy"](), GateSettings(patience=2.0))


@pytest.mark.parametrize("name", ["pb", "external"])
def test_a_host_that_a_gate_would_not_ask_is_refused(name):
    world = world_of()
    host = HOSTS[name](leaning_policy(world.problem)) if name == "external" else HOSTS[name]()
    for gate in ("published", "pac-bayes"):
        with pytest.raises(SettingError, match=f"found '{name}'"):
            make_gate(gate, world, world.legacy("uniform"), host)


def test_settings_may_be_plain_data():
    world = world_of()
    gate = make_gate("challenger", world, world.legacy("uniform"), HOSTS["greedy"](), {"caps": [2.0, None]})
    assert isinstance(gate, Handover)
    assert gate.settings.caps == (2.0, float("inf"))
    with pytest.raises(SettingError, match="names with values, found a list"):
        make_gate("published", world, world.legacy("uniform"), HOSTS["greedy"](), [1])
    with pytest.raises(SettingError, match="did you mean 'published'"):
        make_gate("publisched", world, world.legacy("uniform"), HOSTS["greedy"]())
