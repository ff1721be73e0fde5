"""Fixtures for the tests of pages."""

from __future__ import annotations

import pytest
from handover_runs import challenger

from aegis.handover import Handover


@pytest.fixture(scope="session")
def run() -> Handover:
    """Return a run of the gate that hands a level over."""
    return challenger(90)
