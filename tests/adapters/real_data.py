"""Where the published files are that tests read if they can: a folder that AEGIS_DATA names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FILES = {
    "heartsteps": "heartsteps/suggestions.csv",
    "hillstrom": "hillstrom/hillstrom.csv",
    "oats": "oats/yates.oats.tsv",
    "open-bandit": "obp-0.4.1-py3-none-any.whl",
}


def published(name: str) -> Path:
    """Return the folder with the published files; skip the test if that of the data set `name` is not there."""
    folder = os.environ.get("AEGIS_DATA")
    if not folder:
        pytest.skip(f"set AEGIS_DATA to a folder with {', '.join(FILES.values())} to read the published data")
    if not (Path(folder) / FILES[name]).exists():
        pytest.skip(f"AEGIS_DATA={folder} has no {FILES[name]}, which this test reads")
    return Path(folder)
