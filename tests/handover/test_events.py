"""Events as lines of JSON: what is damaged is refused by field, and the schema comes from the types."""

from __future__ import annotations

import json

import pytest

from aegis.errors import InputError
from aegis.handover import Flipped, event_from_plain, event_to_plain


@pytest.mark.parametrize(
    ("line", "match"),
    [
        ("[]", "an event is a mapping"),
        ('"unit"', "an event is a mapping"),
        ("{}", "one of the kinds"),
        ('{"kind": "units"}', "one of the kinds"),
        ('{"kind": "alarm", "episode": 1}', "is damaged"),
        ('{"kind": "paused", "episode": 1, "why": "x", "who": "y"}', "is damaged.*who"),
        ('{"kind": "paused", "episode": "1", "why": "x"}', "'episode': .*integer, found '1'"),
        ('{"kind": "paused", "episode": true, "why": "x"}', "'episode': .*found True"),
        ('{"kind": "paused", "episode": 1, "why": null}', "'why': .*string, found None"),
        ('{"kind": "unit", "episode": 1, "reward": "x", "arm": "agent", "evidence": {}}', "'reward': .*number, found 'x'"),
        ('{"kind": "unit", "episode": 1, "reward": 1, "arm": "agent", "evidence": []}', "is damaged"),
        ('{"kind": "unit", "episode": 1, "reward": 1, "arm": "agent", "evidence": {"a": {"gain": ["AAA="]}}}', "is damaged"),
        ('{"kind": "unit", "episode": 1, "reward": 1, "arm": "agent", "evidence": {"a": {"gain": ["?"]}}}', "is damaged"),
        ('{"kind": "unit", "episode": 1, "reward": 1, "arm": "agent", "evidence": {"a": {"gain": [7]}}}', "is damaged"),
        ('{"kind": "opened", "settings": {"deltas": 1}, "levels": []}', "did you mean 'delta'"),
        ('{"kind": "opened", "settings": 3, "levels": []}', "is damaged"),
        ('{"kind": "frozen", "freeze": 1, "episode": 1, "since": 2, "challenges": [{}]}', "is damaged"),
    ],
)
def test_lines_that_stand_for_no_event(line: str, match: str):
    with pytest.raises(InputError, match=match):
        event_from_plain(json.loads(line))


@pytest.mark.parametrize("certificate", [True, False])
def test_only_a_flip_that_is_no_certificate_is_marked(certificate: bool):
    flip = Flipped("inner", "c", "handover", None, "policy", 40, 41, 30, 0.1, 0.0, certificate)
    plain = event_to_plain(flip)
    assert event_from_plain(json.loads(json.dumps(plain))) == flip
    assert plain.get("certificate") is (None if certificate else False)
