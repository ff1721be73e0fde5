"""The legacy (behaviour policy), as a known rule at every level and as the log recorded it, and the incumbent of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from aegis.errors import PolicyError, SettingError, check_choice
from aegis.policies.base import (
    LevelRule,
    SingleParticle,
    density_of,
    exact_actions,
    one_hot,
    probability_taken,
    quantile_of,
    refuse_undecided,
    set_fields,
    table_of,
)
from aegis.policies.rules import Epsilon, Uniform, rule_from_description
from aegis.problem import AnyArray, Array, Batch, Incumbent, Level, LevelTable, Policy, Problem, Scope, State, augmented_context

INCUMBENT_ROUND_OFF = 1e-6  # of logged probabilities


@dataclass(frozen=True, slots=True)
class Logged(SingleParticle):
    """The propensities in the batch; one particle. A propensity missing from the log stays nan.

    It cannot act: a batch under construction has no propensities, and PolicyError says so.

    Parameters
    ----------
    problem
        The problem of the log.
    """

    kind: ClassVar[str] = "logged"
    problem: Problem

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        table = table_of(batch, level)
        refuse_undecided(level, table)
        return table.mu_taken[None]

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`; PolicyError if only the taken action's propensity was recorded."""
        recorded = table_of(batch, level).mu_full
        if recorded is None:
            raise PolicyError(
                f"level '{level}': the batch does not hold the probabilities of all actions; log one column per action "
                "(propensity: columns), or describe the controller as a known policy"
            )
        return recorded[None]

    def state(self) -> State:
        """Return the kind alone: everything else is in the batch."""
        return State(self.kind)

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Logged:
        """Build the policy from its state."""
        return cls(problem)


