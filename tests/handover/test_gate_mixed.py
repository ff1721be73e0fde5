"""Episodes in which the legacy stepped in for an agent: no test goes on without them."""

from __future__ import annotations

import pytest
from gate_cases import frozen, opened, propose, run

from aegis.errors import InputError
from aegis.handover import GateState, OperatorAction, Restarted, UnitCounted, step
from aegis.handover.schedule import next_freeze


def counted_three() -> GateState:
    """Return a gate whose challenges, one at each level, have counted three episodes."""
    state, _ = frozen(propose("dose", 2.0), propose("recipe", 2.0), levels=("dose", "recipe"), mode="shadow")
    return run(state, 3, lambda *_: 0.1)


def test_tests_that_would_count_it_are_given_up_at_every_level() -> None:
    before = counted_three()
    assert [item.units for item in before.challenges] == [3, 3]
    after, events = step(before, UnitCounted(before.episode + 1, 0.9, "mixed"))
    assert [type(event) for event in events] == [UnitCounted, Restarted]
    assert not after.challenges and after.start == after.episode and after.freeze == before.freeze and after.spent == before.spent


def test_it_matters_to_nobody_where_nothing_counts_it() -> None:
    state, _ = opened()
    after, events = step(state, UnitCounted(1, 0.9, "mixed"))
    assert [type(event) for event in events] == [UnitCounted] and after.episode == 1


def handed_over(**settings: object) -> GateState:
    """Return a gate that has handed over one of two levels, whose challenges at the other have counted three episodes."""
    state, _ = frozen(propose("dose", 2.0), levels=("dose", "recipe"), delta=0.5, patience=1, upgrades=False, **settings)
    while not state.deployed:
        state = run(state, 1, lambda *_: 0.45)
    state = run(state, next_freeze(state) - state.episode, lambda *_: 0.0)
    state, _ = step(state, [propose("recipe", 2.0)])
    return run(state, 3, lambda *_: 0.1)


def test_other_arms_are_drawn_beforehand_and_are_simply_left_out() -> None:
    before = handed_over(holdback=0.1, share=0.5, stage=100)
    assert [item.units for item in before.challenges] == [3]
    for arm in ("legacy", "before"):
        after, events = step(before, UnitCounted(before.episode + 1, 0.1, arm))
        assert len(events) == 1 and after.challenges == before.challenges


@pytest.mark.parametrize(
    ("settings", "arm"),
    [({}, "legacy"), ({}, "before"), ({"holdback": 0.1}, "before"), ({"share": 0.5, "stage": 100}, "legacy")],
)
def test_nobody_leaves_out_an_episode_afterwards(settings: dict[str, object], arm: str) -> None:
    before = handed_over(**settings)
    with pytest.raises(InputError, match=f"cannot have been left to '{arm}': that takes a '"):
        step(before, UnitCounted(before.episode + 1, 0.1, arm))
    state, _ = frozen(holdback=0.1, share=0.5, stage=100)  # nothing is handed over yet: it is all the legacy's
    with pytest.raises(InputError, match=f"episode 2 cannot have been left to '{arm}'"):
        step(state, UnitCounted(2, 0.1, arm))


def test_what_acted_before_acts_for_the_first_episodes_after_a_flip_only() -> None:
    state = handed_over(share=0.5, stage=4)
    held = state.at("dose")
    assert held is not None and state.episode + 1 >= held.since + 4
    with pytest.raises(InputError, match="left to 'before'"):
        step(state, UnitCounted(state.episode + 1, 0.1, "before"))


def test_an_episode_that_started_before_a_level_was_given_back_may_have_been_held_back() -> None:
    state = handed_over(holdback=0.1)
    state, _ = step(state, OperatorAction("revert", "ann", "drift", 0, "dose"), state.episode + 2)  # two are still open
    for _ in range(2):
        state, _ = step(state, UnitCounted(state.episode + 1, 0.1, "legacy"), state.started)
    with pytest.raises(InputError, match="left to 'legacy'"):
        step(state, UnitCounted(state.episode + 1, 0.1, "legacy"))
