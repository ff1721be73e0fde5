"""Exploration while data are collected: the legacy, and for a share of its decisions an exploring plan of the host.

During data collection the paper's AEGIS-UCB explores by upper confidence bounds, its AEGIS-IDS by information-directed sampling.
Behind the challenger gate that is `nu = (1 - share) legacy + share plan` at every level the legacy controls. The plan is frozen
when challengers are frozen, so it knows closed episodes only. Both parts answer with probabilities, so that those of nu are exact
and are logged.

Gains are over the legacy without any exploration, at each level `nu = (1 - epsilon) mu + epsilon q`. epsilon is fixed before the
first episode; q may follow the past. Each factor of a test has mean at most one given the past, whatever q has become.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from aegis.errors import SettingError
from aegis.handover.hosts.base import Explorer, Host, host_seed
from aegis.handover.run_history import History
from aegis.policies import Epsilon, Floored, Legacy, exploration_rate, unexplored_rule
from aegis.problem import Incumbent, Level, Policy, Problem


def check_exploration(problem: Problem, legacy: Policy, host: Host) -> None:
    """Raise SettingError unless the host can explore, and the incumbent under the exploration is known for sure."""
    if not isinstance(host, Explorer):
        raise SettingError(
            f"gate: 'explore' acts on a plan of the host, and host '{host.name}' has none to explore by; take one that learns "
            "the mechanisms, such as ucb"
        )
    if not isinstance(legacy, Legacy):
        raise SettingError(
            f"gate: 'explore' compares with the legacy without its exploration, which is not known of a {type(legacy).__name__}; "
            "take a legacy of rules, or let your own controller explore and state the incumbent in the problem file"
        )
    if any(level.comparator is not None for level in problem.levels):
        raise SettingError(
            "gate: 'explore' changes the policy that writes the log, and the problem states its incumbent; leave out "
            "'incumbent', or 'explore'"
        )


def with_explored_incumbent(problem: Problem, legacy: Legacy, share: float) -> Problem:
    """Return the problem with the legacy, without any exploration, as the incumbent of every level.

    share: of the decisions, left to an exploring plan beside the exploration that the legacy has already.
    """
    return replace(problem, levels=tuple(_explored(level, legacy, share) for level in problem.levels))


def _explored(level: Level, legacy: Legacy, share: float) -> Level:
    rule = legacy.rules[level.name]
    rate = exploration_rate(rule)
    bare = rule if rate == 1.0 or not isinstance(rule, Epsilon) else unexplored_rule(rule)
    epsilon = share if bare is rule else 1.0 - (1.0 - share) * (1.0 - rate)
    return replace(level, incumbent=Incumbent(policy=bare.describe(), epsilon=epsilon))


def explored_legacy(host: Host, history: History, levels: Sequence[str], share: float, seed: int) -> Policy:
    """Return the legacy with a share of its decisions, at these levels, left to the host's exploring plan."""
    if not levels or not isinstance(host, Explorer):
        return history.legacy
    plan = host.explore(history, levels, host_seed(host, seed))
    return Floored(history.problem, history.legacy, plan, share, levels)
