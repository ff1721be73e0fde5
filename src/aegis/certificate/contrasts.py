"""Where candidates differ from their comparator, as plain data for a report; a description, no claim."""

from __future__ import annotations

from typing import Any

import numpy as np

from aegis.certificate.request import Request
from aegis.errors import PolicyError
from aegis.policies import contrast
from aegis.problem import Batch

DECISIONS = 4000  # innermost decisions looked at
BINS = 6  # the bins that differ most, for each level


def differences(request: Request, batch: Batch) -> list[dict[str, Any]]:
    """Return for each candidate and level where it differs, most first; candidates known by columns only are left out."""
    rows = len(batch.levels[request.problem.innermost.name])
    few = max(1, min(len(batch), round(len(batch) * DECISIONS / max(rows, 1))))
    some = batch.take_episodes(np.arange(few))
    levels = [name for name in request.problem.names if any(name in scope for scope in request.scopes)]
    found = []
    for candidate in request.candidates:
        try:
            parts = contrast(request.problem, candidate.policy, some, levels)
        except PolicyError:
            continue
        for part in parts:
            found.append(
                {
                    "candidate": candidate.name,
                    "level": part.level,
                    "decisions": part.overall.decisions,
                    "total_variation": part.overall.total_variation,
                    "favourite_differs": part.overall.favourite_differs,
                    "bins": [
                        {
                            "variable": item.variable,
                            "label": item.label,
                            "decisions": item.difference.decisions,
                            "total_variation": item.difference.total_variation,
                        }
                        for item in part.bins[:BINS]
                    ],
                    "actions": [str(value) for value in request.problem.level(part.level).actions.values],
                    "policy": part.policy.tolist(),
                    "comparator": None if part.comparator is None else part.comparator.tolist(),
                }
            )
    return found
