"""What is decided, in which order, and what is known about causes: the vocabulary every other room speaks."""

from aegis.problem.batch import AnyArray, Array, Batch, Ints, LevelTable, Rows, augmented, chain
from aegis.problem.dumping import dump_problem
from aegis.problem.file import load_problem, parse_problem, save_problem
from aegis.problem.graph import Graph, ancestors, backdoor_admissible, d_separated
from aegis.problem.hashing import (
    Hashes,
    coarse_path_hashes,
    content_digest,
    decision_hashes,
    episode_hashes,
    path_digest,
    row_hashes,
)
from aegis.problem.incumbent import Incumbent
from aegis.problem.joining import concat
from aegis.problem.level import Level, Propensity
from aegis.problem.means import subtree_means
from aegis.problem.problem import Backdoor, Problem, Scope
from aegis.problem.protocols import Plant, Policy, RewardModel
from aegis.problem.reward import Guard, Reward
from aegis.problem.seen import Seen
from aegis.problem.state import State, Storable
from aegis.problem.traces import OFFSETS, Traces, Tracing
from aegis.problem.variables import Actions, Value, Variable, check_resolution
from aegis.problem.windows import at_atom, atom_of, cell_chance, cell_edges, nearest_points, window_density, windows

__all__ = [
    "OFFSETS",
    "Actions",
    "AnyArray",
    "Array",
    "Backdoor",
    "Batch",
    "Graph",
    "Guard",
    "Hashes",
    "Incumbent",
    "Ints",
    "Level",
    "LevelTable",
    "Plant",
    "Policy",
    "Problem",
    "Propensity",
    "Reward",
    "RewardModel",
    "Rows",
    "Scope",
    "Seen",
    "State",
    "Storable",
    "Traces",
    "Tracing",
    "Value",
    "Variable",
    "ancestors",
    "at_atom",
    "atom_of",
    "augmented",
    "backdoor_admissible",
    "cell_chance",
    "cell_edges",
    "chain",
    "check_resolution",
    "coarse_path_hashes",
    "concat",
    "content_digest",
    "d_separated",
    "decision_hashes",
    "dump_problem",
    "episode_hashes",
    "load_problem",
    "nearest_points",
    "parse_problem",
    "path_digest",
    "row_hashes",
    "save_problem",
    "subtree_means",
    "window_density",
    "windows",
]
