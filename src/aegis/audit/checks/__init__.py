"""Checks."""

from aegis.audit.checks.carry_over import CarryOver
from aegis.audit.checks.density import DensityActions
from aegis.audit.checks.drift import Drift
from aegis.audit.checks.duplicates import DuplicateEpisodes, DuplicateRows
from aegis.audit.checks.independence import EpisodeIndependence
from aegis.audit.checks.interference import SiblingInterference
from aegis.audit.checks.loggers import IncumbentFit, Loggers
from aegis.audit.checks.overlap import CandidateOverlap
from aegis.audit.checks.propensities import Propensities
from aegis.audit.checks.randomisation import ActionShares
from aegis.audit.checks.reward_units import FinalReward, RepeatedReward
from aegis.audit.checks.rewards import RewardRanges
from aegis.audit.checks.sizes import ClusterSizes, ParentSizes

__all__ = [
    "ActionShares",
    "CandidateOverlap",
    "CarryOver",
    "ClusterSizes",
    "DensityActions",
    "Drift",
    "DuplicateEpisodes",
    "DuplicateRows",
    "EpisodeIndependence",
    "FinalReward",
    "IncumbentFit",
    "Loggers",
    "ParentSizes",
    "Propensities",
    "RepeatedReward",
    "RewardRanges",
    "SiblingInterference",
]
