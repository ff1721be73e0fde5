"""An operator approves what they have seen, and nothing else."""

from __future__ import annotations

import pytest
from service_cases import key, taken_up

from aegis.service.http_errors import Conflict
from aegis.service.store.database import Database


def test_only_what_was_seen_waiting_is_approved(waiting: Database) -> None:
    with taken_up(waiting) as live:
        (item,) = live.state.opened.waiting
        with pytest.raises(Conflict, match=f"'9-inner-2' no longer waits at level 'inner' \\({item.challenge} does\\)"):
            live.say(key(), "approve", "me", "seen before", "inner", "9-inner-2")
        assert live.state.opened.at("inner") is None
        live.say(key(), "approve", "me", "as seen", "inner", item.challenge)
        held = live.state.opened.at("inner")
        assert held is not None and held.challenge == item.challenge
