"""Agents as rows of data: a model, a commit shape and a rule. Nothing else distinguishes them."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from aegis.errors import SettingError, choose, nearest
from aegis.mechanisms import ModelSettings
from aegis.planning import COMMITS, RULES, Integration, Rule


@dataclass(frozen=True, slots=True)
class Agent:
    """What learns and acts: `model` x `commit` x `rule`; `rule_settings` are the rule's parameters."""

    name: str
    model: ModelSettings = field(default_factory=ModelSettings)
    commit: str = "nested"
    rule: str = "thompson"
    rule_settings: dict[str, Any] = field(default_factory=dict)
    integration: Integration = field(default_factory=Integration)
    about: str = ""

    def __post_init__(self) -> None:
        choose(self.commit, COMMITS, "commit shape")
        choose(self.rule, RULES, "rule")
        self.make_rule()

    def make_rule(self) -> Rule:
        """Return the rule with its parameters."""
        allowed = [item.name for item in fields(RULES[self.rule])]
        for key in self.rule_settings:
            if key not in allowed:
                listed = ", ".join(allowed) or "none"
                raise SettingError(f"rule '{self.rule}' has no setting '{key}'{nearest(key, allowed)}; settings: {listed}")
        return RULES[self.rule](**self.rule_settings)


_ROWS = (
    Agent("nested_cts", about="nested causal Thompson sampling (Algorithm 1), linear mechanisms"),
    Agent("nested_greedy", rule="greedy", about="the same model and recursion, acting on the posterior mean"),
    Agent("nested_poly", ModelSettings(features="polynomial"), about="Algorithm 1 with products and squares as features"),
    Agent("joint_cts", commit="joint", about="all actions committed at the outermost decision, at the mean inner context"),
    Agent("flat_cts", commit="flat", about="factorised model, plans the innermost level only"),
    Agent("flat_ts", ModelSettings(structure="joint"), commit="flat", about="one regression of the reward, innermost level only"),
    Agent("flat_joint", ModelSettings(structure="cells"), commit="joint", about="a table over all actions (Thompson per cell)"),
)
AGENTS: dict[str, Agent] = {agent.name: agent for agent in _ROWS}
