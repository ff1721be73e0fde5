"""Who acted in an episode: by the policies that it started with, not by who is in control when it is counted."""

from __future__ import annotations

import pytest
from service_cases import counting_here, inner, key, meta, run_plant, small_plant, taken_up

from aegis.service.live_episodes import LiveEpisode
from aegis.service.live_gate import LiveGate
from aegis.service.schemas import Report
from aegis.service.status import GateStatus
from aegis.service.store.database import Database


def begun(live: LiveGate, name: str) -> None:
    """Open an episode with both of its decisions."""
    live.open_episode(key(), name)
    live.decide(key(), name, meta())
    live.decide(key(), name, inner("i"))


def ended(live: LiveGate, name: str) -> None:
    """Report what came of it, and close it."""
    live.report(key(), [Report(episode=name, decision="i", reward=0.0, outcome=0.0)])
    live.close(key(), name)


@pytest.mark.parametrize(
    ("arm", "policies", "who"),
    [
        ("agent", {"inner": "1-inner-2"}, "agent"),
        ("agent", {}, "legacy"),
        ("legacy", {}, "legacy"),
        ("before", {}, "legacy"),
        ("before", {"inner": "1-inner-2"}, "agent"),
        ("mixed", {}, "mixed"),
        ("mixed", {"inner": "1-inner-2"}, "mixed"),
    ],
)
def test_who_acted(arm: str, policies: dict[str, str], who: str) -> None:
    assert LiveEpisode("e", "now", arm=arm, policies=policies).who() == who


def test_episodes_are_booked_by_who_acted_in_them(waiting: Database) -> None:
    with taken_up(waiting) as live:
        reading = GateStatus(live)
        counting, before = counting_here(live), live.state.started
        begun(live, "legacys")
        live.say(key(), "approve", "me", "for a test", "inner")
        begun(live, "agents")
        live.open_episode(key(), "both")
        live.decide(key(), "both", meta())
        live.overrule(key(), "both", inner("i"), -2.0, True)
        for name in ("legacys", "agents", "both"):
            ended(live, name)
        while counting.once():
            pass
        assert live.state.opened.episode == before + 3
        assert {who: count for who, (_, count) in reading.earned.items()} == {"legacy": 1, "agent": 1, "mixed": 1}
        run_plant(small_plant(), live, live.state.started, 1, counting)  # the last block is closed by what follows
        blocks = {first: who for first, _, _, who in reading.paths.rewards if first > before}
        assert blocks == {before + 1: "legacy", before + 2: "agent", before + 3: "mixed"}
        shown = reading.gate()["earned"]
        assert (shown["agent"]["episodes"], shown["legacy"]["episodes"], shown["mixed"]["episodes"]) == (2, 1, 1)
