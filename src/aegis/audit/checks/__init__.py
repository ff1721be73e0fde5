"""Checks of the audit, one concept per module. A new check is a class in a module here and a row of `CHECKS`."""

from collections.abc import Mapping

from aegis.audit.checks.base import Check
from aegis.audit.checks.carry_over import CarryOver
from aegis.audit.checks.density import DensityActions
from aegis.audit.checks.drift import Drift
from aegis.audit.checks.duplicates import DuplicateEpisodes, DuplicateRows
from aegis.audit.checks.independence import EpisodeIndependence
from aegis.audit.checks.interference import SiblingInterference
from aegis.audit.checks.loggers import IncumbentFit, Loggers
from aegis.audit.checks.overlap import CandidateOverlap
from aegis.audit.checks.propensities import Propensities
from aegis.audit.checks.randomisation import ActionShares, Backdoors
from aegis.audit.checks.reward_units import FinalReward, RepeatedReward
from aegis.audit.checks.rewards import RewardRanges
from aegis.audit.checks.sizes import ClusterSizes, ParentSizes

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

__all__ = ["CHECKS", "Check"]
