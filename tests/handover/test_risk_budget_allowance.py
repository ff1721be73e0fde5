"""What may get worse is allowed once, however often a level changes hands."""

from __future__ import annotations

import pytest
from guarded_plant import Bed

from aegis.handover import HOSTS, Flipped, GateSettings, Handover
from aegis.handover.risk_budget import margin_allowance


def test_all_flips_together_use_what_is_allowed_and_no_more() -> None:
    assert sum(margin_allowance(flips, True) for flips in range(60)) == pytest.approx(1.0)
    assert margin_allowance(0, False) == 1.0
    assert all(margin_allowance(flips, True) > margin_allowance(flips + 1, True) > 0 for flips in range(20))


def test_guards_hold_against_the_legacy_after_upgrades() -> None:
    bed = Bed(0.3)
    run = Handover(bed, bed.legacy, HOSTS["greedy"](), GateSettings(), 1)
    run.advance(200)
    flips = [event.action for event in run.events if isinstance(event, Flipped)]
    assert flips[0] == "handover"
    leaks = [bed.episodes(10_000, 300, policy, 5).guards["leak"].mean() for policy in (run.acting, bed.legacy)]
    assert leaks[0] - leaks[1] <= 0.3
    claims = {c.kind: c.claim("guard leak").margin for c in run.state.challenges}
    assert claims["upgrade"] == pytest.approx(-0.3 * 0.125)


def test_without_upgrades_the_handover_may_use_all_of_it() -> None:
    bed = Bed(0.3)
    run = Handover(bed, bed.legacy, HOSTS["greedy"](), GateSettings(upgrades=False), 1)
    run.advance(15)
    assert {c.claim("guard leak").margin for c in run.state.challenges} == {-0.3}
