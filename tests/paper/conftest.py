"""Small worlds of the tests of handovers serve these, too; the paper's gates are registered."""

from __future__ import annotations

import sys
from pathlib import Path

from aegis.paper import register_gates
from coarse_oracle import coarse_oracle

__all__ = ["coarse_oracle"]
sys.path.insert(0, str(Path(__file__).parents[1] / "handover"))
register_gates()
