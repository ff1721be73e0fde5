"""Small studies for the tests of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from coverage_gates import gates
from coverage_studies import all_kinds, by_reward, null, studies, two_neighbours
from coverage_study import (
    CLUSTER,
    ClaimOutcome,
    Study,
    coverage,
    joint_violations,
    repeat_episodes,
    violation_rates,
)

__all__ = [
    "CLUSTER",
    "ClaimOutcome",
    "Study",
    "all_kinds",
    "by_reward",
    "coverage",
    "gates",
    "joint_violations",
    "null",
    "repeat_episodes",
    "studies",
    "two_neighbours",
    "violation_rates",
]
