"""The problem as a live gate logs it: exact probabilities of all actions, and beside them those of the legacy."""

from __future__ import annotations

from dataclasses import replace

from aegis.agents.candidates import everywhere_uniform
from aegis.certificate.measures import reward_measure
from aegis.errors import SettingError
from aegis.policies import FullColumns
from aegis.problem import Level, Policy, Problem, Propensity


def live_problem(problem: Problem) -> Problem:
    """Return the problem with one propensity column per action at every level; SettingError if no gate can serve it."""
    if problem.cluster is not None:
        raise SettingError(
            f"a live gate counts episodes one by one; in this problem they depend on each other within '{problem.cluster}'. Log "
            "them and certify from the log (aegis certify), whose units are clusters"
        )
    reward_measure(problem)  # refuses a reward without a range
    reward = replace(problem.reward, closed=None)  # an episode is counted once everything is there
    return replace(problem, levels=tuple(_exact(level) for level in problem.levels), reward=reward)


def legacy_columns(problem: Problem) -> dict[str, tuple[str, ...]]:
    """Return the columns that hold what the legacy would have done, by level."""
    return {level.name: _columns("legacy", level) for level in problem.levels}


def known_legacy(problem: Problem) -> bool:
    """Say whether the problem file says what the legacy does in every state, so that nobody has to tell."""
    return all(level.propensity is not None and level.propensity.policy == "uniform" for level in problem.levels)


def legacy_of(problem: Problem) -> Policy:
    """Return the legacy: as the problem file says, or as it is told with each decision."""
    return everywhere_uniform(problem) if known_legacy(problem) else FullColumns(problem, legacy_columns(problem))


def _exact(level: Level) -> Level:
    given = level.propensity
    if given is not None and given.columns:
        return replace(level, propensity=Propensity(columns=given.columns))
    if given is not None and given.policy == "uniform":
        return level
    return replace(level, propensity=Propensity(columns=_columns("p", level)))


def _columns(prefix: str, level: Level) -> tuple[str, ...]:
    return tuple(f"{prefix}_{level.name}_{place}" for place in range(level.actions.count))
