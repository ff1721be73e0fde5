"""Weights that average more than one, with too little evidence to refuse them: the finding, and its words."""

from __future__ import annotations

import math
from collections.abc import Sequence

from aegis.audit.finding import Finding, finding

DOUBT = 20.0  # evidence from which one is warned
LEAST = 1e-6  # chances below this are not told apart


def doubtful_weights(candidate: str, levels: Sequence[str], mean: float, log_evidence: float) -> Finding:
    """Return the finding that the weights of a candidate at some levels average more than one, with the evidence for it."""
    return finding(
        "doubtful-weights",
        "warning",
        f"the weights of {candidate} at {', '.join(map(repr, levels))} average {mean:.4g}, those of a policy average one: a log "
        f"in order comes to such weights with a chance of {chance(log_evidence)}",
        mean_weight=mean,
        log10_evidence=log_evidence / math.log(10),
    )


def chance(log_evidence: float) -> str:
    """Return the largest chance of so much evidence in a log that is in order, in words: wealth W is reached with 1/W at most."""
    largest = math.exp(-log_evidence)
    return f"at most {100 * largest:.2g} %" if largest >= LEAST else "less than one in a million"
