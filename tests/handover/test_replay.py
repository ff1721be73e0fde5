"""Replay of events, and events that do not follow from those before them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gate_cases import frozen, run

from aegis.errors import InputError
from aegis.handover import (
    Flipped,
    Frozen,
    replay_events,
    verify_events,
)


def test_events_that_do_not_follow_one_another():
    state, events = frozen(delta=0.5, patience=1)
    state = run(state, 12, lambda item, what: 0.45, events)
    assert replay_events(events) == state
    place = next(index for index, event in enumerate(events) if isinstance(event, Frozen))
    flip = next(index for index, event in enumerate(events) if isinstance(event, Flipped))
    wrong = replace(events[flip], policy="something else")  # type: ignore[type-var]
    for damaged, match in [
        ([], "found none"),
        (events[1:], "begin with 'opened', found 'unit'"),
        ([events[0], *events], "a second 'opened'"),
        ([events[0], *events[2:]], "expected episode 1, found 2"),
        ([*events[: place + 1], *events[place + 2 :]], "expected episode 2, found 3"),
        ([*events[:place], *events[place + 1 :]], "it is not open"),
        ([*events[: flip + 1], events[flip - 1]], "no open challenge '1-dose-2'"),
    ]:
        with pytest.raises(InputError, match=match):
            replay_events(damaged)  # type: ignore[arg-type]
    for damaged, match in [
        ([*events[: place + 1], *events[place:]], "challengers cannot be frozen now"),
        ([*events[: flip + 1], *events[flip:]], "'flip' cannot have happened there"),
        ([*events[:flip], wrong], "policy: 'something else' is recorded"),
        (events[:flip], "the events end before 'flip'"),
    ]:
        with pytest.raises(InputError, match=match):
            verify_events(damaged)
