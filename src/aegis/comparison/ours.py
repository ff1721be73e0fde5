"""The bounds of an AEGIS certificate as rows of a comparison."""

from __future__ import annotations

from aegis.certificate.certificate import LevelResult
from aegis.comparison.found import Findings, Found
from aegis.comparison.results import What
from aegis.evidence import Bound

CERTIFICATE = "AEGIS certificate"
QUANTITIES: tuple[What, ...] = ("value", "gain")
MET = ("candidate, bets and models were fixed without the certified units", "the assumptions that the certificate lists")


def certified_bounds(result: LevelResult, found: Findings) -> list[Found]:
    """Return value and gain of a certificate at one scope; what is refused has no number, which is noted."""
    bounds = []
    for what in QUANTITIES:
        test = next((item for item in result.tests if item.what == what), None)
        if test is None or test.lower_scaled is None:
            found.lacks(CERTIFICATE, f"no {what}: {result.reason}")
            continue
        bound = Bound(CERTIFICATE, test.lower_scaled, test.delta, test.units, "anytime", MET, ())
        told = {"evidence": list(test.method), "centres": list(test.centres), "verdict": result.verdict}
        bounds.append(Found(CERTIFICATE, what, bound, 0.0, told))
    return bounds
