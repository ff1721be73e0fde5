"""Episodes in which the legacy stepped in for an agent: no test goes on without them."""

from __future__ import annotations

from gate_cases import frozen, opened, propose, run

from aegis.handover.events import Restarted, Unit
from aegis.handover.gate import step
from aegis.handover.state import GateState


def counted_three() -> GateState:
    """Return a gate whose challenges, one at each level, have counted three episodes."""
    state, _ = frozen(propose("dose", 2.0), propose("recipe", 2.0), levels=("dose", "recipe"), mode="shadow")
    return run(state, 3, lambda *_: 0.1)


def test_tests_that_would_count_it_are_given_up_at_every_level() -> None:
    before = counted_three()
    assert [item.units for item in before.challenges] == [3, 3]
    after, events = step(before, Unit(before.episode + 1, 0.9, "mixed"))
    assert [type(event) for event in events] == [Unit, Restarted]
    assert not after.challenges and after.start == after.episode and after.freeze == before.freeze and after.spent == before.spent


def test_it_matters_to_nobody_where_nothing_counts_it() -> None:
    state, _ = opened()
    after, events = step(state, Unit(1, 0.9, "mixed"))
    assert [type(event) for event in events] == [Unit] and after.episode == 1


def test_other_arms_are_drawn_beforehand_and_are_simply_left_out() -> None:
    before = counted_three()
    for arm in ("legacy", "before"):
        after, events = step(before, Unit(before.episode + 1, 0.1, arm))
        assert len(events) == 1 and after.challenges == before.challenges
