"""How long the soak tests run: in full by `make soak`, or in a short form that CI can afford (`make soak-short`)."""

from __future__ import annotations

import os

SHORT = os.environ.get("AEGIS_SOAK") == "short"


def choose(full: int, short: int) -> int:
    """Return the number of runs of this form."""
    return short if SHORT else full
