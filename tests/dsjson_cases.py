"""Events of Vowpal Wabbit as tests write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
