"""Small logs and tiny episodes of the certificate's tests serve these, too."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "certificate"))
