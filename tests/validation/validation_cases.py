"""Small studies for the tests of this folder."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from coverage_gates import gates
from coverage_studies import all_kinds, by_reward, null, studies, two_neighbours

__all__ = ["all_kinds", "by_reward", "gates", "null", "studies", "two_neighbours"]
