"""A gate that looks from time to time is restored from its events, and an edited line is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aegis.errors import PolicyError
from aegis.handover import (
    HOSTS,
    make_gate,
    run_in_folder,
)
from aegis.worlds import make_world

WORLD = make_world("additive", f_a=2.0, inner_steps=3)


def test_a_gate_that_looks_from_time_to_time_names_the_line_too(tmp_path: Path) -> None:
    def looking() -> Any:
        return make_gate("published", WORLD, WORLD.legacy("uniform"), HOSTS["greedy"](), {"stride": 10}, 1)

    run_in_folder(tmp_path, looking(), 30)
    path = tmp_path / "events.jsonl"
    lines = path.read_text().splitlines()
    unit = json.loads(lines[5])
    path.write_text("\n".join([*lines[:5], json.dumps({**unit, "reward": 0.9}), *lines[6:]]) + "\n")
    with pytest.raises(PolicyError, match=r"events.jsonl: line 6 .*'unit', reward: 0\.9 is recorded"):
        run_in_folder(tmp_path, looking(), 30)
    invented = {"kind": "restarted", "episode": 30, "since": 31, "why": "so"}
    path.write_text("\n".join([*lines, json.dumps(invented)]) + "\n")
    with pytest.raises(PolicyError, match=r"line 32 .*replaying the run does not produce 'restarted'"):
        run_in_folder(tmp_path, looking(), 30)
