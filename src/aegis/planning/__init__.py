"""Planning: the recursive value function, decision rules and commit shapes."""

from aegis.planning.commits import COMMITS, Commit
from aegis.planning.integration import Integration
from aegis.planning.planned import Planned, plan
from aegis.planning.recursion import Recursion
from aegis.planning.rules import RULES, Greedy, Rule, Thompson
from aegis.planning.states import States

__all__ = ["COMMITS", "RULES", "Commit", "Greedy", "Integration", "Planned", "Recursion", "Rule", "States", "Thompson", "plan"]
