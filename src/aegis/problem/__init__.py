"""What is decided, in which order, and what is known about causes: the vocabulary every other room speaks."""

from aegis.problem.batch import AnyArray, Array, Batch, Ints, LevelTable, Rows, augmented, chain
from aegis.problem.dumping import dump_problem
from aegis.problem.file import load_problem, parse_problem, save_problem
from aegis.problem.graph import Graph, ancestors, backdoor_admissible, d_separated
from aegis.problem.joining import concat
from aegis.problem.level import Level, Propensity
from aegis.problem.problem import Backdoor, Problem, Scope
from aegis.problem.protocols import Plant, Policy, RewardModel
from aegis.problem.reward import Guard, Reward
from aegis.problem.state import State, Storable
from aegis.problem.variables import Actions, Value, Variable

__all__ = [
    "Actions",
    "AnyArray",
    "Array",
    "Backdoor",
    "Batch",
    "Graph",
    "Guard",
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
    "State",
    "Storable",
    "Value",
    "Variable",
    "ancestors",
    "augmented",
    "backdoor_admissible",
    "chain",
    "concat",
    "d_separated",
    "dump_problem",
    "load_problem",
    "parse_problem",
    "save_problem",
]
