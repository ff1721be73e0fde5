"""Lower bounds of a mean, the samples they are computed from, and the table BOUNDS of all of them by name."""

from aegis.evidence.bounds.base import Bound
from aegis.evidence.bounds.pac_bayes import PacBayesBound, Particles
from aegis.evidence.bounds.prism import BoundOrigin, PublishedBound
from aegis.evidence.bounds.sample import PublishedSample, Quantity, UnitSample, bet_centre
from aegis.evidence.bounds.table import BETTING, BOUNDS, MATCHED, REWEIGHED, SHARP, BoundMethod, BoundPath

__all__ = [
    "BETTING",
    "BOUNDS",
    "MATCHED",
    "REWEIGHED",
    "SHARP",
    "Bound",
    "BoundMethod",
    "BoundOrigin",
    "BoundPath",
    "PacBayesBound",
    "Particles",
    "PublishedBound",
    "PublishedSample",
    "Quantity",
    "UnitSample",
    "bet_centre",
]
