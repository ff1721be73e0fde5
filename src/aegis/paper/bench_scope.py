"""What a claim speaks of, against what was run: a claim of other settings, or of more episodes, cannot be tested."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from aegis.paper.bench_file import BenchClaim
from aegis.paper.bench_results import BenchResults, MissingResult

NAMING_ARMS = ("above", "below", "left", "right", "arm")  # entries of a claim that name an arm


def check_scope(claim: BenchClaim, results: BenchResults) -> None:
    """Raise MissingResult if results are not of what a claim speaks of.

    A claim of the paper speaks of the settings of its bench, with any number of seeds. A claim with a `horizon` speaks of so
    many episodes.
    """
    if claim.whose == "paper" and results.changed:
        raise MissingResult(f"settings were changed: {change_words(results.changed)}")
    if claim.horizon is None:
        return
    episodes = [results.episodes(claim.entries[entry]) for entry in NAMING_ARMS if entry in claim.entries]
    run = min((number for number in episodes if number is not None), default=None)
    if run is None or None in episodes:
        raise MissingResult(f"it speaks of {claim.horizon} episodes, and how many were run is not known")
    if run < claim.horizon:
        raise MissingResult(f"it speaks of {claim.horizon} episodes, {run} were run")


def change_words(changes: Mapping[str, Any]) -> str:
    """Return changes of settings in words, such as `world.sigma_q = 6`."""
    return ", ".join(f"{key} = {value if isinstance(value, str) else json.dumps(value)}" for key, value in changes.items())
