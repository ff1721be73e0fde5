"""Checks of the audit, one concept per module. A new check is a class in a module here and a row of `CHECKS`."""

from collections.abc import Mapping

from aegis.audit.check import Check
from aegis.audit.checks.calibration import ActionShares
from aegis.audit.checks.carry_over import CarryOver, ClusterSizes, ParentSizes
from aegis.audit.checks.density import DensityActions
from aegis.audit.checks.drift import Drift, Loggers
from aegis.audit.checks.duplicates import DuplicateEpisodes, DuplicateRows
from aegis.audit.checks.independence import EpisodeIndependence
from aegis.audit.checks.interference import SiblingInterference
from aegis.audit.checks.overlap import CandidateOverlap, IncumbentFit
from aegis.audit.checks.propensities import Backdoors, Propensities
from aegis.audit.checks.rewards import FinalReward, RepeatedReward, RewardRanges

# In the order in which an audit lists findings of the same severity. A check may look at the findings of those before it.
CHECKS: Mapping[str, type[Check]] = {
    "backdoors": Backdoors,
    "propensities": Propensities,
    "action-shares": ActionShares,
    "density": DensityActions,
    "rewards": RewardRanges,
    "repeated-reward": RepeatedReward,
    "final-reward": FinalReward,
    "independence": EpisodeIndependence,
    "carry-over": CarryOver,
    "siblings": SiblingInterference,
    "sizes": ParentSizes,
    "clusters": ClusterSizes,
    "drift": Drift,
    "loggers": Loggers,
    "incumbent": IncumbentFit,
    "duplicate-rows": DuplicateRows,
    "duplicate-episodes": DuplicateEpisodes,
    "overlap": CandidateOverlap,
}

__all__ = ["CHECKS"]
