"""Bounds."""

from aegis.evidence.bounds.base import Bound
from aegis.evidence.bounds.pac_bayes import PacBayesBound, Particles
from aegis.evidence.bounds.prism import BoundOrigin, PublishedBound

__all__ = ["Bound", "BoundOrigin", "PacBayesBound", "Particles", "PublishedBound"]
