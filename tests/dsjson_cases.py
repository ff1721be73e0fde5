"""Events of Vowpal Wabbit as tests write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from aegis.rng import stream

ITEMS = ("politics", "sports", "music")


def event(number: int = 1, **changes: Any) -> dict[str, Any]:
    """Return an event in which the second of three actions was taken."""
    found = {
        "_label_cost": -1.0,
        "_label_probability": 0.7,
        "_label_Action": 2,
        "_labelIndex": 1,
        "Version": "1",
        "EventId": f"event-{number}",
        "Timestamp": f"2021-07-29T10:00:{number % 60:02d}.1234567Z",
        "a": [2, 1, 3],
        "p": [0.7, 0.2, 0.1],
        "c": {
            "user": {"age": 0.5 + number, "city": "Oslo" if number % 2 else "Bonn"},
            "_multi": [{"_tag": item, "item": {"id": item, "length": 3}} for item in ITEMS],
        },
        "VWState": {"m": "model-1"},
    }
    found |= changes
    return {key: value for key, value in found.items() if value is not None}


def written(path: Path, *events: Any) -> Path:
    """Write events, or lines, into a file."""
    path.write_text("".join((one if isinstance(one, str) else json.dumps(one)) + "\n" for one in events), encoding="utf-8")
    return path


def simulated(count: int) -> list[dict[str, Any]]:
    """Return events of a bandit that explores; the second action is best for the young, the third for others."""
    rng = stream(3, "dsjson")
    found = []
    for number in range(count):
        age = float(rng.random())
        chances = [0.5, 0.25, 0.25]
        taken = int(rng.choice(3, p=chances))
        reward = float(rng.random() < (0.9 if taken == (1 if age < 0.5 else 2) else 0.1))
        order = [taken, *[place for place in range(3) if place != taken]]
        found.append(
            event(
                number,
                a=[place + 1 for place in order],
                p=[chances[place] for place in order],
                c={"user": {"age": age}, "_multi": [{"item": {"id": item}} for item in ITEMS]},
                _labelIndex=taken,
                _label_Action=taken + 1,
                _label_probability=chances[taken],
                _label_cost=-reward,
            )
        )
    return found