@dataclass(frozen=True, slots=True)
class Legacy(SingleParticle):
    """A known controller: one rule per level; one particle.

    Parameters
    ----------
    problem
        The problem that the controller acts on.
    rules
        One rule per level, by level name.

    Raises
    ------
    PolicyError
        If a level has no rule, if a rule names no level, or if a rule does not fit its level.
    """

    kind: ClassVar[str] = "legacy"
    problem: Problem
    rules: Mapping[str, LevelRule]

    def __post_init__(self) -> None:
        names = self.problem.names
        for name in self.rules:
            check_choice(name, names, "level of a legacy", PolicyError)
        missing = [name for name in names if name not in self.rules]
        if missing:
            raise PolicyError(f"legacy: every level needs a rule; none for {', '.join(missing)}")
        set_fields(self, rules={name: self.rules[name] for name in names})
        for name, rule in self.rules.items():
            if isinstance(rule, type) or not isinstance(rule, LevelRule):
                raise PolicyError(f"legacy: level '{name}' needs a rule such as Uniform(), found {rule!r}")
            rule.check(self.problem.level(name), self.problem.visible(name))

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`."""
        spec, table = self.problem.level(level), table_of(batch, level)
        rows = augmented_context(self.problem, batch, level)
        return self.rules[level].probabilities(spec, rows, len(table), table.available)[None]

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        spec, table = self.problem.level(level), table_of(batch, level)
        if spec.actions.continuous:
            rows = augmented_context(self.problem, batch, level)
            return density_of(self.rules[level], spec, rows, len(table), exact_actions(level, table))[None]
        return probability_taken(self.full(level, batch), spec, table)

    def drawn(self, level: str, batch: Batch, uniform: Array) -> Array:
        """Return the number `[1, n]` taken from an interval for uniform numbers `[n]`."""
        spec, table = self.problem.level(level), table_of(batch, level)
        return quantile_of(self.rules[level], spec, augmented_context(self.problem, batch, level), len(table), uniform)[None]

    def state(self) -> State:
        """Return the rules as plain data."""
        return State(self.kind, {"rules": {name: rule.describe() for name, rule in self.rules.items()}})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> Legacy:
        """Build the policy from its state."""
        return cls(problem, {name: rule_from_description(description) for name, description in state.setting("rules").items()})


@dataclass(frozen=True, slots=True)
class StatedIncumbent(SingleParticle):
    """The incumbents of a problem, level by level; one particle.

    At a level without one, and at one that is declared to be `logged`, it is the policy that wrote the log.

    Parameters
    ----------
    problem
        The problem that states the incumbents.

    Raises
    ------
    PolicyError
        If a rule does not fit its level.
    """

    kind: ClassVar[str] = "incumbent"
    problem: Problem

    def __post_init__(self) -> None:
        for level in self.problem.levels:
            rule = _rule(level)
            if rule is not None:
                rule.check(level, self.problem.visible(level.name))

    @property
    def levels(self) -> Scope:
        """The levels at which it is not the policy that wrote the log."""
        return stated_levels(self.problem)

    def full(self, level: str, batch: Batch) -> Array:
        """Return `[1, n, A]`; PolicyError if the batch does not hold what the incumbent is read from."""
        spec, table = self.problem.level(level), table_of(batch, level)
        if level not in self.levels:
            return Logged(self.problem).full(level, batch)
        rule = _rule(spec)
        if rule is not None:
            rows = augmented_context(self.problem, batch, level)
            return rule.probabilities(spec, rows, len(table), table.available)[None]
        if spec.comparator is not None and spec.comparator.columns:
            if table.incumbent is None:
                raise _absent(level, spec.comparator.columns[0])
            return table.incumbent[None]
        return one_hot(_meant(spec, table), spec.actions.count)[None]

    def taken(self, level: str, batch: Batch) -> Array:
        """Return `[1, n]`."""
        spec, table = self.problem.level(level), table_of(batch, level)
        if level not in self.levels:
            return Logged(self.problem).taken(level, batch)
        rule = _rule(spec)
        if rule is not None and spec.actions.continuous:
            rows = augmented_context(self.problem, batch, level)
            return density_of(rule, spec, rows, len(table), exact_actions(level, table))[None]
        if rule is None and not (spec.comparator is not None and spec.comparator.columns):
            return (_meant(spec, table) == table.action).astype(np.float64)[None]
        return probability_taken(self.full(level, batch), spec, table)

    def state(self) -> State:
        """Return the incumbents as plain data, by level."""
        stated = {level.name: level.comparator.plain() for level in self.problem.levels if level.comparator is not None}
        return State(self.kind, {"stated": stated})

    @classmethod
    def restore(cls, state: State, problem: Problem) -> StatedIncumbent:
        """Build the policy from its state; PolicyError if the problem states another incumbent by now."""
        policy = cls(problem)
        if policy.state().settings != dict(state.settings):
            raise PolicyError(
                f"policy of kind 'incumbent': it was made for the incumbent {state.settings.get('stated')}, and the problem "
                f"states {policy.state().settings['stated']}; learn it again"
            )
        return policy


def incumbent_misfit(level: str, batch: Batch, taken: Array, full: Array | None, most: float | None) -> tuple[int, str] | None:
    """Return the first decision of a level that an incumbent does not fit, and why; None if it fits all.

    Parameters
    ----------
    taken, full
        Its probabilities of the actions taken, `[n]`, and of all actions, `[n, A]`, or None.
    most
        The largest ratio of its probability to the logged one that is declared or follows from the design; None if none is.
    """
    table = batch.levels[level]
    if table.available is not None and full is not None:
        masked = ((full > INCUMBENT_ROUND_OFF) & ~table.available).any(axis=1)
        if masked.any():
            return int(np.argmax(masked)), "it would take an action that is not available there"
    if most is None:
        return None
    wrong = taken > most * table.mu_taken * (1.0 + INCUMBENT_ROUND_OFF) + INCUMBENT_ROUND_OFF
    if full is not None and table.mu_full is not None:
        wrong = wrong | (full > most * table.mu_full * (1.0 + INCUMBENT_ROUND_OFF) + INCUMBENT_ROUND_OFF).any(axis=1)
    if not wrong.any():
        return None
    return int(np.argmax(wrong)), (
        f"its probability exceeds the logged one more than {most:.4g} times, which was declared or follows from 'epsilon'"
    )


def stated_levels(problem: Problem) -> Scope:
    """Return the levels whose incumbent is stated, or known from `{base, epsilon}`, and is not the policy that wrote the log."""
    return Scope(level.name for level in problem.levels if level.comparator is not None and not level.comparator.logged)


def with_incumbent(problem: Problem, legacy: Policy) -> Problem:
    """Return the problem with a known legacy, without its exploration, as the incumbent of every level.

    Parameters
    ----------
    problem
        The problem whose log the legacy writes.
    legacy
        A `Legacy`, one rule per level. `Epsilon(rule, epsilon)` explores around `rule`: `rule` is the incumbent. A rule without
        exploration is the policy that writes the log.

    Raises
    ------
    SettingError
        If the legacy is not made of rules: state the incumbent in the problem instead.
    """
    if not isinstance(legacy, Legacy):
        raise SettingError(
            f"the incumbent of a {type(legacy).__name__} is not known; state it at each level of the problem ('incumbent')"
        )
    return replace(problem, levels=tuple(_stated(level, legacy.rules[level.name]) for level in problem.levels))


def known_incumbent(problem: Problem, legacy: Policy) -> Problem:
    """Return the problem with its incumbents: those that it states, else the legacy without its exploration if that is known."""
    if any(level.comparator is not None for level in problem.levels) or not isinstance(legacy, Legacy):
        return problem
    return with_incumbent(problem, legacy)


def without_exploration(legacy: Policy) -> Policy:
    """Return a legacy of rules without its exploration; any other policy as it is."""
    if not isinstance(legacy, Legacy):
        return legacy
    return Legacy(legacy.problem, {name: unexplored_rule(rule) for name, rule in legacy.rules.items()})


def unexplored_rule(rule: LevelRule) -> LevelRule:
    """Return a rule without the exploration around it."""
    while isinstance(rule, Epsilon):
        rule = rule.rule
    return rule


def exploration_rate(rule: LevelRule) -> float:
    """Return the share of decisions in which a rule explores uniformly; 0 if it does not."""
    if not isinstance(rule, Epsilon):
        return 0.0
    inner = exploration_rate(rule.rule)
    return rule.epsilon if inner == 0.0 else 1.0 - (1.0 - rule.epsilon) * (1.0 - inner)


def _stated(level: Level, rule: LevelRule) -> Level:
    bare, rate = unexplored_rule(rule), exploration_rate(rule)
    if bare is rule or rate == 1.0:
        return replace(level, incumbent=Incumbent(policy="logged"))
    return replace(level, incumbent=Incumbent(policy=bare.describe(), epsilon=rate))


def _rule(level: Level) -> LevelRule | None:
    own = level.comparator
    if own is None or own.policy is None or own.logged:
        return None
    return rule_from_description(own.policy) if isinstance(own.policy, Mapping) else Uniform()


def _meant(level: Level, table: LevelTable) -> AnyArray:
    """Return the index `[n]` of the action that a deterministic incumbent takes."""
    own = level.comparator
    if own is not None and own.action is not None:
        return np.full(len(table), own.index(level.actions))
    if table.base is None:
        raise _absent(level.name, "" if own is None or own.base is None else own.base)
    return table.base


def _absent(level: str, column: str) -> PolicyError:
    return PolicyError(
        f"level '{level}': the decisions do not hold the incumbent's column '{column}'; read them from a log that has it, or "
        "state the incumbent as a rule under 'policy'"
    )
