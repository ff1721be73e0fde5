"""Policies: the controller in charge, candidates, mixtures and hybrids of them, and their folders."""

from aegis.policies.capped import Capped, cap
from aegis.policies.columns import TargetColumns
from aegis.policies.contrast import Cell, Difference, LevelContrast, contrast, level_chances, lookup
from aegis.policies.floored import Floored
from aegis.policies.full_columns import FullColumns, columns_read
from aegis.policies.functions import Function, load_callable
from aegis.policies.hybrid import Hybrid
from aegis.policies.incumbent import (
    StatedIncumbent,
    exploration_rate,
    known_incumbent,
    stated_levels,
    with_incumbent,
    without_exploration,
)
from aegis.policies.kinds import POLICIES
from aegis.policies.legacy import Legacy
from aegis.policies.logged import Logged
from aegis.policies.mixture import (
    Mixture,
    path_full,
    path_taken,
    path_weights,
    sequential_full,
    sequential_taken,
    sequential_weights,
)
from aegis.policies.rules import (
    RULES,
    Constant,
    Epsilon,
    Gaussian,
    Natural,
    Nearest,
    Rule,
    Shares,
    Sign,
    Softmax,
    Uniform,
    rule_of,
)
from aegis.policies.state import State, Storable
from aegis.policies.store import load_policy, load_record, load_stored, pack, policy_digest, save_policy, unpack

__all__ = [
    "POLICIES",
    "RULES",
    "Capped",
    "Cell",
    "Constant",
    "Difference",
    "Epsilon",
    "Floored",
    "FullColumns",
    "Function",
    "Gaussian",
    "Hybrid",
    "Legacy",
    "LevelContrast",
    "Logged",
    "Mixture",
    "Natural",
    "Nearest",
    "Rule",
    "Shares",
    "Sign",
    "Softmax",
    "State",
    "StatedIncumbent",
    "Storable",
    "TargetColumns",
    "Uniform",
    "cap",
    "columns_read",
    "contrast",
    "exploration_rate",
    "known_incumbent",
    "level_chances",
    "load_callable",
    "load_policy",
    "load_record",
    "load_stored",
    "lookup",
    "pack",
    "path_full",
    "path_taken",
    "path_weights",
    "policy_digest",
    "rule_of",
    "save_policy",
    "sequential_full",
    "sequential_taken",
    "sequential_weights",
    "stated_levels",
    "unpack",
    "with_incumbent",
    "without_exploration",
]
