"""The benchmark's plant that runs several seeds in one call, for tests."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

_PATH = Path(__file__).parents[2] / "benchmarks" / "many_seeds.py"
_SPEC = importlib.util.spec_from_file_location("many_seeds", _PATH)
many_seeds = sys.modules["many_seeds"] = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(many_seeds)
ManySeedsWorld = many_seeds.ManySeedsWorld
