"""Agents as rows of data: a model, a commit shape and one or two rules. Nothing else distinguishes them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aegis.errors import SettingError, choose, nearest
from aegis.mechanisms import ModelSettings
from aegis.planning import COMMITS, RULES, ByLevel, Integration, Rule


@dataclass(frozen=True, slots=True)
class Agent:
    """What learns and acts: `model` x `commit` x `rule`; `rule_settings` are the rule's parameters.

    outer_rule: a rule for all levels but the innermost, with its own `outer_settings`; without one `rule` acts everywhere.
    """

    name: str
    model: ModelSettings = field(default_factory=ModelSettings)
    commit: str = "nested"
    rule: str = "thompson"
    rule_settings: dict[str, Any] = field(default_factory=dict)
    outer_rule: str | None = None
    outer_settings: dict[str, Any] = field(default_factory=dict)
    integration: Integration = field(default_factory=Integration)
    about: str = ""

    def __post_init__(self) -> None:
        choose(self.commit, COMMITS, "commit shape")
        if self.outer_rule is None and self.outer_settings:
            raise SettingError(
                f"agent '{self.name}' has settings of an outer rule ({', '.join(self.outer_settings)}) but no outer rule"
            )
        self.make_rule()

    def make_rule(self) -> Rule:
        """Return the rule with its parameters."""
        rule = _build(self.rule, self.rule_settings)
        return rule if self.outer_rule is None else ByLevel(_build(self.outer_rule, self.outer_settings), rule)


def _build(name: str, settings: Mapping[str, Any]) -> Rule:
    choose(name, RULES, "rule")
    allowed = list(inspect.signature(RULES[name]).parameters)
    for key in settings:
        if key not in allowed:
            listed = ", ".join(allowed) or "none"
            raise SettingError(f"rule '{name}' has no setting '{key}'{nearest(key, allowed)}; settings: {listed}")
    return RULES[name](**settings)


_ROWS = (
    Agent("nested_cts", about="nested causal Thompson sampling (Algorithm 1), linear mechanisms"),
    Agent("nested_greedy", rule="greedy", about="the same model and recursion, acting on the posterior mean"),
    Agent("nested_ucb", rule="ucb", about="acting on posterior mean plus spread"),
    Agent("nested_lcb", rule="lcb", about="acting on posterior mean minus spread, with the paper's shrinking pessimism"),
    Agent("nested_ids", rule="ids", about="information-directed sampling"),
    Agent("meta_d_optimal", outer_rule="d_optimal", about="outer levels take the most informative action, Thompson inside"),
    Agent("meta_top_k", outer_rule="top_k", about="outer levels take Thompson's best of the 3 most informative, Thompson inside"),
    Agent("meta_mix", outer_rule="mix", about="outer levels are D-optimal in every other episode on average, Thompson inside"),
    Agent("nested_poly", ModelSettings(features="polynomial"), about="Algorithm 1 with products and squares as features"),
    Agent("joint_cts", commit="joint", about="all actions committed at the outermost decision, at the mean inner context"),
    Agent("flat_cts", commit="flat", about="factorised model, plans the innermost level only"),
    Agent("flat_ts", ModelSettings(structure="joint"), commit="flat", about="one regression of the reward, innermost level only"),
    Agent("flat_joint", ModelSettings(structure="cells"), commit="joint", about="a table over all actions (Thompson per cell)"),
)
AGENTS: dict[str, Agent] = {agent.name: agent for agent in _ROWS}
