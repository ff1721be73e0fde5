"""Agents as rows of data: a model, a commit shape and one or two rules."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from aegis.errors import SettingError, check_choice, did_you_mean
from aegis.mechanisms import ModelSettings
from aegis.planning import COMMITS, RULES, ByLevel, Integration, Rule

PRIOR_EPISODES = 20


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent as a row of data: `model` x `commit` x `rule`.

    Parameters
    ----------
    name
        Its name.
    model
        The model of the mechanisms.
    commit
        When actions are fixed, a name of `aegis.planning.COMMITS`.
    rule, rule_settings
        The rule that chooses actions, a name of `aegis.planning.RULES`, and its parameters.
    outer_rule, outer_settings
        A rule for all levels but the innermost, with its parameters; without one `rule` acts everywhere.
    integration
        How it plans through unknown contexts; None lets the number of levels decide (`aegis.planning.default_integration`).
    standardise
        Whether inputs and targets are put in units of their spread in a short log of the legacy; None means yes for random
        features, whose length-scales are in those units.
    about
        A description in a few words.

    Raises
    ------
    SettingError
        If a rule, a commit shape or a parameter of a rule does not exist.
    """

    name: str
    model: ModelSettings = field(default_factory=ModelSettings)
    commit: str = "nested"
    rule: str = "thompson"
    rule_settings: dict[str, Any] = field(default_factory=dict)
    outer_rule: str | None = None
    outer_settings: dict[str, Any] = field(default_factory=dict)
    integration: Integration | None = None
    standardise: bool | None = None
    about: str = ""

    def __post_init__(self) -> None:
        check_choice(self.commit, COMMITS, "commit shape")
        if self.outer_rule is None and self.outer_settings:
            raise SettingError(
                f"agent '{self.name}' has settings of an outer rule ({', '.join(self.outer_settings)}) but no outer rule"
            )
        self.make_rule()

    @property
    def prior_episodes(self) -> int:
        """Return how many episodes of the legacy are logged, before a run, to standardise by."""
        wanted = self.model.features == "fourier" if self.standardise is None else self.standardise
        return PRIOR_EPISODES if wanted else 0

    def with_particles(self, particles: int) -> Agent:
        """Return the agent with so many beliefs drawn per episode, by whichever of its rules draws some."""
        rules = {"rule_settings": self.rule, "outer_settings": self.outer_rule}
        keys = [key for key, rule in rules.items() if rule is not None and "particles" in _settings_of(rule)]
        if not keys:
            names = " and ".join(f"'{rule}'" for rule in rules.values() if rule is not None)
            raise SettingError(f"agent '{self.name}' draws no particles: its rule {names} has no such setting; leave them out")
        changed: dict[str, Any] = {key: {**getattr(self, key), "particles": particles} for key in keys}
        return replace(self, **changed)

    def make_rule(self) -> Rule:
        """Return the rule with its parameters."""
        rule = _build_rule(self.rule, self.rule_settings)
        return rule if self.outer_rule is None else ByLevel(_build_rule(self.outer_rule, self.outer_settings), rule)


def _settings_of(rule: str) -> list[str]:
    return list(inspect.signature(RULES[rule]).parameters)


def _build_rule(name: str, settings: Mapping[str, Any]) -> Rule:
    check_choice(name, RULES, "rule")
    allowed = _settings_of(name)
    for key in settings:
        if key not in allowed:
            listed = ", ".join(allowed) or "none"
            raise SettingError(f"rule '{name}' has no setting '{key}'{did_you_mean(key, allowed)}; settings: {listed}")
    return RULES[name](**settings)


FOURIER_MODEL = ModelSettings(features="fourier", linear_terms=False)
JOINT_MODEL = ModelSettings(structure="joint", features="fourier", linear_terms=False)
LINEAR_MODEL = ModelSettings()

# The agents of the paper's table, on its random-feature class; then the same on linear mechanisms (its NIG backend) and our own.
_ROWS = (
    Agent("nested_cts", FOURIER_MODEL, about="nested causal Thompson sampling (Algorithm 1)"),
    Agent("flat_cts", FOURIER_MODEL, commit="flat", about="factorised model, plans the innermost level only"),
    Agent("flat_ts", JOINT_MODEL, commit="flat", about="one regression of the reward, innermost level only"),
    Agent(
        "joint_cts",
        FOURIER_MODEL,
        commit="joint",
        about="all actions committed at the outermost decision, at the mean inner context",
    ),
    Agent("aegis_cts", FOURIER_MODEL, rule="lcb", outer_rule="thompson", about="nested_cts with a pessimistic innermost action"),
    Agent(
        "aegis_handover", FOURIER_MODEL, rule="lcb", outer_rule="thompson", about="aegis_cts, to be put behind a handover gate"
    ),
    Agent("flat_joint", ModelSettings(structure="cells"), commit="joint", about="a table over all actions (Thompson per cell)"),
    # The paper names these two without defining them: 'targeted' is read as choosing the outer action for its value.
    Agent("icts_type2", FOURIER_MODEL, about="factorised and targeted: every level planned, as nested_cts"),
    Agent(
        "icts_type1", FOURIER_MODEL, commit="flat", about="factorised, not targeted: outer levels left to the legacy, as flat_cts"
    ),
    Agent("nested_nig", LINEAR_MODEL, about="Algorithm 1 on linear mechanisms"),
    Agent("greedy_nig", LINEAR_MODEL, rule="greedy", about="linear mechanisms, acting on the posterior mean"),
    Agent("ucb_nig", LINEAR_MODEL, rule="ucb", about="linear mechanisms, posterior mean plus spread"),
    Agent("lcb_nig", LINEAR_MODEL, rule="lcb", about="linear mechanisms, posterior mean minus the paper's shrinking pessimism"),
    Agent("ids_nig", LINEAR_MODEL, rule="ids", about="linear mechanisms, information-directed sampling"),
    Agent(
        "d_optimal_nig",
        LINEAR_MODEL,
        outer_rule="d_optimal",
        about="outer levels take the most informative action, Thompson inside",
    ),
    Agent("top_k_nig", LINEAR_MODEL, outer_rule="top_k", about="outer levels take Thompson's best of the 3 most informative"),
    Agent("mix_nig", LINEAR_MODEL, outer_rule="mix", about="outer levels are D-optimal in every other episode on average"),
    Agent("nested_poly", ModelSettings(features="polynomial"), about="Algorithm 1 with products and squares as features"),
)
AGENTS: dict[str, Agent] = {agent.name: agent for agent in _ROWS}
