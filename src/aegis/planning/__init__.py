"""Planning: the recursive value function, decision rules and commit shapes."""

from collections.abc import Callable

from aegis.planning.base import Choice, EachDraw, OneParticle, Rule, best_actions, mask_closed
from aegis.planning.composite_rules import BernoulliMix, ByLevel
from aegis.planning.information_rules import DOptimal, Ids, Information, TopK
from aegis.planning.integration import COARSE, FINE, MOST_FINE, Integration, default_integration
from aegis.planning.planned_policy import COMMITS, Commit, Planned, plan_policy
from aegis.planning.planned_runs import PlannedRuns
from aegis.planning.recursion import Recursion
from aegis.planning.states import States
from aegis.planning.value_models import POLICY_KINDS, LikelihoodRanks, PessimisticValues, PlannedValues, load_policy, load_rewards
from aegis.planning.value_rules import Greedy, GreedyChoice, Lcb, SpreadChoice, Thompson, ThompsonChoice, Ucb

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
    "COARSE",
    "COMMITS",
    "FINE",
    "MOST_FINE",
    "POLICY_KINDS",
    "RULES",
    "BernoulliMix",
    "ByLevel",
    "Choice",
    "Commit",
    "DOptimal",
    "EachDraw",
    "Greedy",
    "GreedyChoice",
    "Ids",
    "Information",
    "Integration",
    "Lcb",
    "LikelihoodRanks",
    "OneParticle",
    "PessimisticValues",
    "Planned",
    "PlannedRuns",
    "PlannedValues",
    "Recursion",
    "Rule",
    "SpreadChoice",
    "States",
    "Thompson",
    "ThompsonChoice",
    "TopK",
    "Ucb",
    "best_actions",
    "default_integration",
    "load_policy",
    "load_rewards",
    "mask_closed",
    "plan_policy",
]
