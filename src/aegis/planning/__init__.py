"""Planning: the recursive value function, decision rules and commit shapes."""

from collections.abc import Callable

from aegis.planning.bernoulli_mix import BernoulliMix
from aegis.planning.by_level import ByLevel
from aegis.planning.commits import COMMITS, Commit
from aegis.planning.d_optimal import DOptimal
from aegis.planning.effort import suited
from aegis.planning.greedy import Greedy
from aegis.planning.ids import Ids
from aegis.planning.information import Information
from aegis.planning.integration import Integration
from aegis.planning.kinds import KINDS, load_policy, load_rewards
from aegis.planning.lcb import Lcb
from aegis.planning.planned import Planned, plan
from aegis.planning.planned_values import PlannedValues
from aegis.planning.recursion import Recursion
from aegis.planning.rules import Choice, Rule
from aegis.planning.states import States
from aegis.planning.thompson import Thompson
from aegis.planning.together import Together
from aegis.planning.top_k import TopK
from aegis.planning.ucb import Ucb

# Rules by name; `ByLevel` composes two of them and is therefore not one of them.
RULES: dict[str, Callable[..., Rule]] = {
    "thompson": Thompson,
    "greedy": Greedy,
    "ucb": Ucb,
    "lcb": Lcb,
    "ids": Ids,
    "d_optimal": DOptimal,
    "top_k": TopK,
    "mix": BernoulliMix,
}

__all__ = [
    "COMMITS", "KINDS", "RULES", "BernoulliMix", "ByLevel", "Choice", "Commit", "DOptimal", "Greedy", "Ids", "Information",
    "Integration", "Lcb", "Planned", "PlannedValues", "Recursion", "Rule", "States", "Thompson", "Together", "TopK", "Ucb",
    "load_policy", "load_rewards", "plan", "suited",
]  # fmt: skip
