"""The published gain over a legacy, and the gate of the published Algorithm 2; neither is a certificate (theory section 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from aegis.evidence.bound import unit_values
from aegis.evidence.grid import Array
from aegis.evidence.published import PublishedBound, Reading, published_bound, published_estimate
from aegis.evidence.smoothed import MARGIN, Temperature

NO_UPPER = "the legacy's value is replaced by its empirical mean, without an upper bound"


@dataclass(frozen=True, slots=True)
class Gate:
    """What Algorithm 2 decides at one look: hand over if the estimate reaches the legacy's mean plus the margin."""

    hands_over: bool
    estimate: PublishedBound
    legacy_mean: float
    margin: float

    @property
    def label(self) -> str:
        """Return what must stand next to the decision wherever it is shown."""
        return f"{self.estimate.label}; {NO_UPPER}"


def published_gain(
    values: Array,
    legacy_values: Array,
    delta: float,
    lam: Temperature,
    largest: float,
    kl: float = 0.0,
    weights: Array | None = None,
    reading: Reading | None = None,
    margin: float = MARGIN,
) -> PublishedBound:
    """Return `LS estimate - mean(legacy) - (KL + log(2/delta)) / (lam K)`, the published gain form.

    legacy_values `[M]`: unit means of the legacy's rewards. Nothing is subtracted for the error of their mean: not a certificate.
    """
    bound = published_bound(values, delta, lam, largest, kl, weights, reading, margin)
    legacy = float(unit_values(legacy_values).mean())
    value = bound.estimate - legacy - (kl + math.log(2.0 / delta)) / (bound.lam * bound.units)
    claim = f"the gain over the comparator in {bound.claim}"
    return replace(bound, method="published gain", value=value, unmet=(*bound.unmet, NO_UPPER), claim=claim)


def algorithm_2_gate(
    values: Array,
    legacy_values: Array,
    delta: float,
    largest: float,
    kl: float = 0.0,
    weights: Array | None = None,
    gain: float = 0.0,
    lam: Temperature = "closed form",
    reading: Reading | None = None,
) -> Gate:
    """Return the decision of the published Algorithm 2: `LS estimate >= mean(legacy) + gain`, nothing subtracted."""
    estimate = published_estimate(values, delta, lam, largest, kl, weights, reading)
    legacy = float(unit_values(legacy_values).mean())
    return Gate(estimate.value >= legacy + gain, estimate, legacy, gain)
